"""Figures of the testbed's runs, from the two documents that a run writes: predictions beside what was measured."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wirebound.figures import BLUE, GREEN, GREY, METHOD_LABELS, METHOD_STYLES, legend_below, new_figure, render_svg
from wirebound.files import write_text
from wirebound.simulate.timeline import Interval, Kind, Resource, Timeline
from wirebound.timeline_figure import timeline_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Case = Mapping[str, Any]

COMPARISON, TIMELINE = "comparison.svg", "timeline.svg"
#: Of the methods that the book's palette does not name.
_STYLES = METHOD_STYLES | {"horovod": (BLUE, "v")}
_INTO_NEXT_FORWARD = ("bytescheduler-a2a", "bytescheduler-ps")
#: Errors within this band are drawn as good.
_BAND = 0.15


def comparison_figure(cases: Sequence[Case]) -> "Figure":
    """Return a figure of predicted over measured step times, of the cases of one or several results documents.

    Each method has its colour and marker; the band is 15 % to both sides of equality.
    """
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

    figure, axes = new_figure(height=4.2)
    times = [1e3 * time for case in cases for time in (case["measured_s"], case["predicted_s"])]
    ends = [0.8 * min(times), 1.25 * max(times)]
    axes.plot(ends, ends, color="black", linewidth=1)
    axes.fill_between(
        ends, [end * (1 - _BAND) for end in ends], [end * (1 + _BAND) for end in ends], color=GREEN, alpha=0.12
    )
    for label in dict.fromkeys(_label(case) for case in cases):
        mine = [case for case in cases if _label(case) == label]
        color, marker = _STYLES.get(mine[0]["method"], (GREY, "o"))
        axes.plot(
            [1e3 * case["measured_s"] for case in mine],
            [1e3 * case["predicted_s"] for case in mine],
            linestyle="",
            color=None if mine[0].get("compressor") else color,
            marker=marker,
            label=label,
        )
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FormatStrFormatter("%g"))
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("measured step (ms)")
    axes.set_ylabel("predicted step (ms)")
    legend_below(figure, axes)
    return figure


def measured_and_predicted_figure(measured: Case, predicted: Case) -> "Figure":
    """Return a figure with one case's measured timeline above the predicted one, message by message.

    `measured` is a case of the results document, `predicted` the same of the predictions document.
    """
    last = max((message["tensors"][1] for case in (measured, predicted) for message in case["messages"]), default=0)
    title = (
        f"{measured['model']}, {_label(measured)}, {measured['ranks']} ranks at {measured['rate_Bps'] * 8e-6:g} Mbit/s"
    )
    return timeline_figure(
        {
            f"{title}: measured": _timeline(measured, measured["measured_s"], last),
            "predicted": _timeline(predicted, predicted["iteration_s"], last),
        }
    )


def typical_case(cases: Sequence[Case]) -> int:
    """Return the index of the case whose absolute error is the median one, the lower of two."""
    order = sorted(range(len(cases)), key=lambda index: abs(cases[index]["error"]))
    return order[(len(order) - 1) // 2]


def write_figures(out: Path, results: Mapping[str, Any], predictions: Mapping[str, Any]) -> None:
    """Write ``comparison.svg`` of all cases and ``timeline.svg`` of a typical one into a folder."""
    cases = results["cases"]
    write_text(out / COMPARISON, render_svg(comparison_figure(cases)))
    index = typical_case(cases)
    figure = measured_and_predicted_figure(cases[index], predictions["predictions"][index])
    write_text(out / TIMELINE, render_svg(figure))


def _label(case: Case) -> str:
    name = METHOD_LABELS.get(case["method"], case["method"])
    return " ".join(word for word in (name, case.get("compressor")) if word)


def _timeline(case: Case, period_s: float, last: int) -> Timeline:
    """One step: forward, backward and optimizer where they are known, and every message.

    Backward ends with the last gradient, not where a library goes on to wait in it. Where messages run under the next
    forward pass the step begins with backward, and that pass is drawn with its waits.
    """
    messages = case["messages"]
    into_forward = case["method"] in _INTO_NEXT_FORWARD
    begin_s = 0.0 if into_forward else case["forward_s"]
    computed_s = max(message["ready_s"] for message in messages)
    arrived_s = max(computed_s, max(message["end_s"] for message in messages))
    tasks: list[tuple[Kind, float, float]] = [("backward", begin_s, begin_s + computed_s)]
    if into_forward:
        tasks.append(("forward", computed_s, period_s))
    else:
        tasks += [("forward", 0.0, begin_s), ("optimizer", begin_s + arrived_s, period_s)]
    found = [Interval("device", kind, kind, start, end, (0, last)) for kind, start, end in tasks if end > start]
    for message in messages:
        kind = message.get("kind", "all-reduce")
        row: Resource = "push" if kind == "push" else "pull" if kind == "pull" else "link"
        start_s, end_s = begin_s + message["start_s"], begin_s + message["end_s"]
        first, tensor = message["tensors"]
        if end_s > start_s:
            found.append(Interval(row, "message", "message", start_s, end_s, (first, tensor)))
    return Timeline(case["method"], tuple(found), period_s, 1, case["rate_Bps"])
