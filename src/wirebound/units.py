"""Parse and print quantities. Inside the package everything is SI: bytes, seconds, bytes per second.

``1 Gbps`` is 125,000,000 B/s. ``MiB`` (2**20 bytes) and ``MB`` (10**6 bytes) are different units and both are accepted.
"""

import difflib
import math
import re
from typing import NamedTuple

from wirebound.errors import InputError

#: Bytes per second in one gigabit per second, and in one megabit per second.
BYTES_PER_S_PER_GBPS = 125_000_000
BYTES_PER_S_PER_MBPS = BYTES_PER_S_PER_GBPS // 1000

#: Seconds in one microsecond.
SECONDS_PER_US = 1e-6


class Bounds(NamedTuple):
    """The smallest and the largest value that is taken for serious, in SI units, and how people read the two."""

    low: float
    high: float
    shown: str

    def has(self, value: float) -> bool:
        """Whether the value lies in them; NaN does not."""
        return self.low <= value <= self.high


#: What no value on a command line exceeds, though it may stand for "as good as infinite". Times end where those of a
#: profile do, and sizes and times may be 0.
BANDWIDTH_BOUNDS = Bounds(125.0, 1e12 * BYTES_PER_S_PER_GBPS, "between 1 kbps and 1e12 Gbps")
SIZE_BOUNDS = Bounds(1.0, 1e18, "between 1 B and 1e6 TB")
DURATION_BOUNDS = Bounds(0.0, 1e6, "between 0 and 1,000,000 s")
#: The same for ratios of compression, and for shares such as a link's utilization.
RATIO_BOUNDS = Bounds(1.0, 1e12, "between 1 and 1e12")
SHARE_BOUNDS = Bounds(1e-6, 1.0, "between 0.000001 and 1")

_SIZES = {
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
_BITS = {"": 1 / 8, "k": 125.0, "M": float(BYTES_PER_S_PER_MBPS), "G": float(BYTES_PER_S_PER_GBPS), "T": 125e9}
_BANDWIDTHS = (
    {f"{prefix}bps": factor for prefix, factor in (_BITS | {"K": 125.0}).items()}
    | {f"{prefix}bit/s": factor for prefix, factor in _BITS.items()}
    | {f"{prefix}b/s": factor for prefix, factor in _BITS.items() if prefix}
    | {f"{unit}/s": factor for unit, factor in _SIZES.items()}
)
_DURATIONS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9, "min": 60.0}
_QUANTITY = re.compile(r" *([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?) *([A-Za-zµμ/]*) *")


def _parse(
    text: str, units: dict[str, float], kind: str, example: str, shown: str, bounds: Bounds | None = None
) -> float:
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(f"{text!r} is not a {kind}: write a number and a unit, such as {example!r}")
    number, unit = float(match[1]), match[2]
    if unit not in units:
        if number == 0 and not unit:
            return 0.0
        problem = f"has the unknown unit {unit!r}:{_closest(unit, units)}" if unit else "has no unit:"
        raise InputError(f"{kind} {text!r} {problem} use one of {shown}, such as {example!r}")
    value = number * units[unit]
    if bounds is not None and value > 0 and not bounds.has(value):
        raise InputError(f"{kind} {text!r} must be {bounds.shown}")
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{kind} {text!r} must be finite and not negative, such as {example!r}")
    return value


def _closest(unit: str, units: dict[str, float]) -> str:
    """Return `` did you mean 'Gbps'? Else`` with the units that differ in case alone, else the closest; or nothing."""
    spellings = {unit.lower(), unit.replace("Bps", "B/s").lower()}  # GBps may be meant as either
    close = [known for known in units if known.lower() in spellings]
    names: dict[float, str] = {}
    for known in close or difflib.get_close_matches(unit, units, n=1, cutoff=0.6):
        names.setdefault(units[known], repr(known))  # one of kB and KB
    return f" did you mean {' or '.join(names.values())}? Else" if names else ""


def parse_bytes(text: str, bounds: Bounds | None = None) -> float:
    """Return a size in bytes, from text such as ``"25 MiB"`` or ``"4 MB"``.

    Raises `InputError`, also for a value out of `bounds`; 0 is always taken.
    """
    return _parse(text, _SIZES, "size", "25 MiB", "B, kB, MB, GB, KiB, MiB, GiB", bounds)


def parse_bandwidth(text: str, bounds: Bounds | None = None) -> float:
    """Return a bandwidth in bytes per second, from text such as ``"10 Gbps"`` or ``"1.25 GB/s"``.

    Raises `InputError` when the unit is unknown, or the value is zero or out of `bounds`.
    """
    value = _parse(text, _BANDWIDTHS, "bandwidth", "10 Gbps", "Mbps, Gbps, Gbit/s, MB/s, GB/s, GiB/s", bounds)
    if value == 0:
        raise InputError(f"bandwidth {text!r} must be greater than zero, such as '10 Gbps'")
    return value


def parse_duration(text: str, bounds: Bounds | None = None) -> float:
    """Return a time in seconds, from text such as ``"20 us"`` or ``"5 ms"``; ``"0"`` needs no unit.

    Raises `InputError`, also for a value out of `bounds`; 0 is always taken.
    """
    return _parse(text, _DURATIONS, "time", "20 us", "s, ms, us, ns", bounds)


def bounded_bytes(text: str) -> float:
    """Return a size as `parse_bytes` does, within `SIZE_BOUNDS`."""
    return parse_bytes(text, SIZE_BOUNDS)


def bounded_bandwidth(text: str) -> float:
    """Return a bandwidth as `parse_bandwidth` does, within `BANDWIDTH_BOUNDS`."""
    return parse_bandwidth(text, BANDWIDTH_BOUNDS)


def bounded_duration(text: str) -> float:
    """Return a time as `parse_duration` does, within `DURATION_BOUNDS`."""
    return parse_duration(text, DURATION_BOUNDS)


def _scaled(value: float, scale: list[tuple[float, str]], digits: int) -> str:
    factor, unit = next((step for step in scale if abs(value) >= step[0]), scale[-1])
    return f"{value / factor:.{digits}g} {unit}"


def format_bytes(value: float, digits: int = 4) -> str:
    """Print bytes with a decimal unit, such as ``102.2 MB``."""
    return _scaled(value, [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")], digits)


def format_binary_bytes(value: float, digits: int = 4) -> str:
    """Print bytes with a binary unit, such as ``64 KiB``."""
    return _scaled(value, [(2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1, "B")], digits)


def format_bandwidth(value: float, digits: int = 4) -> str:
    """Print bytes per second as bits per second, such as ``10 Gbps``."""
    return _scaled(value * 8, [(1e12, "Tbps"), (1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1, "bps")], digits)


def format_duration(value: float, digits: int = 4) -> str:
    """Print seconds with a fitting unit, such as ``128.1 ms``."""
    return _scaled(value, [(1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")], digits)
