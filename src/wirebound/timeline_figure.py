"""The figure of a timeline: what the device and the link do when."""

from typing import TYPE_CHECKING

from wirebound.figures import BLUE, GREY, ORANGE, SKY, YELLOW, new_figure
from wirebound.simulate.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One colour for each kind of task of the device.
KIND_COLORS = {"forward": SKY, "backward": BLUE, "encode": ORANGE, "decode": YELLOW, "optimizer": GREY}

_ROWS = {"device": "device", "link": "link", "push": "push", "pull": "pull"}


def timeline_figure(timeline: Timeline, *, title: str = "", height: float | None = None) -> "Figure":
    """Return a figure with one row for each resource of the timeline, time in milliseconds.

    Tasks of the device have a colour each; a message has the colour of how early the next forward pass needs its
    tensors, and a white edge where it is long enough to show one. `height` is in inches. Broken lines separate steps.
    """
    import matplotlib as mpl
    from matplotlib.patches import Patch

    rows = timeline.resources
    figure, axes = new_figure(height=height or 1.3 + 0.55 * len(rows))
    colors = mpl.colormaps["viridis"]
    last = max(interval.tensors[1] for interval in timeline.intervals) or 1
    whole_ms = 1e3 * timeline.period_s * timeline.steps
    for row, resource in enumerate(rows):
        found = [interval for interval in timeline.intervals if interval.resource == resource]
        axes.broken_barh(
            [(1e3 * i.start_s, 1e3 * (i.end_s - i.start_s)) for i in found],
            (len(rows) - 1 - row - 0.36, 0.72),
            facecolors=[colors(i.tensors[1] / last) if i.kind == "message" else KIND_COLORS[i.kind] for i in found],
            edgecolors="white",
            linewidth=[min(0.6, 15 * 1e3 * (i.end_s - i.start_s) / whole_ms) for i in found],
        )
    for number in range(1, timeline.steps):
        axes.axvline(1e3 * number * timeline.period_s, color="black", linewidth=1, linestyle="--")
    axes.set_yticks(range(len(rows)), [_ROWS[resource] for resource in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlim(0, whole_ms)
    axes.set_xlabel("time (ms)")
    axes.grid(visible=False, axis="y")
    if title:
        axes.set_title(title)
    kinds = [kind for kind in KIND_COLORS if any(interval.kind == kind for interval in timeline.intervals)]
    handles = [Patch(facecolor=KIND_COLORS[kind], label=kind) for kind in kinds]
    if len(rows) > 1:
        handles.append(Patch(facecolor=colors(0.0), label="message needed last"))
        handles.append(Patch(facecolor=colors(1.0), label="message needed first"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure
