"""The figure of a timeline: what the device and the link do when."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wirebound.figures import BLUE, GREY, ORANGE, SKY, YELLOW, new_figure
from wirebound.simulate.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: One colour for each kind of task of the device.
KIND_COLORS = {"forward": SKY, "backward": BLUE, "encode": ORANGE, "decode": YELLOW, "optimizer": GREY}


def timeline_figure(timelines: Mapping[str, Timeline]) -> "Figure":
    """Return a figure with a panel for each timeline, under its title, on one time axis in milliseconds.

    A panel has one row for each resource. Tasks of the device have a colour each; a message has the colour of how early
    the next forward pass needs its tensors, and a white edge where it is long enough to show one. Broken lines separate
    steps.
    """
    from matplotlib.patches import Patch

    rows = [len(timeline.resources) for timeline in timelines.values()]
    figure, panels = new_figure(
        rows=len(timelines),
        height=(1.3 + 0.5 * sum(rows)) / len(rows),
        sharex=True,
        squeeze=False,
        height_ratios=rows,
    )
    for axes, (title, timeline) in zip(panels[:, 0], timelines.items(), strict=True):
        _draw(axes, timeline)
        axes.set_title(title)
    panels[-1, 0].set_xlim(0, max(1e3 * timeline.period_s * timeline.steps for timeline in timelines.values()))
    panels[-1, 0].set_xlabel("time (ms)")
    used = {interval.kind for timeline in timelines.values() for interval in timeline.intervals}
    handles = [Patch(facecolor=color, label=kind) for kind, color in KIND_COLORS.items() if kind in used]
    if "message" in used:
        handles.append(Patch(facecolor=_message_color(0.0), label="message needed last"))
        handles.append(Patch(facecolor=_message_color(1.0), label="message needed first"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _message_color(urgency: float) -> tuple[float, float, float, float]:
    """The colour of a message, from 0 for the one that the next forward pass needs last to 1."""
    import matplotlib as mpl

    red, green, blue, opacity = mpl.colormaps["viridis"](urgency)
    return red, green, blue, opacity


def _draw(axes: "Axes", timeline: Timeline) -> None:
    """Draw one timeline, a row for each of its resources."""
    rows = timeline.resources
    last = max(interval.tensors[1] for interval in timeline.intervals) or 1
    whole_ms = 1e3 * timeline.period_s * timeline.steps
    for row, resource in enumerate(rows):
        found = [interval for interval in timeline.intervals if interval.resource == resource]
        axes.broken_barh(
            [(1e3 * i.start_s, 1e3 * (i.end_s - i.start_s)) for i in found],
            (len(rows) - 1 - row - 0.36, 0.72),
            facecolors=[
                _message_color(i.tensors[1] / last) if i.kind == "message" else KIND_COLORS[i.kind] for i in found
            ],
            edgecolors="white",
            linewidth=[min(0.6, 15 * 1e3 * (i.end_s - i.start_s) / whole_ms) for i in found],
        )
    for number in range(1, timeline.steps + 1):
        axes.axvline(1e3 * number * timeline.period_s, color="black", linewidth=1, linestyle="--")
    axes.set_yticks(range(len(rows)), list(reversed(rows)))
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(visible=False, axis="y")
