"""What coding costs, from measured samples, and from which bandwidth on it costs more than it saves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wirebound.errors import InputError
from wirebound.fit.communication import CommunicationFit, fit_communication
from wirebound.model import Cluster, Codec, Method, Workload
from wirebound.simulate.step import simulate_step
from wirebound.units import BYTES_PER_S_PER_GBPS

#: Bandwidths that are tried, bytes per second: 1 kbit/s to 100 Tbit/s.
_SLOWEST, _FASTEST = 125.0, 1.25e13
_FACTOR = 2**0.25


@dataclass(frozen=True, slots=True)
class CodecFit:
    """Encoding and decoding S bytes of uncompressed gradient take α + β·S each: both fits, with intervals."""

    encode: CommunicationFit
    decode: CommunicationFit

    @property
    def codec(self) -> Codec:
        """The four figures that the engine takes."""
        return Codec(
            encode_s=self.encode.alpha_s,
            encode_s_per_byte=self.encode.beta_s_per_byte,
            decode_s=self.decode.alpha_s,
            decode_s_per_byte=self.decode.beta_s_per_byte,
        )


def fit_codec(
    sizes_bytes: Sequence[float], encode_s: Sequence[float], decode_s: Sequence[float], *, seed: int = 0
) -> CodecFit:
    """Fit both times by `fit_communication`, which compares them by ratio; raises what it raises."""
    return CodecFit(
        fit_communication(sizes_bytes, encode_s, seed=seed), fit_communication(sizes_bytes, decode_s, seed=seed)
    )


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Below `bandwidth` (bytes per second of the nodes' links) the compressor of `label` makes a step shorter.

    0 where it never does, infinite where it still does at 100 Tbit/s, the fastest that is tried.
    """

    label: str
    bandwidth: float

    @property
    def statement(self) -> str:
        """The finding in one sentence."""
        if self.bandwidth == 0:
            return f"{self.label}: encoding costs more than it saves at every bandwidth"
        if math.isinf(self.bandwidth):
            return f"{self.label}: compression saves time at every bandwidth that was tried"
        return (
            f"{self.label}: above {self.bandwidth / BYTES_PER_S_PER_GBPS:.3g} Gbps encoding costs more than it saves;"
            " below, compression saves time"
        )


def break_even(workload: Workload, cluster: Cluster, method: Method) -> BreakEven:
    """Return the highest bandwidth between nodes at which the step with `method.compressor` is the shorter one.

    Both steps, with the compressor and its codec and without, are the engine's (`simulate_step`); the bandwidth of
    `cluster.inter` is ignored. Scans down from the fastest in steps of 19 % and bisects the first crossing. Raises
    `InputError` where the method has no compressor.
    """
    if method.compressor is None:
        raise InputError("the method has no compressor: give one, with its codec")
    dense = replace(method, compressor=None, compressors_by_tensor=())

    def saves(bandwidth: float) -> bool:
        there = replace(cluster, inter=replace(cluster.inter, bandwidth=bandwidth))
        return simulate_step(workload, there, method).iteration_s < simulate_step(workload, there, dense).iteration_s

    label, high = method.compressor.label, _FASTEST
    if saves(high):
        return BreakEven(label, math.inf)
    low = high / _FACTOR
    while not saves(low):
        high, low = low, low / _FACTOR
        if low < _SLOWEST:
            return BreakEven(label, 0.0)
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if saves(middle) else (low, middle)
    return BreakEven(label, low)
