"""What a compressor makes of one tensor: bytes of a worker's payload and of the sum, and how payloads meet."""

import math
from dataclasses import dataclass

#: Bytes of an fp32 value, an int32 index, a scale.
WORD = 4

MET = {"fp16": "sum", "randomk": "sum", "topk": "gather", "ef-signsgd": "gather", "qsgd": "gather"}
MET |= {"signsgd": "vote", "gtopk": "tree"}


@dataclass(frozen=True)
class Load:
    """Bytes of the gradient, of a worker's payload, and of what comes back."""

    raw: float = 0.0
    own: float = 0.0
    back: float = 0.0

    def __add__(self, other):
        return Load(self.raw + other.raw, self.own + other.own, self.back + other.back)

    def times(self, share):
        return Load(self.raw * share, self.own * share, self.back * share)


def payload(compressor, size):
    """Bytes of `size` bytes of fp32 gradient."""
    values = size // WORD
    kept = max(1, math.ceil(compressor.parameter * values))
    if compressor.name == "fp16":
        return 2 * values
    if compressor.name == "randomk":
        return kept * WORD
    if compressor.name in ("topk", "gtopk"):
        return kept * (WORD + WORD)
    if compressor.name == "signsgd":
        return -(-values // 8)
    if compressor.name == "ef-signsgd":
        return WORD - (-values // 8)
    bits = 1 + math.ceil(math.log2(compressor.parameter + 1))
    buckets = [compressor.bucket] * (values // compressor.bucket)
    buckets += [values % compressor.bucket] if values % compressor.bucket else []
    return sum(WORD + math.ceil(values_in * bits / 8) for values_in in buckets)


def code_of(tensor, method):
    """(compressor or None, how payloads meet, bytes) of one tensor."""
    by_name = dict(method.compressors_by_tensor)
    compressor = by_name.get(tensor.name, method.compressor)
    if compressor is None or (tensor.name not in by_name and tensor.size < method.compress_from_bytes):
        return None, "sum", Load(tensor.size, tensor.size, tensor.size)
    own = payload(compressor, tensor.size)
    return compressor, MET[compressor.name], Load(tensor.size, own, own)
