"""`wirebound run`: bring a run up to date in its work folder, then publish a whole copy of it."""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wirebound.errors import WireboundError
from wirebound.files import write_json, write_text
from wirebound.study.chapter import RESULTS
from wirebound.study.check_notebooks import check_parameters_cell
from wirebound.study.fingerprint import digest_file, digest_text
from wirebound.study.inputs import PROBE, PROFILE, Request, Study, read_json, work_folder
from wirebound.study.manifest import make_manifest
from wirebound.study.results import LIVE, merge_results
from wirebound.study.run_folder import RunLock, publish, recover, swap_folder
from wirebound.study.status import chapter_states

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: the tasks that it executed and those that were fresh, and its folder.

    `published` is false where the folder already held exactly this run.
    """

    folder: Path
    executed: tuple[str, ...]
    fresh: tuple[str, ...]
    published: bool
    manifest: Mapping[str, Any]


def note_progress(task: str, message: str) -> None:
    """Tell people on standard error what a task does."""
    print(f"{task}: {message}", file=sys.stderr, flush=True)


def run_study(study: Study, request: Request, *, refresh_live: bool = False, progress: bool = False) -> Outcome:
    """Execute what is stale and publish the run; return what was done.

    Raises `InputError` before anything runs when a notebook does not fit its declaration or an input is missing, and
    `WireboundError` when a chapter fails: ``runs/NAME`` then stays as it was, and the next run resumes there.
    """
    _require_packages()
    from wirebound.study.tasks import Graph

    folder = work_folder(study.project, request.name)
    for chapter in study.chapters:
        if chapter.name in request.selected:
            check_parameters_cell(study.project.notebooks, chapter)
    with RunLock(study.project, request.name):
        recover(study.project, request.name)
        if not request.live:
            shutil.rmtree(folder / "artifacts" / PROBE, ignore_errors=True)
        elif refresh_live:
            (folder / PROFILE).unlink(missing_ok=True)
        graph = Graph(study, request, folder, note_progress, progress=progress)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "request.json", request.document())
        executed, fresh = graph.build()
        manifest, published = _publish(study, request)
    return Outcome(study.project.runs / request.name, tuple(executed), tuple(fresh), published, manifest)


def _require_packages() -> None:
    for module in ("pytask", "papermill", "filelock"):
        if find_spec(module) is None:
            raise WireboundError(f"the package {module!r} is missing: pip install 'wirebound[study]'")


def _left_behind(study: Study, request: Request) -> frozenset[str]:
    """Return the chapters that this request left out and that no longer match it."""
    if len(request.selected) == len(study.chapters):
        return frozenset()
    return frozenset(
        state.chapter
        for state in chapter_states(study, request)
        if state.chapter not in request.selected and state.state != "fresh"
    )


def _publish(study: Study, request: Request) -> tuple[dict[str, Any], bool]:
    """Publish the run unless its folder already holds just that; return the manifest and whether it was published."""
    work, target = work_folder(study.project, request.name), study.project.runs / request.name
    before = read_json(target / MANIFEST) or {}
    records, sources = _completed(study, work, target, before)
    files = _artifacts(sources, live=request.live)
    if request.live and (work / PROFILE).is_file():
        files[PROFILE] = work / PROFILE
    environment = read_json(work / "environment.json") or {}
    texts = _merged(sources, environment if request.live else None)
    manifest = make_manifest(
        name=request.name,
        full=request.full,
        live=request.live,
        environment=environment,
        records=records,
        stale=_left_behind(study, request) & records.keys(),
        files={name: digest_file(path) for name, path in files.items()}
        | {name: digest_text(text) for name, text in texts.items()},
    )
    if {key: value for key, value in before.items() if key != "published"} == manifest and _holds(target, manifest):
        return before, False
    manifest["published"] = datetime.now(UTC).isoformat(timespec="seconds")
    prepared = swap_folder(study.project, request.name) / "new"
    prepared.mkdir(parents=True, exist_ok=True)
    for name, path in files.items():
        copy = prepared / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    for name, text in texts.items():
        write_text(prepared / name, text)
    write_json(prepared / MANIFEST, manifest)
    publish(study.project, request.name, prepared)
    return manifest, True


def _completed(
    study: Study, work: Path, target: Path, before: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], dict[str, Path]]:
    """Return the record of every chapter that has been executed, and the folder that holds its files.

    A chapter that was left out and is not whole in the work folder is taken over from the last good run.
    """
    records: dict[str, dict[str, Any]] = {}
    sources: dict[str, Path] = {}
    for chapter in study.chapters:
        record = read_json(work / "records" / f"{chapter.name}.json")
        if record is not None:
            records[chapter.name], sources[chapter.name] = record, work
        elif chapter.name in before.get("parameters", {}) and _has(target, chapter.name):
            records[chapter.name] = {key: before[key][chapter.name] for key in ("parameters", "executed")}
            sources[chapter.name] = target
    return records, sources


def _has(folder: Path, chapter: str) -> bool:
    return (folder / "notebooks" / f"{chapter}.ipynb").is_file() and (folder / "artifacts" / chapter).is_dir()


def _artifacts(sources: Mapping[str, Path], *, live: bool) -> dict[str, Path]:
    """Return path in the run folder → file for the notebooks and artifacts of all chapters."""
    files: dict[str, Path] = {}
    for chapter, folder in sources.items():
        own = folder / "artifacts" / chapter
        for path in (folder / "notebooks" / f"{chapter}.ipynb", *sorted(own.rglob("*"))):
            if path.is_file() and (live or path != own / LIVE):
                files[path.relative_to(folder).as_posix()] = path
    return files


def _merged(sources: Mapping[str, Path], live_environment: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the run's own documents: the results of all chapters and, in live runs, those of this machine."""
    artifacts = {chapter: folder / "artifacts" / chapter for chapter, folder in sources.items()}
    documents: dict[str, dict[str, Any]] = {RESULTS: {"results": merge_results(artifacts, RESULTS)}}
    if live_environment is not None:
        machine = live_environment.get("machine", {})
        documents[LIVE] = {"machine": machine, "results": merge_results(artifacts, LIVE)}
    return {name: json.dumps(document, indent=2, ensure_ascii=False) + "\n" for name, document in documents.items()}


def _holds(target: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether a published folder holds exactly the files of its manifest."""
    there = {path.relative_to(target).as_posix(): path for path in target.rglob("*") if path.is_file()}
    there.pop(MANIFEST, None)
    return bool({name: digest_file(path) for name, path in there.items()} == manifest["files"])
