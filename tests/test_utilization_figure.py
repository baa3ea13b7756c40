"""The figure of counters over time shows what was counted, and says what it shows."""

import pytest

from wirebound.figures import render_svg
from wirebound.profile.observations import CounterSeries
from wirebound.utilization_figure import utilization_figure

FULL = CounterSeries(
    phase="training",
    rank=0,
    interval_s=0.01,
    time_s=(0.0, 0.01, 0.02, 0.03),
    cpu_s=(0.0, 0.005, 0.02, 0.025),
    sent_bytes=(0, 0, 1000, 2000),
    waiting_s=(0.0, 0.0, 0.001, 0.001),
    link_counter="tcp",
    rate_Bps=200_000.0,
    communication_start_s=(0.01,),
    communication_end_s=(0.03,),
)
LITTLE = CounterSeries("all-reduce", 1, 0.01, (0.0, 0.01, 0.03), (0.0, 0.005, 0.02))


def steps(axes):
    return {patch.get_label(): patch.get_data().values.tolist() for patch in axes.patches if hasattr(patch, "get_data")}


def test_panels_hold_the_series():
    figure = utilization_figure({"rank 0": FULL, "rank 1": LITTLE})
    full, little = figure.axes
    drawn = steps(full)
    assert drawn["link"] == pytest.approx([0, 50, 50])
    assert drawn["processor, of one core"] == pytest.approx([50, 150, 50])
    assert drawn["waiting for a core"] == pytest.approx([0, 10, 0])
    assert full.get_ylim()[1] > 150
    assert full.get_xlim() == pytest.approx((0, 30))
    assert set(steps(little)) == {"processor, of one core"}
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["rank 0", "rank 1"]
    assert [text.get_text() for text in figure.legends[0].get_texts()][-1] == "communication"
    assert render_svg(figure).startswith("<?xml")


def test_a_part_and_a_coarser_resolution():
    figure = utilization_figure({"rank 0": FULL}, start_s=0.005, end_s=0.025, resolution_s=0.02)
    [axes] = figure.axes
    assert steps(axes)["link"] == pytest.approx([25])
    assert axes.get_xlim() == pytest.approx((5, 25))
    render_svg(figure)
