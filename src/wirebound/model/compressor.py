"""What makes gradients smaller on the wire, and what that costs on the device."""

import math
from dataclasses import dataclass

from wirebound.errors import InputError


@dataclass(frozen=True, slots=True)
class Codec:
    """Seconds that encoding and decoding occupy the device; free unless given.

    Encoding S bytes of uncompressed gradient takes `encode_s` per tensor and `encode_s_per_byte` · S. Decoding takes
    `decode_s` per tensor and `decode_s_per_byte` · S for each payload that a worker decodes: one where payloads are
    summed on the way, one per sender where they are gathered.
    """

    encode_s: float = 0.0
    encode_s_per_byte: float = 0.0
    decode_s: float = 0.0
    decode_s_per_byte: float = 0.0

    def __post_init__(self) -> None:
        for name in ("encode_s", "encode_s_per_byte", "decode_s", "decode_s_per_byte"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"codec: {name} = {value} must be finite and not negative")


#: Encoding and decoding take no time.
FREE_CODEC = Codec()


@dataclass(frozen=True, slots=True)
class Compressor:
    """One way to encode gradients: the `name` of a rule, what sets its strength, and what it costs.

    `parameter` is the share of values kept of a sparse compressor, the levels of QSGD, the rank of PowerSGD, 0 where
    there is none; `bucket` the elements that share one scale in QSGD. The rules, with the ranges of these values and
    the exact bytes on the wire, are `wirebound.simulate.compressors.COMPRESSORS`, and `compressor_named` there checks
    them.
    """

    name: str
    parameter: float = 0.0
    bucket: int = 0
    codec: Codec = FREE_CODEC

    @property
    def label(self) -> str:
        """The compressor as the command line writes it, such as ``topk:0.01``."""
        values = [f"{value:g}" for value in (self.parameter, self.bucket) if value]
        return ":".join([self.name, ",".join(values)]) if values else self.name
