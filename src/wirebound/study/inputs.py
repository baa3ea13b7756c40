"""What a run consists of, and everything that each of its tasks depends on, by content."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import wirebound
from wirebound.errors import InputError
from wirebound.study import fingerprint
from wirebound.study.chapter import Chapter, check_registry, with_ancestors
from wirebound.study.chapters import CHAPTERS
from wirebound.study.parameters import Value
from wirebound.study.project import Project
from wirebound.study.settings import Layer, resolve

#: The artifact of the live probe, and the name of its task.
PROBE = "live_probe"
PROFILE = f"artifacts/{PROBE}/profile.json"

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: `compare` calls the reference run so; a notebook that is opened by hand writes to the other.
_RESERVED = ("published", "by-hand")


@dataclass(frozen=True, slots=True)
class Probe:
    """How this machine is measured: ``python -m MODULE ARGUMENTS --out FILE``, in a fresh process."""

    module: str = "wirebound.profile.probe"
    arguments: tuple[str, ...] = ()
    full_arguments: tuple[str, ...] = ("--effort", "5")

    def command(self, *, full: bool) -> tuple[str, ...]:
        """Return the module and its arguments for the quick or the full set."""
        return (self.module, *(self.full_arguments if full else self.arguments))


@dataclass(frozen=True, slots=True)
class Study:
    """A project, its chapters, the package that their code cells use, and the probe."""

    project: Project
    chapters: tuple[Chapter, ...] = CHAPTERS
    package: Path = Path(wirebound.__file__).parent
    probe: Probe = Probe()


@dataclass(frozen=True, slots=True)
class Request:
    """A run as asked for: its name, parameter set, every chapter's values, and the chapters to bring up to date."""

    name: str
    full: bool
    live: bool
    values: Mapping[str, Mapping[str, Value]]
    selected: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return what `read_request` reads back."""
        return {"name": self.name, "full": self.full, "live": self.live, "values": self.values}


def check_run_name(name: str) -> str:
    """Return `name` if a run may be called so, else raise `InputError`."""
    if not _RUN_NAME.fullmatch(name) or name.lower() in _RESERVED:
        raise InputError(
            f"run name {name!r}: use letters, digits, '.', '_' and '-', and neither of {', '.join(_RESERVED)}"
        )
    return name


def make_request(
    study: Study,
    *,
    name: str | None = None,
    full: bool = False,
    live: bool = True,
    only: str | None = None,
    layers: Sequence[Layer] = (),
) -> Request:
    """Resolve what the user asked for; raises `InputError` before anything runs."""
    check_registry(study.chapters)
    name = check_run_name(("full" if full else "quick") if name is None else name)
    chapters = study.chapters if only is None else with_ancestors(study.chapters, only)
    selected = tuple(chapter.name for chapter in chapters)
    values = resolve(study.chapters, layers, full=full, selected=selected)
    return Request(name, full, live, values, selected)


def work_folder(project: Project, name: str) -> Path:
    """Return the folder in which a run's chapters execute."""
    return project.runs / ".work" / name


def read_json(path: Path) -> Any:
    """Return the document in a JSON file, None when it is missing or broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def read_request(study: Study, name: str) -> Request | None:
    """Return the last request of a run, None when there was none.

    Values of parameters that are declared no longer are dropped; new ones get their defaults.
    """
    document = read_json(work_folder(study.project, check_run_name(name)) / "request.json")
    if document is None:
        return None
    declared = {chapter.name: {parameter.name for parameter in chapter.parameters} for chapter in study.chapters}
    own = {
        chapter: {key: value for key, value in values.items() if key in declared[chapter]}
        for chapter, values in document["values"].items()
        if chapter in declared
    }
    return make_request(
        study, name=name, full=document["full"], live=document["live"], layers=[Layer(own=own, strict=False)]
    )


class Inputs:
    """Digests of everything that a request's tasks depend on, apart from each other's artifacts."""

    def __init__(self, study: Study, request: Request) -> None:
        self._study = study
        self._request = request
        self._modules = fingerprint.Modules(study.package)

    @cached_property
    def _lock(self) -> str:
        return fingerprint.digest_lock(self._study.project.root / "requirements.lock")

    def of_chapter(self, chapter: Chapter) -> dict[str, str]:
        """Return name → digest for a chapter; raises `InputError` when its notebook or a data file is missing."""
        project, request = self._study.project, self._request
        cells = fingerprint.read_cells(project.notebooks / f"{chapter.name}.ipynb")
        inputs = {"notebook": fingerprint.digest_notebook(cells), "requirements.lock": self._lock}
        for name, digest in self._modules.used_by(fingerprint.code_sources(cells)).items():
            inputs[f"module {name}"] = digest
        for address in chapter.data:
            inputs[f"data {address}"] = fingerprint.digest_data(project.data, address)
        for name, value in request.values[chapter.name].items():
            inputs[f"parameter {name}"] = fingerprint.digest_value(value)
        if chapter.uses_live:
            inputs["live probe on or off"] = fingerprint.digest_value(request.live)
        inputs["artifacts read"] = fingerprint.digest_value(chapter.reads)
        return _with_list(inputs)

    def of_probe(self, machine: Mapping[str, Any]) -> dict[str, str]:
        """Return name → digest for the live probe on `machine`."""
        command = self._study.probe.command(full=self._request.full)
        inputs = {"arguments": fingerprint.digest_value(command), "machine": fingerprint.digest_value(machine)}
        for name, digest in self._modules.used_by([f"import {self._study.probe.module}"]).items():
            inputs[f"module {name}"] = digest
        return _with_list(inputs)


def _with_list(inputs: dict[str, str]) -> dict[str, str]:
    """Add the list of inputs itself, so that dropping one is a change too."""
    return inputs | {"list of inputs": fingerprint.digest_value(sorted(inputs))}
