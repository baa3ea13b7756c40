"""Recorded runs of the testbed: predicted and hashed before they were measured, then compared."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from wirebound.errors import WireboundError
from wirebound.fit.communication import ROBUST_SCALE
from wirebound.fit.prediction_interval import conformal_factor
from wirebound.model.library import data_folder
from wirebound.study.errors_in_percent import ape, error_summary
from wirebound.testbed.ordering import pairs_in_order
from wirebound.units import BYTES_PER_S_PER_MBPS

Array = NDArray[np.float64]

#: Bytes of the messages of a calibration that does not tell them.
_SIZES_UNTOLD = (1024, 4096, 16384, 65536, 262144, 524288, 1048576, 2097152)
#: Columns that say under which conditions a method was measured.
SETTING = ["run", "kind", "workload", "batch", "ranks", "rate_mbps"]


def recorded_folder() -> Path | None:
    """Return the folder of recorded files of this checkout; None where the package was installed without them."""
    folder = data_folder() / "recorded"
    return folder if isinstance(folder, Path) and folder.is_dir() else None


def recorded_runs(folder: Path | None = None) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each recorded run of `folder` (default: the checkout's) with the predictions that were made before it.

    Raises `WireboundError` where a run has no predictions with the hash that it names, or they were written later.
    """
    folder = folder or recorded_folder()
    if folder is None:
        return []
    files = {file: file.read_bytes() for file in sorted(folder.glob("testbed_*.json"))}
    by_hash = {hashlib.sha256(content).hexdigest(): content for content in files.values()}
    runs = []
    for file, content in files.items():
        run = json.loads(content)
        if "predictions_sha256" not in run:
            continue  # the predictions themselves
        if run["predictions_sha256"] not in by_hash:
            raise WireboundError(f"{file.name}: its predictions are not recorded: their hash fits no file beside it")
        if not run["predictions_written_unix_s"] < run["workers_started_unix_s"]:
            raise WireboundError(f"{file.name}: its predictions were written after it began")
        runs.append((run, json.loads(by_hash[run["predictions_sha256"]])))
    return runs


def recorded_cases(folder: Path | None = None) -> pd.DataFrame:
    """Return every recorded case, predicted first and then measured, in seconds, with its error in percent.

    Columns: run (its number), kind (``replay``, or what else the schema says), workload, batch (0 where it does not
    vary), ranks, rate_mbps (NaN without a limit), method (with its compressor where there is one), `held_out` (false
    where the network was calibrated at this rate with training of its own), predicted_s, measured_s, ape.
    """
    rows = [
        {
            "run": number,
            "kind": run["schema"].removeprefix("wirebound-testbed-"),
            "workload": str(case.get("model") or run["workload"]).partition(" ")[0],
            "batch": int(case.get("batch_size") or 0),
            "ranks": int(case["ranks"]),
            "rate_mbps": case["rate_Bps"] / BYTES_PER_S_PER_MBPS if case.get("rate_Bps") else math.nan,
            "method": " ".join(filter(None, (case["method"], case.get("compressor")))),
            "held_out": bool(case.get("held_out", True)),
            "predicted_s": float(case["predicted_s"]),
            "measured_s": float(case["measured_s"]),
        }
        for number, (run, _) in enumerate(recorded_runs(folder))
        for case in run["cases"]
    ]
    table = pd.DataFrame(rows, columns=[*SETTING, "method", "held_out", "predicted_s", "measured_s"])
    table["ape"] = ape(table["predicted_s"], table["measured_s"])
    return table


def order_of_pairs(cases: pd.DataFrame) -> tuple[int, int]:
    """Return of how many pairs of methods of one setting of a run the faster was predicted, and how many there are."""
    groups = [group for _, group in cases.groupby(SETTING, dropna=False)]
    counts = [pairs_in_order(list(group["predicted_s"]), list(group["measured_s"])) for group in groups]
    return sum(right for right, _ in counts), sum(pairs for _, pairs in counts)


def intervals_of_replays(level: float, folder: Path | None = None) -> pd.DataFrame:
    """Return the interval of each replayed step as its calibration alone gives it, and whether it held the measurement.

    Each size of message in a calibration is predicted by a line through the others; the conformal factor of these
    errors makes every message longer or shorter. Columns as `recorded_cases`, and low_s, high_s, `held`, `promised`
    (whether the sizes are enough for this level).
    """
    rows = []
    for run, predictions in recorded_runs(folder):
        if run["schema"] != "wirebound-testbed-replay":
            continue
        errors = [error for calibration in predictions["calibrations"] for error in _left_out_errors(calibration)]
        factor = conformal_factor(errors, range(len(errors)), level)
        for case, predicted in zip(run["cases"], predictions["predictions"], strict=True):
            low_s, high_s = (_stretched(run, case, predicted, by) for by in (1 / factor.factor, factor.factor))
            rows.append(
                {
                    "workload": str(run["workload"]).partition(" ")[0],
                    "ranks": case["ranks"],
                    "method": case["method"],
                    "predicted_s": case["predicted_s"],
                    "measured_s": case["measured_s"],
                    "low_s": low_s,
                    "high_s": high_s,
                    "held": low_s <= case["measured_s"] <= high_s,
                    "promised": factor.promised,
                }
            )
    return pd.DataFrame(rows)


