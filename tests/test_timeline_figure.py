"""The figure of a timeline shows every interval, in its row and colour."""

import pytest

from wirebound.figures import render_svg
from wirebound.model import Cluster, Codec, Link, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.compressors import compressor_named
from wirebound.simulate.step import simulate_step
from wirebound.simulate.timeline import timeline_of
from wirebound.timeline_figure import timeline_figure


@pytest.mark.parametrize(
    ("name", "workers", "rows", "entries"),
    [
        ("horovod", 8, ["link", "device"], ["forward", "backward", "encode", "decode"]),
        ("p3", 8, ["pull", "push", "device"], ["forward", "backward", "encode"]),
        ("horovod", 1, ["device"], ["forward", "backward"]),
    ],
)
def test_every_interval_is_drawn(name, workers, rows, entries):
    workload, cluster = builtin_workload("resnet18"), Cluster(workers, Link(1.25e9))
    method = method_named(name, compressor=compressor_named("topk:0.01", Codec(1e-5, 1e-10, 1e-5, 1e-11)))
    step = simulate_step(workload, cluster, method)
    timeline = timeline_of(step, workload, cluster, method, steps=2)
    figure = timeline_figure({"Two steps": timeline})
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == rows
    assert sum(len(bars.get_paths()) for bars in axes.collections) == len(timeline.intervals)
    assert axes.get_xlim() == (0, pytest.approx(2e3 * step.iteration_s))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[: len(entries)] == entries
    assert ("message needed first" in legend) is (workers > 1)
    assert "Two steps" in axes.get_title(loc="left")
    assert render_svg(figure).startswith("<?xml")
