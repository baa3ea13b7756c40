"""Absolute errors of predictions in percent, and what is told of many of them."""

import pandas as pd


def ape(predicted: pd.Series, measured: pd.Series) -> pd.Series:
    """Return the absolute error of each prediction in percent of the measurement."""
    return (predicted / measured - 1).abs() * 100


def error_summary(errors: pd.Series) -> dict[str, float | int | None]:
    """Return count, mean, median and 90th percentile of errors in percent; None for what no row tells."""
    if errors.empty:
        return {"points": 0, "mean_ape": None, "median_ape": None, "p90_ape": None}
    return {
        "points": len(errors),
        "mean_ape": float(errors.mean()),
        "median_ape": float(errors.median()),
        "p90_ape": float(errors.quantile(0.9)),
    }
