"""What a chapter's notebook uses: artifacts in and out, figures, tables, results, and numbers for the prose.

A chapter runs with the run folder as its working directory. Opened by hand in JupyterLab, from ``notebooks/``, it
writes to ``runs/by-hand`` and reads what it needs from there or else from the last quick run.
"""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wirebound import figures
from wirebound.errors import InputError
from wirebound.files import write_json, write_text
from wirebound.study.project import Project, find_project

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LIVE_PROFILE = "live_probe/profile.json"


def format_value(value: float | int | str | bool, unit: str = "", digits: int = 3) -> str:
    """Print a value and its unit for prose: `digits` significant digits, no exponent between 0.001 and a million."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or not math.isfinite(value):
        text = f"{value:,}"
    elif value != 0 and not 1e-3 <= abs(value) < 1e6:
        text = f"{value:.{digits}g}"
    else:
        decimals = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
        text = f"{value:,.{decimals}f}"
    return f"{text} {unit}".rstrip()


@dataclass
class ChapterFolder:
    """One chapter's place in a run: `folder` is the run's folder, `fallback` where a missing artifact may come from."""

    name: str
    project: Project
    folder: Path
    fallback: Path | None = None
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    live_results: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._own.mkdir(parents=True, exist_ok=True)
        self._save("results.json", self.results)
        self._save("live.json", self.live_results)

    @property
    def _own(self) -> Path:
        return self.folder / "artifacts" / self.name

    def _save(self, file: str, results: dict[str, dict[str, Any]]) -> None:
        document = {"chapter": self.name, "results": [{"name": name, **row} for name, row in results.items()]}
        write_json(self._own / file, document)

    def artifact(self, address: str) -> Path:
        """Return the file ``CHAPTER/FILE`` of this run; raises `InputError` when no run has it yet."""
        for folder in (self.folder, self.fallback):
            if folder is not None and (folder / "artifacts" / address).is_file():
                return folder / "artifacts" / address
        chapter = address.split("/")[0]
        raise InputError(f"{address} is not there yet: run the chapter {chapter!r} or `wirebound run` first")

    def has_live(self) -> bool:
        """Whether this run probed this machine."""
        return (self.folder / "artifacts" / LIVE_PROFILE).is_file()

    def read_table(self, address: str) -> "pd.DataFrame":
        """Return the table ``CHAPTER/FILE.parquet`` of this run."""
        import pandas as pd

        return pd.read_parquet(self.artifact(address))

    def read_json(self, address: str) -> Any:
        """Return the document ``CHAPTER/FILE.json`` of this run."""
        return json.loads(self.artifact(address).read_text(encoding="utf-8"))

    def write_table(self, table: "pd.DataFrame", name: str) -> None:
        """Write an artifact ``NAME.parquet`` for later chapters."""
        table.to_parquet(self._own / f"{name}.parquet", index=False)

    def write_json(self, document: Any, name: str) -> None:
        """Write an artifact ``NAME.json`` for later chapters."""
        write_json(self._own / f"{name}.json", document)

    def _address(self, file: str) -> str:
        return f"../artifacts/{self.name}/{file}"

    def figure(self, figure: "Figure", *, name: str, table: "pd.DataFrame", alt: str, caption: str) -> None:
        """Show a figure and offer it as SVG and its numbers, `table`, as CSV."""
        svg = figures.render_svg(figure)
        write_text(self._own / f"{name}.svg", svg)
        self._write_csv(table, name)
        downloads = {"table": self._address(f"{name}.csv"), "SVG": self._address(f"{name}.svg")}
        _display_html(figures.figure_html(svg, name=name, alt=alt, caption=caption, downloads=downloads))

    def table(self, table: "pd.DataFrame", *, name: str, caption: str, shown: "pd.DataFrame | None" = None) -> None:
        """Show a table, or its printed form `shown`, and offer it as CSV."""
        self._write_csv(table, name)
        downloads = {"table": self._address(f"{name}.csv")}
        printed = (table if shown is None else shown).rename_axis(columns=None).astype(str)
        _display_html(figures.table_html(printed, name=name, caption=caption, downloads=downloads))

    def _write_csv(self, table: "pd.DataFrame", name: str) -> None:
        table.to_csv(self._own / f"{name}.csv", index=False, lineterminator="\n", float_format="%.10g")

    def result(
        self, name: str, value: float | int | str | bool, unit: str = "", *, tolerance: float = 0.0, label: str
    ) -> None:
        """Record a headline result, the same on every machine, and give the prose its printed form.

        `tolerance` is the absolute difference from the published run that `compare` accepts.
        """
        self._record(self.results, "results.json", name, value, unit, tolerance, label)

    def live(self, name: str, value: float | int | str | bool, unit: str = "", *, label: str) -> None:
        """Record a result of this machine, kept apart from those that are the same everywhere."""
        self._record(self.live_results, "live.json", name, value, unit, None, label)

    def _record(
        self,
        results: dict[str, dict[str, Any]],
        file: str,
        name: str,
        value: float | int | str | bool,
        unit: str,
        tolerance: float | None,
        label: str,
    ) -> None:
        if hasattr(value, "item"):
            value = value.item()  # a NumPy scalar
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"result {name!r} of {self.name} is {value}")
        rounded = float(f"{value:.6g}") if isinstance(value, float) else value
        row: dict[str, Any] = {"value": rounded, "unit": unit, "tolerance": tolerance, "label": label}
        if tolerance is None:
            del row["tolerance"]
        results[name] = row
        self._save(file, results)
        glue(name, format_value(value, unit))


def glue(name: str, text: str) -> None:
    """Make `text` available to the page's prose as ``{glue:text}`name```."""
    from myst_nb import glue as myst_glue

    myst_glue(name, text, display=False)


def say(text: str) -> None:
    """Show a sentence computed by the chapter, as Markdown."""
    from IPython.display import Markdown, display

    display(Markdown(text))  # type: ignore[no-untyped-call]


def say_warnings(what: str, warnings: Sequence[str]) -> None:
    """Show what a measurement warns of, one line each, or that it warns of nothing."""
    if warnings:
        say(f"Warnings of {what}:\n\n" + "\n".join(f"- {warning}" for warning in warnings))
    else:
        say(f"Nothing disturbed {what}.")


def _display_html(text: str) -> None:
    from IPython.display import HTML, display

    display(HTML(text))  # type: ignore[no-untyped-call]


def open_chapter(name: str) -> ChapterFolder:
    """Return the chapter's place in the run that executes it, or in ``runs/by-hand`` when opened by hand."""
    here = Path.cwd()
    project = find_project(here)
    by_hand = project.runs / "by-hand"
    if here not in (project.notebooks.resolve(), by_hand.resolve()):
        return ChapterFolder(name, project, here)
    by_hand.mkdir(parents=True, exist_ok=True)
    os.chdir(by_hand)
    return ChapterFolder(name, project, by_hand, fallback=project.runs / "quick")
