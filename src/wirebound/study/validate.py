"""How far the models are from what was published: every suite's points, and its errors in percent."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from wirebound.errors import unknown_name
from wirebound.fit.shi2020 import (
    FIGURES,
    GPUS_PER_NODE,
    MECHANISMS,
    TECHNIQUES,
    Calibration,
    Run,
    calibrate,
    hook_s_per_tensor,
    predict_iteration_s,
    read_runs,
    shuffled,
    workload_of,
)
from wirebound.study.cases import practitioners_cases
from wirebound.study.data import load_table
from wirebound.study.errors_in_percent import ape, error_summary
from wirebound.study.validate_fits import collective_fits
from wirebound.study.validate_intervals import ANOMALOUS_METHOD, shi2020_coverage
from wirebound.study.validate_testbed import testbed_summary
from wirebound.study.validate_traces import traces_summary
from wirebound.study.zhang2020 import exact_scaling_factor, scaling_factor, whatif_grid


def zhang2020_arithmetic() -> pd.DataFrame:
    """Return the what-if grid: scaling factor by the engine and in exact fractions, 270 rows."""
    table = pd.DataFrame(whatif_grid())
    columns = ["model", "workers", "link_gbps", "compression"]
    table["exact"] = [float(exact_scaling_factor(*point)) for point in table[columns].itertuples(index=False)]
    table["ape"] = ape(table["scaling_factor"], table["exact"])
    return table


def zhang2020_published() -> pd.DataFrame:
    """Return the 90 published what-if scaling factors of ResNet-50 beside those of the engine; nothing is fitted.

    Columns: link_gbps, gpus, compression, published and modelled scaling factor (0 to 1), error in percent.
    """
    published = load_table("zhang2020_whatif_resnet50")
    table = published[["link_gbps", "gpus", "compression"]].copy()
    table["published"] = published["scaling_percent"] / 100
    table["modelled"] = [
        scaling_factor("resnet50", int(row.gpus), float(row.link_gbps), float(row.compression))
        for row in table.itertuples(index=False)
    ]
    table["ape"] = ape(table["modelled"], table["published"])
    return table


def zhang2020_measured() -> pd.DataFrame:
    """Return the measured scaling factors of figures 3 and 6a beside the model of a fully used network.

    Columns: figure, workload, gpus, link_gbps, measured and modelled scaling factor (0 to 1), error in percent of the
    measurement. The model is meant as an upper bound, so the error is the distance of reality from it.
    """
    figures = load_table("zhang2020_figures")
    chosen = figures["figure"].isin(["3", "6a"]) & (figures["origin"] == "measured")
    table = figures.loc[chosen, ["figure", "workload", "gpus", "link_gbps"]].reset_index(drop=True)
    table["measured"] = figures.loc[chosen, "value"].to_numpy() / 100
    table["modelled"] = [
        scaling_factor(row.workload, int(row.gpus), row.link_gbps) for row in table.itertuples(index=False)
    ]
    table["ape"] = ape(table["modelled"], table["measured"])
    return table


def predictions(runs: Iterable[Run], calibration: Calibration) -> pd.DataFrame:
    """Return runs with predicted and measured iteration time in seconds, the split and the error in percent."""
    rows = [
        dataclasses.asdict(run)
        | {
            "split": run.split,
            "measured_iteration_s": run.iteration_s,
            "predicted_iteration_s": predict_iteration_s(run, calibration),
        }
        for run in runs
    ]
    table = pd.DataFrame(rows)
    table["ape"] = ape(table["predicted_iteration_s"], table["measured_iteration_s"])
    return table


def shi2020(runs: list[Run] | None = None) -> pd.DataFrame:
    """Return all 252 runs, predicted after calibration on the 64 of the protocol.

    `runs` takes the place of the published ones.
    """
    runs = read_runs() if runs is None else runs
    return predictions(runs, calibrate(run for run in runs if run.split == "calibration"))


def shi2020_transfer(runs: list[Run] | None = None) -> pd.DataFrame:
    """Return the 76 non-suspect runs of BERT-Large, predicted from the calibration runs of the two other models."""
    runs = read_runs() if runs is None else runs
    calibration = calibrate(run for run in runs if run.split == "calibration" and run.workload != "bert-large")
    return predictions((run for run in runs if run.workload == "bert-large" and not run.suspect), calibration)


def shi2020_shuffled(runs: list[Run] | None = None, seed: int = 0) -> pd.DataFrame:
    """Return the held-out runs predicted after a calibration on shuffled measurements: what no knowledge would give."""
    runs = read_runs() if runs is None else runs
    calibration = calibrate(shuffled((run for run in runs if run.split == "calibration"), seed), starts=1)
    return predictions((run for run in runs if run.split == "held_out"), calibration)


def bytescheduler_mechanisms(calibration: Calibration, runs: list[Run] | None = None) -> pd.DataFrame:
    """Return what each of `MECHANISMS` predicts for ByteScheduler over all-reduce; nothing of it is fitted to them.

    One row per mechanism and workload (``all`` for all 36 runs): mean, median and 90th percentile of the error in
    percent, and `mean_signed`, which is negative where the model is too fast.
    """
    runs = [run for run in (read_runs() if runs is None else runs) if run.method == ANOMALOUS_METHOD]
    rows = []
    for name, mechanism in MECHANISMS.items():
        signed = (
            pd.Series([predict_iteration_s(run, calibration, mechanism) / run.iteration_s - 1 for run in runs]) * 100
        )
        of = pd.Series([run.workload for run in runs])
        for workload in ("all", *of.unique()):
            errors = signed if workload == "all" else signed[of == workload]
            row = {"mechanism": name, "workload": workload, **error_summary(errors.abs())}
            rows.append(row | {"mean_signed": float(errors.mean())})
    return pd.DataFrame(rows)


def bytescheduler_on_one_node() -> pd.DataFrame:
    """Return ByteScheduler's all-reduce runs on one node: tensors, measured seconds, seconds per tensor after forward.

    The time per tensor is the same for all models (see `wirebound.fit.shi2020.hook_s_per_tensor`).
    """
    rows = [
        {
            "workload": run.workload,
            "network": run.network,
            "tensors": len(workload_of(run).tensors),
            "measured_iteration_s": run.iteration_s,
            "s_per_tensor": hook_s_per_tensor(run),
        }
        for run in read_runs()
        if run.method == ANOMALOUS_METHOD and run.gpus == GPUS_PER_NODE
    ]
    return pd.DataFrame(rows)


def ranking_regret(table: pd.DataFrame, choice: str | None = None) -> pd.DataFrame:
    """Return per setting (workload, network, GPUs) the chosen method and its regret, from a table of `predictions`.

    The choice is the method that the model ranks first, or always `choice`. Regret is its measured time ÷ the best
    measured time − 1. Suspect rows are no candidates; where `choice` has none, there is no row. Ties go to the first
    in the order of the seven techniques.
    """
    order = {method: position for position, method in enumerate(TECHNIQUES)}
    candidates = table[~table["suspect"]].assign(order=table["method"].map(order)).sort_values("order", kind="stable")
    rows = []
    for setting, group in candidates.groupby(["workload", "network", "gpus"], sort=True):
        chosen = group.loc[group["predicted_iteration_s"].idxmin()] if choice is None else None
        if choice is not None:
            same = group[group["method"] == choice]
            if same.empty:
                continue
            chosen = same.iloc[0]
        assert chosen is not None
        regret = chosen["measured_iteration_s"] / group["measured_iteration_s"].min() - 1
        rows.append((*setting, chosen["method"], float(regret)))
    return pd.DataFrame(rows, columns=["workload", "network", "gpus", "method", "regret"])


def _zhang2020_summary() -> dict[str, Any]:
    summary = error_summary(zhang2020_published()["ape"])
    exact = zhang2020_arithmetic()
    worst = float((exact["scaling_factor"] - exact["exact"]).abs().max())
    check = {"points": len(exact), "largest_absolute_error": worst}
    return summary | {"held_out": summary["points"], "self_check": check}


def _zhang2020_measured_summary() -> dict[str, Any]:
    table = zhang2020_measured()
    summary = error_summary(table["ape"])
    above = int((table["measured"] > table["modelled"]).sum())
    return summary | {"held_out": summary["points"], "measured_above_model": above}


def _shi2020_summary() -> dict[str, Any]:
    table = shi2020()
    held_out = table[table["split"] == "held_out"]
    without = held_out[held_out["method"] != ANOMALOUS_METHOD]
    summary = error_summary(held_out["ape"])
    always = {method: ranking_regret(table, method) for method in TECHNIQUES}
    return summary | {
        "points": int((table["split"] != "suspect").sum()),
        "held_out": len(held_out),
        "calibration": error_summary(table.loc[table["split"] == "calibration", "ape"]),
        "without_bytescheduler_a2a": error_summary(without["ape"]),
        "by_method": {method: error_summary(group["ape"]) for method, group in held_out.groupby("method")},
        "by_network": {network: error_summary(group["ape"]) for network, group in held_out.groupby("network")},
        "by_method_and_network": {
            method: {network: error_summary(part["ape"]) for network, part in group.groupby("network")}
            for method, group in held_out.groupby("method")
        },
        "fitted_figures": len(FIGURES),
        "coverage": shi2020_coverage(table).to_dict("records"),
        "after_shuffled_calibration": error_summary(shi2020_shuffled()["ape"]),
        "regret_percent": float(ranking_regret(table)["regret"].mean() * 100),
        "regret_percent_of_always": {
            method: {"settings": len(regret), "mean": float(regret["regret"].mean() * 100)}
            for method, regret in always.items()
        },
    }


def _shi2020_transfer_summary() -> dict[str, Any]:
    table = shi2020_transfer()
    without = table[table["method"] != ANOMALOUS_METHOD]
    summary = error_summary(table["ape"])
    return summary | {
        "held_out": summary["points"],
        "without_bytescheduler_a2a": error_summary(without["ape"]),
        "by_method": {method: error_summary(group["ape"]) for method, group in table.groupby("method")},
        "by_network": {network: error_summary(group["ape"]) for network, group in table.groupby("network")},
    }


def _collectives_summary() -> dict[str, Any]:
    table = collective_fits()
    chosen = table[table["chosen"]]
    summary = error_summary(chosen["ape"])
    return summary | {
        "held_out": summary["points"],
        "affine": error_summary(table.loc[table["curve"] == "affine", "ape"]),
        "by_series": {series: error_summary(group["ape"]) for series, group in chosen.groupby("series")},
    }


def _cases_summary() -> dict[str, Any]:
    table = practitioners_cases()
    nearest = table["computed"].clip(table["observed_low"], table["observed_high"])
    summary = error_summary(ape(table["computed"], nearest))
    agree = {row.case: bool(row.agrees) for row in table.itertuples()}
    return summary | {"held_out": summary["points"], "agree": agree}


#: Suite name to the function that gives its figures.
SUITES: dict[str, Callable[[], dict[str, Any]]] = {
    "zhang2020": _zhang2020_summary,
    "zhang2020-measured": _zhang2020_measured_summary,
    "shi2020": _shi2020_summary,
    "shi2020-transfer": _shi2020_transfer_summary,
    "collectives": _collectives_summary,
    "traces": traces_summary,
    "testbed": testbed_summary,
    "cases": _cases_summary,
}


def validate(suites: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return suite name → figures; at least points, held_out, mean_ape, median_ape and p90_ape, errors in percent.

    Raises `InputError` for an unknown suite.
    """
    chosen = list(SUITES if suites is None else suites)
    for name in chosen:
        if name not in SUITES:
            raise unknown_name("suite", name, SUITES)
    return {name: SUITES[name]() for name in chosen}
