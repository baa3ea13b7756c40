"""What coding costs in the very processes that will train, all of them at work at once."""

from dataclasses import asdict

from wirebound.fit.codec import fit_codec
from wirebound.model import Codec, Compressor, Workload
from wirebound.profile.spread import median
from wirebound.simulate.compressors import gradient_of, payload_bytes
from wirebound.testbed.ranks import GlooRanks

#: From a layer's bias to the largest layer of these models, in bytes.
_SIZES = (256, 4096, 65536, 524288, 2097152)
_REPETITIONS = 6

#: These cannot encode without the other workers: their whole hook is timed in groups of one.
CODED_IN_PLACE = ("powersgd", "terngrad-shared")


def measure_codec(group: GlooRanks, compressor: Compressor) -> Codec:
    """Time encode and decode in every rank at once, and fit them over the size of the gradient.

    Raises `InputError` for an unknown compressor, `WireboundError` when a process fails.
    """
    fields = {key: value for key, value in asdict(compressor).items() if key != "codec"}
    order = {"do": "codec", "compressor": fields, "sizes": list(_SIZES), "repetitions": _REPETITIONS}
    answers = group.ask(order, time_limit_s=180)
    encode_s, decode_s = [], []
    for size in _SIZES:
        samples = [sample for answer in answers for sample in answer["samples"] if sample[0] == size]
        encode_s.append(median([sample[1] for sample in samples]))
        decode_s.append(median([sample[2] for sample in samples]))
    return fit_codec([float(size) for size in _SIZES], encode_s, decode_s).codec


def codec_in_place(plain: Workload, coded: Workload, compressor: Compressor) -> Codec:
    """Return the codec that explains how much longer the profile with the compressor's hook takes.

    All of it counts as encoding, in proportion to the bytes that are encoded.
    """
    encoded = sum(
        tensor.size for tensor in plain.tensors if payload_bytes(compressor, gradient_of(plain, tensor)) is not None
    )
    more_s = max(0.0, coded.backward_s + coded.optimizer_s - plain.backward_s - plain.optimizer_s)
    return Codec(encode_s_per_byte=more_s / encoded if encoded else 0.0)
