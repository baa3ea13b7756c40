"""PowerSGD (Vogels et al., NeurIPS 2019): a matrix as the product of two thin factors; torch's own hook does it.

P = MQ is all-reduced and orthogonalized, then Q = MᵀP is all-reduced; Q is kept for the next step (warm start), what
PQᵀ misses is added to the next gradient (error feedback). Vectors, and matrices whose factors are no smaller than
themselves, are all-reduced as they are.
"""

import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]

from wirebound.errors import InputError, WireboundError

#: Added to the norm of a column, so that a gradient of zeros has no column divided by 0.
EPSILON = 1e-8
#: torch's hook needs two steps of plain all-reduce, as DDP rebuilds its buckets after the first.
FIRST_STEP = 2


def new_state(rank: int, group: Any = None, *, seed: int = 0, first_step: int = FIRST_STEP) -> Any:
    """Return the state for torch's hook; raises `InputError` for a rank below 1."""
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState

    if rank < 1:
        raise InputError(f"powersgd: rank = {rank} must be at least 1")
    return PowerSGDState(
        group,
        matrix_approximation_rank=rank,
        start_powerSGD_iter=first_step,
        min_compression_rate=1,
        orthogonalization_epsilon=EPSILON,
        random_seed=seed,
    )


def hook(state: Any, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """torch's hook for one bucket: on gloo it waits within a callback, and with several buckets can hang.

    Raises `WireboundError` for a second bucket on gloo, and for a parameter without a dimension, which has no rows.
    """
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import powerSGD_hook

    if not (bucket.index() == 0 and bucket.is_last()) and dist.get_backend(state.process_group) == "gloo":
        raise WireboundError("PowerSGD on gloo needs all gradients in one bucket: give DDP a larger bucket_cap_mb")
    if any(gradient.dim() == 0 for gradient in bucket.gradients()):
        raise WireboundError("PowerSGD cannot take a parameter without a dimension: give it the shape (1,)")
    return powerSGD_hook(state, bucket)


def state_dict(state: Any) -> dict[str, Any]:
    """Return copies of everything but the process group, in plain types and tensors.

    torch's state goes by places in a bucket, and DDP moves parameters to other places after its first step. For a
    resumed run to equal the uninterrupted one, make one step whose gradients are thrown away, then load the state.
    """
    saved = {name: copy.deepcopy(getattr(state, name)) for name in state.__slots__ if name != "process_group"}
    kind, keys, *rest = saved["rng"].get_state()
    return saved | {"rng": [kind, keys.tolist(), *rest]}


def load_state_dict(state: Any, saved: dict[str, Any]) -> None:
    """Take over what `state_dict` returned."""
    for name, value in copy.deepcopy(saved).items():
        if name == "rng":
            state.rng.set_state(tuple(value))
        else:
            setattr(state, name, value)


def payload_bytes(state: Any, tensors: list[Tensor]) -> int:
    """Return the bytes of one step's factors and uncompressed tensors, as torch's hook decides what to compress."""
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import _should_compress

    size = 0
    for tensor in tensors:
        rows = tensor.shape[0] if tensor.dim() else 1
        columns = tensor.numel() // max(1, rows)
        rank = min(rows, columns, state.matrix_approximation_rank)
        compressed, whole, factors = _should_compress(  # type: ignore[no-untyped-call]
            rows, columns, rank, state.min_compression_rate
        )
        size += tensor.element_size() * (factors if compressed else whole)
    return size
