"""From steps to time: the engine's step with a compressor, and how many more steps the compressor needs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from wirebound.model import Cluster, Codec, Tensor, Workload, method_named
from wirebound.simulate.compressors import compressor_named
from wirebound.simulate.step import simulate_step
from wirebound.study.errors_in_percent import ape
from wirebound.study.validate_testbed import recorded_runs


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
    gain is empty where some seed did not reach the target: then it is no gain at all. The interval leaves out the error
    of the predicted step (`live_step_gains`).
    """
    wanted = ["compressor", "seeds", "arrived", "steps_ratio", "steps_ratio_low95", "steps_ratio_high95"]
    found = steps.merge(methods[wanted], on="compressor", how="inner")
    arrived = found["arrived"] == found["seeds"]
    for name, other in (("", ""), ("_low95", "_high95"), ("_high95", "_low95")):
        found[f"time_gain{name}"] = (found["step_gain"] / found[f"steps_ratio{other}"]).where(arrived)
    return found


def live_step_gains(folder: Path | None = None) -> pd.DataFrame:
    """Return one row for each recorded live step with a compressor, predicted first: times in s, error, step gains.

    `error_percent` is the absolute error of the predicted step; a gain is the step without compression of the same run,
    model, ranks, link and method ÷ this one. `folder` and what is raised: see `validate_testbed.recorded_runs`.
    """
    columns = ("model", "ranks", "rate_Bps", "method")
    rows = []
    for run, _ in recorded_runs(folder):
        plain = {tuple(map(case.get, columns)): case for case in run["cases"] if not case.get("compressor")}
        for case in run["cases"]:
            beside = plain.get(tuple(map(case.get, columns)))
            if not case.get("compressor") or beside is None:
                continue
            times = {name: float(case[name]) for name in ("predicted_s", "measured_s")}
            gains = {f"{what}_gain": beside[f"{what}_s"] / case[f"{what}_s"] for what in ("predicted", "measured")}
            rows.append({name: case.get(name) for name in (*columns, "compressor")} | times | gains)
    names = [*columns, "compressor", "predicted_s", "measured_s", "predicted_gain", "measured_gain"]
    table = pd.DataFrame(rows, columns=names)
    return table.assign(error_percent=ape(table["predicted_s"], table["measured_s"]))
