"""What --batch does to compute time: it follows the batches that a profile measured, else it is in proportion."""

from typing import TYPE_CHECKING

from wirebound.model import Workload

if TYPE_CHECKING:
    from wirebound.profile.schema import Profile

PROPORTIONAL = "compute time in proportion to the batch"


def with_measured_batches(workload: Workload, profile: "Profile", batch: int | None) -> tuple[Workload, str]:
    """Return the workload, so that other batches follow the lines fitted to the profile's, and what that assumes."""
    from wirebound.fit.batches import fit_batch_scaling

    scaling = fit_batch_scaling(profile.batch_samples)
    measured = scaling.backward.batches
    rule = f"compute time over the batch follows lines fitted to measured batches of {measured[0]} to {measured[-1]}"
    if batch is not None and not measured[0] <= batch <= measured[-1]:
        rule += f", and {batch} lies outside"
    if scaling.doubts is not None:
        rule += f" (in doubt: {scaling.doubts})"
    return scaling.applied_to(workload), rule
