"""From steps to time: the engine's step with a compressor, and how many more steps the compressor needs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from wirebound.model import Cluster, Codec, Tensor, Workload, method_named
from wirebound.simulate.compressors import compressor_named
from wirebound.simulate.step import simulate_step


def recorded_workload(task: Mapping[str, Any]) -> Workload:
    """Return the workload of a recorded task: one worker's step on one thread of the machine that recorded it."""
    step = task["step"]
    tensors = []
    for name, shape, gap_s in step["tensors"]:
        size = 4
        for length in shape:
            size *= length
        tensors.append(Tensor(name, size, gap_s, shape=tuple(shape)))
    return Workload(task["name"], step["batch_size"], tuple(tensors), step["forward_s"], step["optimizer_s"])


def step_gains(
    workload: Workload,
    clusters: Mapping[str, Cluster],
    bandwidths: Mapping[str, float],
    codecs: Mapping[str, Codec],
    *,
    method: str,
) -> pd.DataFrame:
    """Return one row for each compressor (the keys of `codecs`), cluster and bandwidth (B/s): ratios and the step gain.

    `nominal_ratio` is of payloads, `effective_ratio` of what crosses a node's link, `step_gain` the plain step's time ÷
    the step's with coding. The links of `clusters` between nodes get each of the bandwidths.
    """
    rows = []
    for place, cluster in clusters.items():
        for rate, bandwidth in bandwidths.items():
            there = replace(cluster, inter=replace(cluster.inter, bandwidth=bandwidth))
            plain = simulate_step(workload, there, method_named(method))
            for label, codec in codecs.items():
                coded = simulate_step(workload, there, method_named(method, compressor=compressor_named(label, codec)))
                rows.append(
                    {
                        "workload": workload.name,
                        "cluster": place,
                        "bandwidth": rate,
                        "compressor": label,
                        "nominal_ratio": coded.nominal_ratio,
                        "effective_ratio": coded.wire_ratio,
                        "plain_step_ms": 1e3 * plain.iteration_s,
                        "step_ms": 1e3 * coded.iteration_s,
                        "coding_ms": 1e3 * (coded.encode_s + coded.decode_s),
                        "step_gain": plain.iteration_s / coded.iteration_s,
                    }
                )
    return pd.DataFrame(rows)


def time_gains(steps: pd.DataFrame, methods: pd.DataFrame) -> pd.DataFrame:
    """Return the gain in time to the target: the step gain ÷ the steps ratio, with its interval over seeds.

    `steps` are of `step_gains`, `methods` of `convergence_tables.methods_table` for one task, one row a compressor. The
    gain is empty where some seed did not reach the target: then it is no gain at all.
    """
    wanted = ["compressor", "seeds", "arrived", "steps_ratio", "steps_ratio_low95", "steps_ratio_high95"]
    found = steps.merge(methods[wanted], on="compressor", how="inner")
    arrived = found["arrived"] == found["seeds"]
    for name, other in (("", ""), ("_low95", "_high95"), ("_high95", "_low95")):
        found[f"time_gain{name}"] = (found["step_gain"] / found[f"steps_ratio{other}"]).where(arrived)
    return found
