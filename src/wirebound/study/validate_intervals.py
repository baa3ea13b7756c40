"""Do intervals of predictions hold the share of measurements that they promise? Nominal against actual."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from wirebound.fit.prediction_interval import IntervalFactor
from wirebound.fit.shi2020 import CALIBRATION_METHODS, calibrate, prediction_factors, read_runs
from wirebound.study.validate_testbed import intervals_from_other_workload, intervals_of_replays

LEVELS = (0.8, 0.9, 0.95)
#: The method that the model explains only in part.
ANOMALOUS_METHOD = "bytescheduler-a2a"


def held_share(table: pd.DataFrame, factor: IntervalFactor) -> float:
    """Return the share of the rows of `table`, as of `predictions`, whose measurement lies in its interval."""
    pairs = zip(table["predicted_iteration_s"], table["measured_iteration_s"], strict=True)
    return sum(factor.holds(predicted, measured) for predicted, measured in pairs) / len(table)


def shi2020_coverage(
    table: pd.DataFrame, transfer: pd.DataFrame | None = None, levels: Sequence[float] = LEVELS
) -> pd.DataFrame:
    """Return the intervals of Shi's predicted steps and the share of measurements that they hold, by group of rows.

    `table` has all runs with their predictions; `transfer`, where given, those of BERT-Large from the other models,
    whose interval comes from the other models alone. Columns: what, level, factor, `promised`, rows, held (0 to 1).
    """
    runs = [run for run in read_runs() if run.split == "calibration"]
    factors = prediction_factors(runs, calibrate(runs), levels)
    held_out = table[table["split"] == "held_out"]
    anomalous = held_out["method"] == ANOMALOUS_METHOD
    rows = _shares("held out", held_out, factors)
    rows += _shares("held out, without ByteScheduler-A2A", held_out[~anomalous], factors)
    rows += _shares("held out, calibrated methods", held_out[held_out["method"].isin(CALIBRATION_METHODS)], factors)
    rows += _shares("held out, ByteScheduler-A2A", held_out[anomalous], factors)
    if transfer is not None:
        others = [run for run in runs if run.workload != "bert-large"]
        rows += _shares("transfer to BERT-Large", transfer, prediction_factors(others, calibrate(others), levels))
    return pd.DataFrame(rows)


def replay_coverage(levels: Iterable[float] = LEVELS) -> pd.DataFrame:
    """Return the same for the replayed steps of the testbed; empty without recorded files."""
    rows = []
    for level in levels:
        for what, table in (
            ("replayed, from their calibration", intervals_of_replays(level)),
            ("replayed, from the other workload", intervals_from_other_workload(level)),
        ):
            if len(table):
                promised, held = bool(table["promised"].all()), float(table["held"].mean())
                rows.append({"what": what, "level": level, "promised": promised, "rows": len(table), "held": held})
    return pd.DataFrame(rows)


def _shares(what: str, table: pd.DataFrame, factors: Iterable[IntervalFactor]) -> list[dict[str, Any]]:
    return [
        {
            "what": what,
            "level": factor.level,
            "factor": factor.factor,
            "promised": factor.promised,
            "rows": len(table),
            "held": held_share(table, factor),
        }
        for factor in factors
    ]
