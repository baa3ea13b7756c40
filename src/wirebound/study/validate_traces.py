"""Traced training steps, replayed by the engine: from their own times, and from those of the trace's other steps."""

from typing import Any

import pandas as pd

from wirebound.fit.replay import Replay, replay_step
from wirebound.model import Tensor, Workload
from wirebound.study.data import load_table
from wirebound.study.errors_in_percent import ape, error_summary

_PARTS = ["forward_us", "backward_us", "rest_us"]
_MESSAGE = ["ready_us", "duration_us"]


def traced_steps() -> pd.DataFrame:
    """Return every published step of a trace with what the engine makes of it, times in seconds.

    Columns: trace, step, messages, traced_s, `replayed_s` (from the step's own compute and transfer times: how well the
    engine's rules describe what happened), `predicted_s` (from the medians of the other steps of its trace, NaN where
    there are none), and the errors of both in percent, `replayed_ape` and `ape`.
    """
    steps, messages = load_table("trace_steps"), load_table("trace_messages")
    rows = []
    for (trace, number), own in steps.groupby(["trace", "step"], sort=False):
        of_trace = steps["trace"] == trace
        others = steps[of_trace & (steps["step"] != number)]
        sent = messages[messages["trace"] == trace]
        mine = sent[sent["step"] == number].sort_values("message")
        traced_s = float(own["step_us"].iloc[0]) * 1e-6
        row = {"trace": trace, "step": number, "messages": len(mine), "traced_s": traced_s}
        row["replayed_s"] = _replay(own, mine, traced_s).predicted_s
        if len(others):
            rest = sent[sent["step"] != number].groupby("message", as_index=False)[_MESSAGE].median()
            row["predicted_s"] = _replay(others, rest, traced_s).predicted_s
        rows.append(row)
    table = pd.DataFrame(rows)
    table["replayed_ape"] = ape(table["replayed_s"], table["traced_s"])
    table["ape"] = ape(table["predicted_s"], table["traced_s"])
    return table


def traced_sums() -> pd.DataFrame:
    """Return what an import of each published trace must find: its sums, and its overlap in percent."""
    table = load_table("trace_sums")
    hidden = table["communication_us"] - table["exposed_us"]
    table["overlap_percent"] = (100 * hidden / table["communication_us"]).fillna(0.0)
    return table


def traces_summary() -> dict[str, Any]:
    """Return the figures of the suite: errors of steps predicted from other steps, and of replays from their own."""
    table = traced_steps()
    summary = error_summary(table["ape"].dropna())
    return summary | {
        "held_out": summary["points"],
        "replayed": error_summary(table["replayed_ape"]),
        "overlap_percent": {row.trace: float(row.overlap_percent) for row in traced_sums().itertuples()},
    }


def _replay(steps: pd.DataFrame, messages: pd.DataFrame, traced_s: float) -> Replay:
    forward_s, backward_s, rest_s = (1e-6 * steps[_PARTS].median()).tolist()
    # A trace may not tell a message's size: its time stands for it, so one tensor holds the whole of backward.
    workload = Workload("traced", 1, (Tensor("all", 4, backward_s),), forward_s, optimizer_s=rest_s)
    sent = [(1e-6 * ready, 1e-6 * lasted) for ready, lasted in messages[_MESSAGE].itertuples(index=False)]
    return replay_step(workload, sent, traced_s)
