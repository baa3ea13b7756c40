"""The figure of counters over time: how busy are the link and the processor?"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wirebound.figures import BLUE, GREY, ORANGE, SKY, new_figure, percent_axis
from wirebound.profile.observations import CounterSeries
from wirebound.profile.utilization import usage_over_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def utilization_figure(
    series: Mapping[str, CounterSeries],
    *,
    start_s: float = 0.0,
    end_s: float | None = None,
    resolution_s: float | None = None,
) -> "Figure":
    """Return a figure with a panel for each series, under its title, from `start_s` to `end_s` of their time.

    No span is shorter than `resolution_s`, by default half of what lies between two readings.
    A panel has the utilization of the link (where its rate is known and bytes are counted), the processor as a share of
    one core, and the time that threads waited for a core; spans of communication are shaded.
    """
    from matplotlib.patches import Patch

    figure, panels = new_figure(rows=len(series), height=2.4, sharex=True, squeeze=False)
    for axes, (title, one) in zip(panels[:, 0], series.items(), strict=True):
        _draw(axes, one, start_s, one.time_s[-1] if end_s is None else end_s, resolution_s)
        axes.set_title(title)
    panels[-1, 0].set_xlabel("time (ms)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    handles.append(Patch(facecolor=SKY, alpha=0.25))
    figure.legend(handles, [*labels, "communication"], loc="outside lower center", ncols=4)
    return figure


def _draw(axes: "Axes", series: CounterSeries, start_s: float, end_s: float, resolution_s: float | None) -> None:
    usages = [
        usage for usage in usage_over_time(series, resolution_s) if usage.end_s > start_s and usage.start_s < end_s
    ]
    edges = [1e3 * usage.start_s for usage in usages] + [1e3 * usages[-1].end_s]
    for start, end in zip(series.communication_start_s, series.communication_end_s, strict=True):
        if end > start_s and start < end_s:
            axes.axvspan(1e3 * start, 1e3 * end, color=SKY, alpha=0.25, linewidth=0)
    drawn: list[tuple[str, list[float | None], str]] = [
        ("link", [usage.link for usage in usages], BLUE),
        ("processor, of one core", [*(usage.cpu for usage in usages)], ORANGE),
        ("waiting for a core", [usage.waiting for usage in usages], GREY),
    ]
    highest = 1.0
    for label, values, color in drawn:
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            axes.stairs([100 * value for value in known], edges, color=color, label=label, baseline=None)
            highest = max(highest, *known)
    percent_axis(axes, "busy", top=105 * highest)
    axes.set_xlim(1e3 * start_s, 1e3 * end_s)
