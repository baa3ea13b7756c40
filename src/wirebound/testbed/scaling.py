"""A job with smaller gradients: scaled in size and rate together, its steps take as long as before."""

from dataclasses import replace

from wirebound.errors import InputError
from wirebound.model import Method, Workload


def scaled_workload(workload: Workload, factor: float) -> Workload:
    """Return the workload with every gradient `factor` times as large, in whole 32-bit numbers, at least one.

    Compute times stay. Raises `InputError` for a factor that is not greater than 0 and at most 1.
    """
    if not 0 < factor <= 1:
        raise InputError(f"scale {factor:g} must be greater than 0 and at most 1")
    tensors = tuple(
        replace(tensor, size=4 * max(1, round(tensor.size * factor / 4)), shape=None) for tensor in workload.tensors
    )
    return replace(workload, tensors=tensors, gradient_dtype="fp32", vector_add=())


def scaled_method(method: Method, factor: float) -> Method:
    """Return the method with every limit in bytes `factor` times as large, in whole 32-bit numbers."""

    def scaled(limit: float) -> float:
        return limit if limit == float("inf") else 4.0 * max(1, round(limit * factor / 4))

    return replace(
        method,
        fusion_bytes=scaled(method.fusion_bytes),
        bucket_cap_bytes=scaled(method.bucket_cap_bytes),
        first_bucket_bytes=scaled(method.first_bucket_bytes),
        merge_below_bytes=scaled(method.merge_below_bytes) if method.merge_below_bytes else 0.0,
        partition_bytes=scaled(method.partition_bytes),
        credit_bytes=scaled(method.credit_bytes),
    )
