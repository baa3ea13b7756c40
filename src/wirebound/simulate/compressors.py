"""The compressors: exact bytes of one tensor's payload, how it crosses the network, what coding it takes.

Payloads are whole bytes. Packing rounds up per tensor (per bucket in QSGD); scales and counts are fp32 or int32
headers of 4 bytes; indices are int32; values keep the gradient's own type. A tensor of shape (n, a, b, …) is the
matrix n × (a·b·…), one row for each output unit.

To add a compressor, write the function for its bytes and register it in `COMPRESSORS`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from wirebound.errors import InputError, unknown_name
from wirebound.model import Codec, Compressor, Tensor, Workload
from wirebound.units import SHARE_BOUNDS

INDEX_BYTES = 4
HEADER_BYTES = 4
#: Elements that share a scale in QSGD unless the compressor says otherwise (Alistarh et al. 2017, 4 bits).
QSGD_BUCKET = 512

#: How payloads meet: summed on the way (once, or as PowerSGD's two factors one after the other), gathered by everyone,
#: merged in a tree (gTop-k), or counted as votes.
Travel = Literal["all-reduce", "two-all-reduces", "all-gather", "gtopk-tree", "vote"]


class Gradient(NamedTuple):
    """One tensor as a compressor sees it: its values, the bytes of each, and its `matrix` (None for a vector).

    `summed` is the number of workers whose values a payload holds the sum of, 1 for a worker's own.
    """

    elements: int
    element_bytes: int
    matrix: tuple[int, int] | None
    summed: int = 1


def _kept(gradient: Gradient, share: float) -> int:
    """Values that a sparse compressor keeps: ⌈share · d⌉, at least one if there is one."""
    return min(gradient.elements, max(1, math.ceil(share * gradient.elements)))


def half_bytes(gradient: Gradient, parameter: float, bucket: int) -> int:
    """16 bits for each value (8 where the gradient has no more); no header."""
    return min(2, gradient.element_bytes) * gradient.elements


def onebit_bytes(gradient: Gradient, parameter: float, bucket: int) -> int:
    """1-bit SGD (Seide et al. 2014): ⌈d/8⌉ bytes of signs, then two fp32 means for each output unit.

    What Seide et al. call a column, the weights of one unit, is a row of our matrix; a vector is one column.
    """
    columns = gradient.matrix[0] if gradient.matrix else 1
    return math.ceil(gradient.elements / 8) + 2 * HEADER_BYTES * columns


def signsgd_bytes(gradient: Gradient, parameter: float, bucket: int) -> int:
    """signSGD with majority vote (Bernstein et al. 2018): ⌈d/8⌉ bytes of signs, up and down; no header."""
    return math.ceil(gradient.elements / 8)


def ef_signsgd_bytes(gradient: Gradient, parameter: float, bucket: int) -> int:
    """EF-signSGD (Karimireddy et al. 2019): an fp32 scale ‖p‖₁/d, then ⌈d/8⌉ bytes of signs."""
    return HEADER_BYTES + math.ceil(gradient.elements / 8)


def qsgd_bytes(gradient: Gradient, parameter: float, bucket: int) -> int:
    """QSGD (Alistarh et al. 2017): for each bucket an fp32 norm, then sign and level packed, rounded up.

    Sign and level of s take 1 + ⌈log2(s+1)⌉ bits: fixed width, without the paper's Elias code.
    """
    bits = 1 + int(parameter).bit_length()  # ⌈log2(s+1)⌉ is the bits of s
    buckets, rest = divmod(gradient.elements, bucket)
    size = buckets * (HEADER_BYTES + math.ceil(bucket * bits / 8))
    return size + (HEADER_BYTES + math.ceil(rest * bits / 8) if rest else 0)


def terngrad_bytes(gradient: Gradient, parameter: float, bucket: int) -> int:
    """TernGrad (Wen et al. 2017): an fp32 scale, then −1, 0 or 1 in two bits, rounded up."""
    return HEADER_BYTES + math.ceil(gradient.elements / 4)


def terngrad_shared_bytes(gradient: Gradient, parameter: float, bucket: int) -> int:
    """TernGrad with one scale for all workers: an fp32 scale, then 64-bit words of whole fields.

    The sum of P workers has 2P+1 values, ⌈log2(2P+1)⌉ bits each, as in the paper's pull. An all-reduce adds word by
    word, without a carry from one to the next, so no field may lie in two words.
    """
    bits = max(2, (2 * gradient.summed).bit_length())  # ⌈log2(2P+1)⌉ is the bits of 2P
    return HEADER_BYTES + 8 * math.ceil(gradient.elements / (64 // bits))


def randomk_bytes(gradient: Gradient, parameter: float, bucket: int) -> int:
    """Random-k: the k values alone; all workers draw the same indices from a shared seed."""
    return _kept(gradient, parameter) * gradient.element_bytes


def topk_bytes(gradient: Gradient, parameter: float, bucket: int) -> int:
    """Top-k and gTop-k (Shi et al. 2019): k int32 indices, k values; k follows from the share and needs no header."""
    return _kept(gradient, parameter) * (INDEX_BYTES + gradient.element_bytes)


def dgc_bytes(gradient: Gradient, parameter: float, bucket: int) -> int:
    """DGC (Lin et al. 2018): an int32 count, for a sampled threshold lets k vary, then indices and values as Top-k."""
    return HEADER_BYTES + topk_bytes(gradient, parameter, bucket)


def powersgd_bytes(gradient: Gradient, parameter: float, bucket: int) -> int | None:
    """PowerSGD (Vogels et al. 2019): the factors n×r and m×r, the rank at most n and m.

    None, so uncompressed, for a vector, and where the factors are no smaller than the matrix.
    """
    if gradient.matrix is None:
        return None
    rows, columns = gradient.matrix
    size = gradient.element_bytes * min(int(parameter), rows, columns) * (rows + columns)
    return size if size < gradient.elements * gradient.element_bytes else None


#: Sorting 2,000,000 fp32 values took 3.2 ms on a P100 (https://github.com/pytorch/pytorch/issues/22812): as long as 290
#: passes over them at its 732 GB/s. An estimate: torch 1.1's own topk took 8 times as long, newer ones are faster.
SORT_PASSES = 290.0
#: A threshold from a sample of 1 % (Lin et al. 2018) sorts only that.
SAMPLE_SHARE = 0.01


class Work(NamedTuple):
    """Memory passes over the uncompressed gradient (a read or a write of all its bytes) and kernels launched."""

    encode_passes: float
    decode_passes: float
    encode_kernels: int
    decode_kernels: int


def _touched(share: float) -> float:
    """Share of memory that reading k scattered fp32 values moves: 32 bytes each, never more than all of it."""
    return min(1.0, 8 * share)


@dataclass(frozen=True, slots=True)
class Rule:
    """A compressor's bytes, its way over the network, its coding work, and what its parameter is.

    `payload_bytes` returns None for a tensor that stays uncompressed. `kind` is what `parameter` means: ``none``,
    ``share``, ``levels`` or ``rank``.
    """

    payload_bytes: Callable[[Gradient, float, int], int | None]
    travels: Travel
    work: Callable[[float], Work]
    kind: Literal["none", "share", "levels", "rank"] = "none"

    @property
    def gathers(self) -> bool:
        """Whether a payload cannot be summed on the way, so that its receivers need those of all senders."""
        return self.travels in ("all-gather", "gtopk-tree", "vote")


# Work per value, in passes. Error feedback reads g and e and writes p (3); what is left of p is written back (1 or 2).
# Decoding a gathered payload adds it to the result: read and write (2), or scatter k values (2 · touched).
COMPRESSORS: dict[str, Rule] = {
    # read 4 bytes, write 2; and back
    "fp16": Rule(half_bytes, "all-reduce", lambda _: Work(1.5, 1.5, 1, 1)),
    "bf16": Rule(half_bytes, "all-reduce", lambda _: Work(1.5, 1.5, 1, 1)),
    # error feedback with the means (3), then read p and write e (2)
    "onebit": Rule(onebit_bytes, "all-gather", lambda _: Work(5, 2, 2, 1)),
    # read g
    "signsgd": Rule(signsgd_bytes, "vote", lambda _: Work(1, 2, 1, 1)),
    # as onebit, the norm instead of the means
    "ef-signsgd": Rule(ef_signsgd_bytes, "all-gather", lambda _: Work(5, 2, 2, 1)),
    # norms (1), levels (1)
    "qsgd": Rule(qsgd_bytes, "all-gather", lambda _: Work(2, 2, 2, 1), "levels"),
    # σ (1), clip and maximum (1), ternary values (1)
    "terngrad": Rule(terngrad_bytes, "all-gather", lambda _: Work(3, 2, 3, 1)),
    "terngrad-shared": Rule(terngrad_shared_bytes, "all-reduce", lambda _: Work(3, 2, 3, 1)),
    # error feedback (3), read and clear the chosen, clear the result (1)
    "randomk": Rule(randomk_bytes, "all-reduce", lambda r: Work(4 + 2 * _touched(r), 2 * _touched(r), 4, 1), "share"),
    "topk": Rule(
        topk_bytes, "all-gather", lambda r: Work(4 + SORT_PASSES + 2 * _touched(r), 2 * _touched(r), 8, 1), "share"
    ),
    # momentum and accumulation (5), threshold from a sample, select (1), mask both (4 · touched), clear the result (1)
    "dgc": Rule(
        dgc_bytes,
        "all-gather",
        lambda r: Work(7 + SAMPLE_SHARE * SORT_PASSES + 4 * _touched(r), 2 * _touched(r), 10, 1),
        "share",
    ),
    # as topk; the merges on the way are of 2k values and left out
    "gtopk": Rule(
        topk_bytes, "gtopk-tree", lambda r: Work(4 + SORT_PASSES + 2 * _touched(r), 2 * _touched(r), 8, 1), "share"
    ),
    # error feedback (3), two products (2), residual (2); the result (1)
    "powersgd": Rule(powersgd_bytes, "two-all-reduces", lambda _: Work(7, 1, 6, 1), "rank"),
}

_EXAMPLES = {"share": "topk:0.01", "levels": "qsgd:16 or qsgd:16,512", "rank": "powersgd:4"}
_LARGEST = 1_000_000


def rule_of(compressor: Compressor) -> Rule:
    """Return the rule of a compressor; raises `InputError` with the closest name for an unknown one."""
    if compressor.name not in COMPRESSORS:
        raise unknown_name("compressor", compressor.name, COMPRESSORS)
    return COMPRESSORS[compressor.name]


def compressor_named(text: str, codec: Codec | None = None) -> Compressor:
    """Return the compressor that a text such as ``topk:0.01``, ``qsgd:16,512``, ``powersgd:4`` or ``fp16`` names.

    A codec that is not given is free. Raises `InputError` for an unknown name, or for a value that is missing or out
    of range.
    """
    name, colon, values = text.strip().partition(":")
    if name not in COMPRESSORS:
        raise unknown_name("compressor", name, COMPRESSORS)
    kind = COMPRESSORS[name].kind
    found = [value.strip() for value in values.split(",")] if colon else []
    if kind == "none":
        if found:
            raise InputError(f"compressor {text!r}: {name} takes no value: write {name}")
        return Compressor(name, codec=codec or Codec())
    if not 1 <= len(found) <= (2 if kind == "levels" else 1):
        example = _EXAMPLES[kind].replace("topk", name)
        raise InputError(f"compressor {text!r} needs {_WANTED[kind]}: write {example}")
    parameter = _number(text, found[0], kind)
    bucket = 0
    if kind == "levels":
        bucket = int(_number(text, found[1], "bucket")) if len(found) == 2 else QSGD_BUCKET
    return Compressor(name, parameter, bucket, codec or Codec())


_WANTED = {
    "share": f"the share of values kept, {SHARE_BOUNDS.shown}",
    "levels": f"a whole number of levels, 1 to {_LARGEST:,}",
    "bucket": f"a whole number of elements in a bucket, 1 to {_LARGEST:,}",
    "rank": f"a whole rank, 1 to {_LARGEST:,}",
}


def _number(text: str, value: str, kind: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    fits = SHARE_BOUNDS.has(number) if kind == "share" else 1 <= number <= _LARGEST and number.is_integer()
    if not fits:
        raise InputError(f"compressor {text!r}: {value!r} is not {_WANTED[kind]}")
    return number


def gradient_of(workload: Workload, tensor: Tensor, summed: int = 1) -> Gradient:
    """Return a tensor as compressors see it.

    A tensor of unknown shape counts as the most nearly square matrix n × m with n·m ≥ d, n = ⌊√d⌋: the best case of
    PowerSGD, whose bytes grow with n + m.
    """
    elements = math.ceil(tensor.size / workload.element_bytes)
    if tensor.shape is None:
        rows = math.isqrt(elements)
        matrix = (rows, math.ceil(elements / rows)) if rows > 1 else None
    else:
        matrix = (tensor.shape[0], elements // tensor.shape[0]) if len(tensor.shape) > 1 else None
    return Gradient(elements, workload.element_bytes, matrix, summed)


def payload_bytes(compressor: Compressor, gradient: Gradient) -> int | None:
    """Return the bytes that one tensor is encoded into, None where it stays uncompressed; raises as `rule_of` does."""
    return rule_of(compressor).payload_bytes(gradient, compressor.parameter, compressor.bucket)


def estimated_codec(compressor: Compressor, memory_bandwidth: float, launch_s: float) -> Codec:
    """Return an estimate of what coding costs: memory passes at `memory_bandwidth` (B/s) and `launch_s` per kernel.

    It counts reads and writes of device memory and leaves arithmetic out; `SORT_PASSES` is a measured figure from
    another device. Raises as `rule_of` does.
    """
    work = rule_of(compressor).work(compressor.parameter)
    return Codec(
        encode_s=work.encode_kernels * launch_s,
        encode_s_per_byte=work.encode_passes / memory_bandwidth,
        decode_s=work.decode_kernels * launch_s,
        decode_s_per_byte=work.decode_passes / memory_bandwidth,
    )
