"""From nccl-tests output to a profile of collectives, without a workload."""

from pathlib import Path

from wirebound.errors import InputError
from wirebound.profile.schema import CollectiveTiming, Profile
from wirebound.profile.spread import median
from wirebound.profile.traces.nccl_tests import NcclTests


def samples(tests: NcclTests, path: Path) -> tuple[list[float], list[float]]:
    """Return bytes and seconds of all rows but those of no bytes or no time, both in and out of place.

    Raises `InputError` when the rows contradict each other or the header, or there are none.
    """
    if tests.contradictions:
        raise InputError(f"{path}: is not fit to be fitted: {'; '.join(tests.contradictions)}")
    rows = [row for row in tests.rows if row.size > 0 and row.time_us > 0]
    if not rows:
        reason = next((warning for warning in tests.warnings if "torn" in warning), "it has none")
        raise InputError(f"{path}: has no whole row of nccl-tests: {reason}")
    return [float(row.size) for row in rows], [row.time_us / 1e6 for row in rows]


def nccl_profile(tests: NcclTests, path: Path) -> Profile:
    """Return the times of each size as a profile; raises `InputError` as `samples` does, or without a rank count."""
    sizes, times = samples(tests, path)
    if tests.ranks is None or tests.collective is None:
        raise InputError(f"{path}: tells no number of ranks, or no collective: a profile needs both")
    name = "ring-allreduce" if tests.collective == "all_reduce" else tests.collective.replace("_", "-")
    by_size: dict[float, list[float]] = {}
    for size, time in zip(sizes, times, strict=True):
        by_size.setdefault(size, []).append(round(time, 12))
    warnings = list(tests.warnings)
    if name == "ring-allreduce":
        warnings.append("NCCL may have used a tree or NVLS: the all-reduce is read as a ring's")
    return Profile(
        name=f"nccl-tests {tests.collective} of {tests.ranks} ranks",
        source="wirebound import: nccl-tests output",
        machine={},
        steps=0,
        collectives=tuple(
            CollectiveTiming(name, tests.ranks, int(size), median(own), None, tuple(own), "nccl")
            for size, own in sorted(by_size.items())
        ),
        warnings=tuple(warnings),
    )
