"""`wirebound compare`: which results moved between two runs, by how much, against their tolerances."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.files import write_json
from wirebound.study.chapter import RESULTS
from wirebound.study.inputs import Study, read_json
from wirebound.study.project import Project
from wirebound.study.run import MANIFEST
from wirebound.study.run_folder import published_run

PUBLISHED = "published"
#: Results are rounded to six digits, so differences carry the rounding errors of binary fractions.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Change:
    """One result in two runs.

    `change` is ``same``, ``within`` (its tolerance), ``moved``, ``appeared`` or ``vanished``; `difference` is second −
    first for numbers, None otherwise.
    """

    name: str
    change: str
    first: Any = None
    second: Any = None
    difference: float | None = None
    tolerance: float | None = None
    unit: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs: every result, and the parameters and settings that differ, each as name → (first, second)."""

    first: str
    second: str
    results: tuple[Change, ...]
    parameters: Mapping[str, tuple[Any, Any]]

    @property
    def agrees(self) -> bool:
        """Whether every result is there in both runs and within its tolerance."""
        return all(result.change in ("same", "within") for result in self.results)

    def document(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        return {
            "first": self.first,
            "second": self.second,
            "agrees": self.agrees,
            "results": [asdict(result) for result in self.results],
            "parameters": {name: list(pair) for name, pair in self.parameters.items()},
        }


def reference_folder(project: Project) -> Path:
    """Return where the published run's results and manifest are kept."""
    return project.recorded / "reference_run"


def compare_runs(project: Project, first: str = PUBLISHED, second: str = "quick") -> Comparison:
    """Compare two runs, by name; ``published`` is the reference run. Tolerances are those of the first.

    Raises `InputError` when a run is missing or its files are not readable.
    """
    (old, old_manifest), (new, new_manifest) = (_load(project, name) for name in (first, second))
    names = [*old, *(name for name in new if name not in old)]
    settings = ((_settings(old_manifest)), _settings(new_manifest))
    return Comparison(
        first,
        second,
        tuple(_change(name, old.get(name), new.get(name)) for name in names),
        {
            key: (settings[0].get(key), settings[1].get(key))
            for key in [*settings[0], *(key for key in settings[1] if key not in settings[0])]
            if settings[0].get(key) != settings[1].get(key)
        },
    )


def _load(project: Project, name: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    if name == PUBLISHED:
        folder = reference_folder(project)
        if not folder.is_dir():
            raise InputError(
                "there is no published run yet: `wirebound compare --accept quick` takes the last quick run"
            )
    else:
        folder = published_run(project, name)
    results, manifest = read_json(folder / RESULTS), read_json(folder / MANIFEST)
    try:
        rows = {key: dict(row) for key, row in results["results"].items() if "value" in row}
        return rows, dict(manifest.items())
    except (TypeError, KeyError, AttributeError, ValueError):
        raise InputError(f"run {name!r}: {RESULTS} or {MANIFEST} is missing or damaged: execute it again") from None


def _settings(manifest: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {
        f"{chapter}.{name}": value
        for chapter, values in manifest.get("parameters", {}).items()
        for name, value in values.items()
    }
    return {"set": manifest.get("set"), "live": manifest.get("live"), **parameters}


def _change(name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Change:
    row = old or new or {}
    what = {"unit": row.get("unit", ""), "label": row.get("label", ""), "tolerance": row.get("tolerance")}
    if old is None or new is None:
        kind = "appeared" if old is None else "vanished"
        return Change(name, kind, old and old["value"], new and new["value"], **what)
    first, second = old["value"], new["value"]
    same_unit = old.get("unit", "") == new.get("unit", "")
    if not (_is_number(first) and _is_number(second)):
        same = same_unit and type(first) is type(second) and first == second
        return Change(name, "same" if same else "moved", first, second, **what)
    difference = second - first
    slack = _ROUNDING * max(abs(first), abs(second))
    if not same_unit or not abs(difference) <= (what["tolerance"] or 0) + slack:
        kind = "moved"
    else:
        kind = "same" if first == second else "within"
    return Change(name, kind, first, second, difference, **what)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def accept_run(study: Study, name: str) -> Path:
    """Make a run's results and manifest the published ones; return their folder.

    Raises `InputError` unless the run is a quick one with every chapter up to date.
    """
    folder = published_run(study.project, name)
    manifest, results = read_json(folder / MANIFEST), read_json(folder / RESULTS)
    missing = [chapter.name for chapter in study.chapters if chapter.name not in manifest["parameters"]]
    if manifest["set"] != "quick" or missing or manifest["stale"]:
        why = "of the full set" if manifest["set"] != "quick" else f"lacks {', '.join(missing + manifest['stale'])}"
        raise InputError(f"run {name!r} {why}: the published run is a whole quick run; execute `wirebound run` first")
    target = reference_folder(study.project)
    target.mkdir(parents=True, exist_ok=True)
    write_json(target / RESULTS, results)
    write_json(target / MANIFEST, manifest)
    return target
