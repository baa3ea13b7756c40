"""`wirebound status`: what is fresh, stale, failed or never run, read from a run's records; nothing is executed."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.study import fingerprint
from wirebound.study.chapter import Chapter
from wirebound.study.inputs import PROBE, PROFILE, Inputs, Request, Study, read_json, work_folder
from wirebound.study.manifest import machine_record


@dataclass(frozen=True, slots=True)
class ChapterState:
    """One chapter or the probe: `state` is fresh, stale, failed or never run; `reasons` say what changed."""

    chapter: str
    state: str
    reasons: tuple[str, ...] = ()


def read_records(folder: Path) -> dict[str, dict[str, str]]:
    """Return task → node → digest as pytask last recorded them in a work folder.

    They are in ``pytask.lock`` and, after a run that was killed, in the journal beside it.
    """
    try:
        tasks = tomllib.loads((folder / "pytask.lock").read_text(encoding="utf-8")).get("task", [])
    except (OSError, ValueError):
        tasks = []
    records = {task["id"]: _nodes(task) for task in tasks}
    try:
        lines = (folder / "pytask.lock.journal").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        try:
            task = json.loads(line)
        except ValueError:
            break  # the last line of a killed run may be torn
        records[task["id"]] = _nodes(task)
    return records


def _nodes(task: Mapping[str, Any]) -> dict[str, str]:
    return {**task.get("depends_on", {}), **task.get("produces", {})}


def chapter_states(study: Study, request: Request) -> list[ChapterState]:
    """Return the state of the probe, where the request has one, and of every chapter, in reading order."""
    folder = work_folder(study.project, request.name)
    records = read_records(folder)
    inputs = Inputs(study, request)
    states: dict[str, ChapterState] = {}
    if request.live and any(chapter.uses_live for chapter in study.chapters):
        now = inputs.of_probe(machine_record()) | _contents(folder, (PROFILE,))
        states[PROBE] = _compare(PROBE, records.get(PROBE), now)
    for chapter in study.chapters:
        states[chapter.name] = _chapter_state(chapter, folder, records, inputs, request, states)
    return list(states.values())


def _chapter_state(
    chapter: Chapter,
    folder: Path,
    records: Mapping[str, Mapping[str, str]],
    inputs: Inputs,
    request: Request,
    earlier: Mapping[str, ChapterState],
) -> ChapterState:
    failure = read_json(folder / "records" / f"{chapter.name}.failed.json")
    if failure is not None:
        return ChapterState(chapter.name, "failed", (failure["problem"],))
    uses_probe = request.live and chapter.uses_live
    try:
        now = inputs.of_chapter(chapter)
    except InputError as error:
        return ChapterState(chapter.name, "stale" if chapter.name in records else "never run", (str(error),))
    own = f"artifacts/{chapter.name}"
    now |= _contents(
        folder,
        (
            *(f"artifacts/{address}" for address in chapter.reads),
            *((PROFILE,) if uses_probe else ()),
            f"notebooks/{chapter.name}.ipynb",
            own,
            *(f"{own}/{file}" for file in chapter.products),
        ),
    )
    state = _compare(chapter.name, records.get(chapter.name), now)
    if state.state == "never run":
        return state
    upstream = (*chapter.upstream, *((PROBE,) if uses_probe else ()))
    waiting = tuple(f"{name} is {earlier[name].state}" for name in upstream if earlier[name].state != "fresh")
    reasons = (*state.reasons, *waiting)
    return ChapterState(chapter.name, "stale" if reasons else "fresh", reasons)


def _contents(folder: Path, addresses: tuple[str, ...]) -> dict[str, str]:
    digests = {}
    for address in addresses:
        path = folder / address
        if path.is_dir():
            digests[address] = fingerprint.digest_folder(path)
        else:
            digests[address] = fingerprint.digest_file(path) if path.is_file() else fingerprint.ABSENT
    return digests


def _compare(name: str, record: Mapping[str, str] | None, now: Mapping[str, str]) -> ChapterState:
    if record is None:
        return ChapterState(name, "never run")
    reasons = tuple(
        f"{node} is {'missing' if digest == fingerprint.ABSENT else 'new' if node not in record else 'changed'}"
        for node, digest in now.items()
        if record.get(node) != digest
    )
    return ChapterState(name, "stale" if reasons else "fresh", _shorten(reasons))


def _shorten(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the list of inputs where it only repeats that one of them is new."""
    named = tuple(reason for reason in reasons if not reason.startswith("list of inputs"))
    return named or tuple("an input is used no longer" for _ in reasons)
