"""FIT.json: what `wirebound fit` writes and `--network` reads. Standard library only."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.simulate.collectives import ring_all_reduce

SCHEMA = "wirebound-fit"
VERSION = 1

#: Measured collectives and their cost models: seconds from bytes, ranks, latency and bandwidth.
COLLECTIVE_COSTS: dict[str, Callable[[float, int, float, float], float]] = {"ring-allreduce": ring_all_reduce}

_REMEDY = "make a fit with 'wirebound fit PROFILE.json --out FIT.json'"
#: Latencies (s) and bandwidths (B/s) beyond these are mistakes.
_LARGEST = {"link_bandwidth_Bps": 1e18, "link_latency_s": 1e9}


@dataclass(frozen=True, slots=True)
class FittedLink:
    """One link as a fit tells it, bytes per second and seconds; `doubts` is the fit's verdict where it has flags."""

    bandwidth: float
    latency_s: float
    doubts: str | None


def load_fitted_link(path: Path) -> FittedLink:
    """Read the link from the file of `wirebound fit`; raises `InputError` with one line that names the file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such fit: make one with 'wirebound fit PROFILE.json --out {path.name}'") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder: {_REMEDY}") from None
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
    collective = document.get("collective")
    if collective not in list(COLLECTIVE_COSTS):
        raise InputError(
            f"{path}: is the fit of the collective {collective!r:.40}: known are {', '.join(COLLECTIVE_COSTS)}"
        )
    flags, verdict = document.get("flags", []), document.get("verdict", "")
    if not isinstance(flags, list) or not isinstance(verdict, str):
        raise InputError(f"{path}: its flags or its verdict are damaged: {_REMEDY}")
    return FittedLink(bandwidth, latency_s, (verdict or ", ".join(map(str, flags))) if flags else None)


def _number(document: dict[str, Any], key: str, path: Path) -> float:
    value = document.get(key)
    if value is None:
        raise InputError(
            f"{path}: has no {key}: fit it again with --collective and --ranks, "
            "so that the time of a whole operation is resolved into its links"
        )
    # NaN compares false; a whole number of any length compares exactly
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST[key]:
        raise InputError(f"{path}: {key} = {value!r:.40} must be between 0 and {_LARGEST[key]:g}")
    return float(value)
