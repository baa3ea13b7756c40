"""What coding costs in the very processes that will train: in the hook, within real backward passes."""

from collections.abc import Sequence
from typing import Any

from wirebound.model import Codec, Compressor, Workload
from wirebound.profile.spread import median
from wirebound.simulate.compressors import gradient_of, payload_bytes, rule_of


def codec_in_place(workload: Workload, compressor: Compressor, answers: Sequence[dict[str, Any]]) -> Codec:
    """Return what explains the ranks' profiles with the compressor's hook, each rank in a group of its own.

    A bucket was encoded from when it was ready to when it was handed over, and decoded until its future was done; its
    times are those of the slower rank, medians over the steps. Fitted for the tensors and the bytes that are encoded,
    relative to the times. In a group of one a gathered payload is the only one: as many are decoded as there are ranks.
    """
    import numpy as np
    from scipy.optimize import nnls

    encoded = {
        tensor.name: tensor.size
        for tensor in workload.tensors
        if payload_bytes(compressor, gradient_of(workload, tensor)) is not None
    }
    readings: dict[tuple[str, ...], dict[int, list[tuple[float, float]]]] = {}
    for answer in answers:
        for _, step, _, ready_s, start_s, end_s, names in answer["messages"]:
            readings.setdefault(tuple(names), {}).setdefault(step, []).append((start_s - ready_s, end_s - start_s))
    sizes, times = [], []
    for names, of_steps in readings.items():
        coded = [encoded[name] for name in names if name in encoded]
        if coded:
            slower = [[max(seconds) for seconds in zip(*of_ranks, strict=True)] for of_ranks in of_steps.values()]
            sizes.append((len(coded), sum(coded)))
            times.append([max(median([step[part] for step in slower]), 1e-9) for part in (0, 1)])
    if not sizes:
        return Codec()
    (encode_s, encode_s_per_byte), (decode_s, decode_s_per_byte) = (
        nnls(np.array(sizes) / np.array(of_part)[:, None], np.ones(len(sizes)))[0]
        for of_part in zip(*times, strict=True)
    )
    # The engine multiplies only what goes with the bytes by the number of payloads.
    payloads = len(answers) if rule_of(compressor).gathers else 1
    return Codec(float(encode_s), float(encode_s_per_byte), float(decode_s) * payloads, float(decode_s_per_byte))
