"""Which gradients travel together: leaf functions over sequences, none calling another function of this package.

(One exception: `mg_wfbp_ends` asks `mg_wfbp_merges`, its rule, which `sweep` compiles for many networks at once.)

Gradients are numbered in the order in which backward makes them ready. A rule returns the `ends` of its messages:
message m carries the tensors from ends[m−1] (0 for the first) up to, not including, ends[m]. Sizes are in bytes,
times in seconds.
"""

from collections.abc import Sequence


def bsp_ends(count: int) -> list[int]:
    """One message with all gradients, which is ready when backward ends."""
    return [count]


def wfbp_ends(count: int) -> list[int]:
    """Wait-free backpropagation: one message per tensor (Zhang et al. 2017, Poseidon)."""
    return list(range(1, count + 1))


def horovod_ends(gaps: Sequence[float], sizes: Sequence[float], window: float, threshold: float) -> list[int]:
    """Horovod 0.18 as modelled by Zhang et al. (2020): emit once a window has passed or a buffer is full.

    A message closes with the tensor at which the backward time since the last emit has reached `window` seconds
    or its bytes have reached `threshold`; what is left goes at the end. The window is backward time, not wall clock.
    """
    ends = []
    elapsed = 0.0
    held = 0.0
    for index in range(len(sizes)):
        elapsed += gaps[index]
        held += sizes[index]
        if elapsed >= window or held >= threshold:
            ends.append(index + 1)
            elapsed = 0.0
            held = 0.0
    if not ends or ends[-1] != len(sizes):
        ends.append(len(sizes))
    return ends


def ddp_ends(sizes: Sequence[float], first_limit: float, limit: float) -> list[int]:
    """Buckets of PyTorch's DistributedDataParallel: one closes once it has reached its limit; tensors are never split.

    `sizes` are in ready order, which is the reverse of the registration order. The first bucket's limit is
    `first_limit` bytes (1 MiB), every other's is `limit` (25 MiB): the rule of `compute_bucket_assignment_by_size` in
    torch's reducer.

    What torch 2.13 does around it: without `bucket_cap_mb` the first limit is 1 MiB; a cap that is given explicitly
    is the first bucket's limit as well, so pass it as `first_limit` too. Unless unused parameters are searched for,
    the first iteration has a single bucket, and after it the buckets are rebuilt in the order in which the gradients
    arrived: these are the steady-state buckets that this function returns. Gradients of several types or devices
    never share a bucket there; a workload here has one type.
    """
    ends = []
    held = 0.0
    bound = first_limit
    for index in range(len(sizes)):
        held += sizes[index]
        if held >= bound:
            ends.append(index + 1)
            held = 0.0
            bound = limit
    if not ends or ends[-1] != len(sizes):
        ends.append(len(sizes))
    return ends


def mg_wfbp_merges(wait: float, startup: float, size: float, merge_below: float) -> bool:
    """Whether MG-WFBP lets the next tensor join: `wait` is from the message's possible start until it is ready.

    `size` is that of the message's last tensor so far (see `mg_wfbp_ends`).
    """
    return wait <= 0 or wait < startup or size < merge_below


def mg_wfbp_ends(
    ready: Sequence[float], sizes: Sequence[float], startup: float, seconds_per_byte: float, merge_below: float
) -> list[int]:
    """Merged-gradient WFBP (Shi et al. 2019): merge where waiting for the next tensor costs less than a start-up.

    The cost of a message is α + β·S with α = `startup`, β = `seconds_per_byte`. The tensor after a message joins it if
    the message could not start before that tensor is ready, or if the wait is shorter than α. The published code also
    lets a tensor of fewer than 8,192 elements wait for the next one: that is `merge_below` in bytes, 0 to leave it out.
    The rule is greedy, not optimal.
    """
    ends = []
    free = 0.0
    held = 0.0
    for index in range(len(sizes)):
        held += sizes[index]
        start = max(free, ready[index])
        if index + 1 < len(sizes):
            wait = ready[index + 1] - start
            if mg_wfbp_merges(wait, startup, sizes[index], merge_below):
                continue
        ends.append(index + 1)
        free = start + startup + seconds_per_byte * held
        held = 0.0
    return ends


def partition_sizes(size: float, limit: float) -> list[float]:
    """Cut a message of `size` bytes into pieces of `limit` bytes and a rest.

    What rounding leaves, less than a billionth of a piece, is no rest: it goes with the last piece.
    """
    pieces = []
    left = size
    while left > limit * (1 + 1e-9):
        pieces.append(limit)
        left -= limit
    pieces.append(left)
    return pieces
