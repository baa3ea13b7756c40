"""How far curves of communication are from the all-reduces that others measured, at sizes held out."""

import math

import pandas as pd

from wirebound.fit.curves import choose_curve
from wirebound.study.data import load_table


def collective_fits() -> pd.DataFrame:
    """Return the error of each curve at each size of ``all_reduce_times``, fitted without that size.

    Columns: series, bytes, curve, `chosen` (whether the curve is the one chosen for its series), `ape` in percent.
    """
    rows = []
    for series, group in load_table("all_reduce_times").groupby("series", sort=False):
        ordered = group.sort_values("bytes")
        choice = choose_curve(ordered["bytes"].tolist(), (1e-6 * ordered["time_us"]).tolist())
        assert choice is not None
        rows += [
            {
                "series": series,
                "bytes": size,
                "curve": curve.name,
                "chosen": curve.name == choice.best,
                "ape": 100 * math.expm1(error),
            }
            for curve in choice.candidates
            for size, error in zip(ordered["bytes"], curve.held_out_errors, strict=True)
        ]
    return pd.DataFrame(rows)
