"""FIT.json: what `wirebound fit` writes and `--network` reads. Standard library only."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.files import parse_json, require_input_name
from wirebound.model import Link
from wirebound.simulate.collectives import ring_all_reduce
from wirebound.simulate.uncertainty import DEFAULT_SAMPLES, within_interval

SCHEMA = "wirebound-fit"
VERSION = 1

#: Measured collectives and their cost models: seconds from bytes, ranks, latency and bandwidth.
COLLECTIVE_COSTS: dict[str, Callable[[float, int, float, float], float]] = {"ring-allreduce": ring_all_reduce}

_REMEDY = "make a fit with 'wirebound fit PROFILE.json --out FIT.json'"
#: Values beyond these are mistakes: B/s, s as in a profile, and s/B.
_LARGEST = {"link_bandwidth_Bps": 1e18, "link_latency_s": 1e6, "alpha_s": 1e6, "beta_s_per_byte": 1e6}
_MOST_RANKS = 1_000_000_000
_UNKNOWNS, _INTERVALS = ("alpha_s", "beta_s_per_byte"), ("alpha_ci95", "beta_ci95")


@dataclass(frozen=True, slots=True)
class FittedLink:
    """One link as a fit tells it, bytes per second and seconds; `doubts` is the fit's verdict where it has flags.

    `plausible` are other (bandwidth, latency) that the measurements allow, each as likely as the others, and
    `plausible_from` says where they come from; empty where the file has no intervals or they bound nothing.
    """

    bandwidth: float
    latency_s: float
    doubts: str | None
    plausible: tuple[tuple[float, float], ...] = ()
    plausible_from: str = ""


def link_beneath(alpha_s: float, beta_s_per_byte: float, collective: str, ranks: int) -> Link:
    """Return the link whose `collective` among `ranks` workers takes α + β·S; its bandwidth is infinite where β is 0.

    The cost model is linear in latency and in S/bandwidth, so latency = α ÷ (time at 1 s of latency, free bytes) and
    bandwidth = (time of 1 byte at 1 B/s, no latency) ÷ β; a ring's is `simulate.collectives.ring_all_reduce`.
    """
    cost = COLLECTIVE_COSTS[collective]
    latencies, bytes_on_the_wire = cost(0.0, ranks, 1.0, math.inf), cost(1.0, ranks, 0.0, 1.0)
    bandwidth = math.inf if beta_s_per_byte == 0 else bytes_on_the_wire / beta_s_per_byte
    return Link(bandwidth=bandwidth, latency_s=alpha_s / latencies)


def load_fitted_link(path: Path) -> FittedLink:
    """Read the link from the file of `wirebound fit`; raises `InputError` with one line that names the file."""
    require_input_name(path)
    try:
        document = parse_json(path.read_text(encoding="utf-8-sig"), str(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such fit: make one with 'wirebound fit PROFILE.json --out {path.name}'") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder: {_REMEDY}") from None
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise InputError(f"{path}: is not JSON: {_REMEDY}") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema == "wirebound-profile":
        raise InputError(f"{path}: this is a profile: run 'wirebound fit' on it, and give its FIT.json")
    if schema != SCHEMA:
        raise InputError(f"{path}: is not a fit: {_REMEDY}")
    if document.get("version") != VERSION:
        raise InputError(
            f"{path}: has fit version {document.get('version')!r:.40}: this program reads version {VERSION}"
        )
    bandwidth, latency_s = _number(document, "link_bandwidth_Bps", path), _number(document, "link_latency_s", path)
    if bandwidth == 0:
        raise InputError(f"{path}: link_bandwidth_Bps = 0 must be greater than 0")
    for name in _UNKNOWNS:
        if document.get(name) is not None:
            _number(document, name, path)
    collective = document.get("collective")
    if collective not in list(COLLECTIVE_COSTS):
        raise InputError(
            f"{path}: is the fit of the collective {collective!r:.40}: known are {', '.join(COLLECTIVE_COSTS)}"
        )
    flags, verdict = document.get("flags", []), document.get("verdict", "")
    if not isinstance(flags, list) or not isinstance(verdict, str):
        raise InputError(f"{path}: its flags or its verdict are damaged: {_REMEDY}")
    doubts = (verdict or ", ".join(map(str, flags))) if flags else None
    pairs, source = _plausible_pairs(document, path)
    if pairs:
        ranks = document.get("ranks")
        if isinstance(ranks, bool) or not isinstance(ranks, int) or not 2 <= ranks <= _MOST_RANKS:
            raise InputError(f"{path}: ranks = {ranks!r:.40} must be between 2 and {_MOST_RANKS:,}: {_REMEDY}")
        links = [link_beneath(alpha, beta, collective, ranks) for alpha, beta in pairs]
        _require_near("link_latency_s", latency_s, latency_s, [x.latency_s for x in links], source, path)
        _require_near("link_bandwidth_Bps", bandwidth, 1 / bandwidth, [1 / x.bandwidth for x in links], source, path)
        return FittedLink(bandwidth, latency_s, doubts, tuple((x.bandwidth, x.latency_s) for x in links), source)
    return FittedLink(bandwidth, latency_s, doubts)


def _require_near(field: str, value: float, point: float, others: Sequence[float], source: str, path: Path) -> None:
    """Raise `InputError` where the point lies far from what the same file allows: somebody has edited one of them.

    Far is beyond twice the largest or below half the smallest; a latency may also be lower than that by as much as all
    of them differ, for α is often 0 where few of its resamples are.
    """
    low, high = min(others), max(others)
    lowest = min(low / 2, 2 * low - high) if field == "link_latency_s" else low / 2
    if not lowest <= point <= 2 * high:
        raise InputError(
            f"{path}: {field} = {value:g} contradicts {source}: make it again with 'wirebound fit PROFILE.json --out"
            f" {path.name}'"
        )


def _plausible_pairs(document: dict[str, Any], path: Path) -> tuple[list[tuple[float, float]], str]:
    """Pairs of α and β that the file allows, and where they come from: its bootstrap, or else its intervals."""
    bootstrap = document.get("bootstrap")
    if bootstrap is not None:
        columns = [bootstrap.get(key) if isinstance(bootstrap, dict) else None for key in _UNKNOWNS]
        alphas, betas = (
            _numbers(column, f"bootstrap.{key}", key, path) for key, column in zip(_UNKNOWNS, columns, strict=True)
        )
        if len(alphas) != len(betas):
            raise InputError(
                f"{path}: bootstrap has {len(alphas)} values of alpha_s and {len(betas)} of beta_s_per_byte: {_REMEDY}"
            )
        if alphas:
            return list(zip(alphas, betas, strict=True)), f"{len(alphas)} resamples of its measurements"
    bounds = [document.get(key) for key in _INTERVALS]
    if bounds == [None, None] or any(isinstance(pair, list) and None in pair for pair in bounds):
        return [], ""  # None stands for infinity: two sizes bound nothing
    drawn = []
    for name, field, pair in zip(_UNKNOWNS, _INTERVALS, bounds, strict=True):
        estimate, interval = _numbers([document.get(name)], name, name, path)[0], _numbers(pair, field, name, path)
        if len(interval) != 2 or not interval[0] <= estimate <= interval[1]:
            raise InputError(f"{path}: {field} must be two numbers, around {name} = {estimate:g}: {_REMEDY}")
        drawn.append(within_interval(estimate, (interval[0], interval[1]), random.Random(name), DEFAULT_SAMPLES))
    return list(zip(*drawn, strict=True)), "its intervals of α and β, drawn independently"


def _numbers(values: object, field: str, unknown: str, path: Path) -> list[float]:
    """A list of values of α or β; raises `InputError` that names the field for anything else."""
    if not isinstance(values, list):
        raise InputError(f"{path}: {field} = {values!r:.40} must be a list of numbers: {_REMEDY}")
    for value in values:
        if not _is_number(value, _LARGEST[unknown]):
            raise InputError(
                f"{path}: {field} has {value!r:.40}: it must be between 0 and {_LARGEST[unknown]:g}: {_REMEDY}"
            )
    return [float(value) for value in values]


def _is_number(value: object, largest: float) -> bool:
    """Whether this is a number from 0 to `largest`: NaN compares false, a whole number of any length exactly."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= largest


def _number(document: dict[str, Any], key: str, path: Path) -> float:
    value = document.get(key)
    if value is None:
        raise InputError(
            f"{path}: has no {key}: fit it again with --collective and --ranks, "
            "so that the time of a whole operation is resolved into its links"
        )
    if not _is_number(value, _LARGEST[key]):
        raise InputError(f"{path}: {key} = {value!r:.40} must be between 0 and {_LARGEST[key]:g}: {_REMEDY}")
    return float(value)
