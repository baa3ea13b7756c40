"""One visual language for all chapters: points are measured, lines are computed, colours mean the same everywhere."""

import base64
import html
import io
import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours of the Okabe-Ito palette, which people with colour-blindness can tell apart.
BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#B59F00",
    "#7A7A7A",
)

#: One colour per workload, in every chapter.
WORKLOAD_COLORS = {
    "resnet18": YELLOW,
    "resnet50": BLUE,
    "resnet101": GREEN,
    "vgg16": RED,
    "bert-base": PINK,
    "bert-large": ORANGE,
}

#: How a workload is written in legends and prose.
WORKLOAD_LABELS = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "resnet101": "ResNet-101",
    "vgg16": "VGG-16",
    "bert-base": "BERT-Base",
    "bert-large": "BERT-Large",
}


def workload_label(name: str) -> str:
    """Return how a workload is written in legends and prose."""
    return WORKLOAD_LABELS.get(name, name)


def workload_color(name: str) -> str:
    """Return the colour of a workload, grey for one that is not built in."""
    return WORKLOAD_COLORS.get(name, GREY)


#: One colour and marker per synchronization method, in every chapter.
METHOD_STYLES = {
    "bsp-ps": (SKY, "o"),
    "bsp-a2a": (BLUE, "s"),
    "wfbp-ps": (YELLOW, "o"),
    "wfbp-a2a": (ORANGE, "s"),
    "mg-wfbp": (GREEN, "D"),
    "bytescheduler-ps": (PINK, "o"),
    "bytescheduler-a2a": (RED, "s"),
    "ddp": (GREY, "^"),
}

#: How a method is written in legends and prose.
METHOD_LABELS = {
    "bsp-ps": "BSP-PS",
    "bsp-a2a": "BSP-A2A",
    "wfbp-ps": "WFBP-PS",
    "wfbp-a2a": "WFBP-A2A",
    "mg-wfbp": "MG-WFBP",
    "bytescheduler-ps": "ByteScheduler-PS",
    "bytescheduler-a2a": "ByteScheduler-A2A",
    "ddp": "DDP",
}

#: How the networks of Shi et al. are written in titles and prose.
NETWORK_LABELS = {
    "10gbe-tcp": "10 GbE, TCP",
    "100gbe-tcp": "100 GbE, TCP",
    "100gbib-rdma": "100 Gb IB, RDMA",
}

WIDTH_INCHES = 7.4


def new_figure(columns: int = 1, rows: int = 1, *, height: float = 3.4, **options: Any) -> tuple["Figure", Any]:
    """Return a figure of the book's width and its axes; `height` in inches per row, `options` go to `subplots`."""
    import seaborn as sns
    from matplotlib import pyplot as plt

    sns.set_theme(
        context="notebook",
        style="ticks",
        rc={
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.grid": True,
            "grid.color": "#E3E3E3",
            "grid.linewidth": 0.7,
            "axes.axisbelow": True,
            "axes.titlesize": 11,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.labelsize": 10,
            "xtick.labelsize": 9,
            "ytick.labelsize": 9,
            "legend.fontsize": 9,
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "lines.markersize": 5.5,
            "font.family": "DejaVu Sans",
            "svg.fonttype": "path",
            # A constant salt and no date make the same figure the same bytes.
            "svg.hashsalt": "wirebound",
        },
    )
    return plt.subplots(rows, columns, figsize=(WIDTH_INCHES, height * rows), layout="constrained", **options)


def bandwidth_axis(axes: "Axes", values: Sequence[float], label: str = "network bandwidth (Gbps)") -> None:
    """Make the x axis logarithmic in Gbps, with one tick per given value."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(label)


def percent_axis(axes: "Axes", label: str, *, top: float = 105) -> None:
    """Make the y axis run from zero to `top` percent."""
    axes.set_ylim(0, top)
    axes.set_ylabel(f"{label} (%)")


def count_axis(axes: "Axes", values: Sequence[int], label: str) -> None:
    """Make the x axis logarithmic to base 2, with one tick per given count."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(label)


def legend_below(figure: "Figure", axes: "Axes", columns: int = 3) -> None:
    """Put one legend for the whole figure below it."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def render_svg(figure: "Figure") -> str:
    """Return the figure as SVG text, the same for the same figure, and close it."""
    from matplotlib import pyplot as plt

    buffer = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing glyph or a squeezed layout is a mistake in the chapter
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return buffer.getvalue()


def figure_html(svg: str, *, name: str, alt: str, caption: str, downloads: dict[str, str]) -> str:
    """Return the figure as HTML: the image with its `alt` text, the caption, and links (text → address)."""
    data = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    return (
        f'<figure class="wb-figure" id="figure-{html.escape(name)}">'
        f'<img alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{data}"/>'
        f"<figcaption>{html.escape(caption)} {_links(downloads)}</figcaption></figure>"
    )


def table_html(table: "pd.DataFrame", *, name: str, caption: str, downloads: dict[str, str]) -> str:
    """Return a table of text cells as HTML, with its caption and links (text → address)."""
    # A number and its unit stay on one line.
    table = table.map(lambda cell: re.sub(r"^([\d.,+-]+) (\S+)$", "\\1\u00a0\\2", cell))
    body = table.to_html(index=False, border=0, escape=True, classes="wb-data")
    return (
        f'<div class="wb-table" id="table-{html.escape(name)}"><p class="wb-caption">{html.escape(caption)} '
        f'{_links(downloads)}</p><div class="wb-scroll">{body}</div></div>'
    )


def _links(downloads: dict[str, str]) -> str:
    links = " · ".join(
        f'<a href="{html.escape(address)}" download>{html.escape(text)}</a>' for text, address in downloads.items()
    )
    return f'<span class="wb-downloads">{links}</span>'