def intervals_from_other_workload(level: float, folder: Path | None = None) -> pd.DataFrame:
    """Return whether the interval of each replayed step held its measurement, as the other workloads' replays give it.

    What an earlier test on the same machine is worth: errors of the other workloads, one draw for each number of ranks
    and method. Columns: workload, factor, `held`, `promised`.
    """
    cases = recorded_cases(folder)
    cases = cases[cases["kind"] == "replay"]
    rows = []
    for workload, own in cases.groupby("workload"):
        others = cases[cases["workload"] != workload]
        if others.empty:
            continue
        errors = [math.log(row.predicted_s / row.measured_s) for row in others.itertuples()]
        factor = conformal_factor(errors, list(zip(others["ranks"], others["method"], strict=True)), level)
        rows += [
            {
                "workload": workload,
                "factor": factor.factor,
                "held": factor.holds(row.predicted_s, row.measured_s),
                "promised": factor.promised,
            }
            for row in own.itertuples()
        ]
    return pd.DataFrame(rows, columns=["workload", "factor", "held", "promised"])


def testbed_summary() -> dict[str, Any]:
    """Return the figures of the suite; without recorded files it has no points."""
    cases = recorded_cases()
    cases = cases[cases["held_out"]]
    summary = error_summary(cases["ape"])
    right, pairs = order_of_pairs(cases)
    return summary | {
        "held_out": summary["points"],
        "by_kind": {kind: error_summary(part["ape"]) for kind, part in cases.groupby("kind")},
        "by_method": {method: error_summary(part["ape"]) for method, part in cases.groupby("method")},
        "pairs": pairs,
        "pairs_in_order_percent": 100 * right / pairs if pairs else None,
    }


def _left_out_errors(calibration: dict[str, Any]) -> list[float]:
    """ln(predicted ÷ measured) of the time of each size of a calibration, fitted to its other sizes.

    T(S) = α + β·S, or, where the calibration has a sharpness m, (α^m + (β·S)^m)^(1/m), m fitted too.
    """
    sizes = np.array(calibration.get("sizes") or _SIZES_UNTOLD, dtype=float)
    logs = np.log(calibration["median_s"])
    sharp = "sharpness" in calibration

    def fitted(unknowns: Array, some: Array) -> Array:
        sharpness = float(unknowns[2]) if sharp else 1.0
        return np.asarray(np.logaddexp(sharpness * unknowns[0], sharpness * (unknowns[1] + np.log(some))) / sharpness)

    start = [logs[0], logs[-1] - math.log(sizes[-1]), *([1.5] if sharp else [])]
    low, high = [-math.inf, -math.inf, *([1.0] if sharp else [])], [math.inf, math.inf, *([8.0] if sharp else [])]
    errors = []
    for index in range(len(sizes)):
        kept = np.arange(len(sizes)) != index
        found = least_squares(
            lambda unknowns, kept=kept: fitted(unknowns, sizes[kept]) - logs[kept],
            start,
            bounds=(low, high),
            loss="soft_l1",
            f_scale=ROBUST_SCALE,
        )
        errors.append(float(fitted(found.x, sizes[index : index + 1])[0] - logs[index]))
    return errors


def _stretched(run: dict[str, Any], case: dict[str, Any], predicted: dict[str, Any], factor: float) -> float:
    """The predicted seconds of a step whose messages all take `factor` times as long."""
    compute_s, iteration_s = float(run["compute_s"]), float(predicted["iteration_s"])
    costs = [float(message["end_s"] - message["start_s"]) for message in predicted["messages"]]
    if case["method"].startswith("bytescheduler"):
        # Out of order and under the next forward pass: a step changes by all of the messages' change at most.
        return max(compute_s, iteration_s + (factor - 1) * sum(costs))
    ready = [float(message["ready_s"]) for message in case["messages"]]
    end_s = 0.0
    for ready_s, cost_s in zip(ready, costs, strict=True):
        end_s = max(end_s, ready_s) + factor * cost_s
    return compute_s + max(0.0, end_s - max(ready))
