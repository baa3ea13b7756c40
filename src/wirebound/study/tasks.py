"""The run as a pytask graph: the live probe and each chapter are tasks, joined by the artifacts they hand on.

pytask decides what is stale and keeps its records (``pytask.lock``) in the run's work folder; every node's state is a
digest of content.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytask
from pytask import ExitCode, TaskOutcome, TaskWithoutPath

from wirebound.errors import WireboundError
from wirebound.files import write_json
from wirebound.study import fingerprint
from wirebound.study.chapter import RESULTS, Chapter
from wirebound.study.inputs import PROBE, PROFILE, Inputs, Request, Study
from wirebound.study.manifest import environment_record, machine_record
from wirebound.study.results import LIVE, read_chapter_results

#: Says what happens to people: called with a task's name and a few words.
Report = Callable[[str, str], None]


def _signature(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(kw_only=True)
class DigestNode:
    """Something that a task depends on and whose digest is known."""

    name: str
    owner: str
    digest: str
    attributes: dict[Any, Any] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        """The node's identity in the graph."""
        return _signature("input", self.owner, self.name)

    def state(self) -> str:
        """Return the digest."""
        return self.digest

    def load(self, is_product: bool = False) -> str:
        """Return the digest."""
        return self.digest

    def save(self, value: Any) -> None:
        """Digests are computed, not saved."""


@dataclass(kw_only=True)
class ContentNode:
    """A file or a folder of a run, by content."""

    path: Path
    name: str
    attributes: dict[Any, Any] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        """The node's identity in the graph."""
        return _signature("path", str(self.path))

    def state(self) -> str | None:
        """Return the digest of the content, None when there is nothing."""
        if self.path.is_dir():
            return fingerprint.digest_folder(self.path)
        return fingerprint.digest_file(self.path) if self.path.is_file() else None

    def load(self, is_product: bool = False) -> Path:
        """Return the path."""
        return self.path

    def save(self, value: Any) -> None:
        """Tasks write their files themselves."""


@dataclass(kw_only=True)
class RunTask(TaskWithoutPath):
    """A task whose own code does not count: what counts are its nodes."""

    def state(self) -> str:
        """Return the version of the way in which tasks are executed."""
        return "1"

    def execute(self, **_: Any) -> None:
        """Run the task; it knows its inputs itself."""
        self.function()


class Graph:
    """The tasks of one request in the work folder `folder`."""

    def __init__(self, study: Study, request: Request, folder: Path, report: Report, *, progress: bool) -> None:
        self._study = study
        self._request = request
        self._folder = folder
        self._report = report
        self._progress = progress
        self._inputs = Inputs(study, request)

    def build(self) -> tuple[list[str], list[str]]:
        """Execute what is stale; return the names of the tasks that ran and of those that were fresh.

        Raises the error of the first task that fails; later tasks do not run then.
        """
        tasks = self._tasks()
        config = self._folder / "pytask.toml"  # makes the work folder pytask's root
        config.write_text("[tool.pytask.ini_options]\n", encoding="utf-8")
        quiet, pytask.console.quiet = pytask.console.quiet, True
        try:
            session = pytask.build(
                tasks=tasks,
                paths=(),
                config=config,
                capture="no",
                disable_warnings=True,
                stop_after_first_failure=True,
            )
        finally:
            pytask.console.quiet = quiet
        for outcome in session.execution_reports:
            if outcome.exc_info is not None and outcome.outcome == TaskOutcome.FAIL:
                raise _plain_error(outcome.exc_info[1], outcome.task.name)
        if session.exit_code != ExitCode.OK:
            problems = [outcome.exc_info[1] for outcome in session.collection_reports if outcome.exc_info is not None]
            reason = str(problems[0]) if problems else "its records are damaged"
            raise WireboundError(f"the run cannot start ({reason}): delete {self._folder} and run again")
        names = {TaskOutcome.SUCCESS: [], TaskOutcome.SKIP_UNCHANGED: []}  # type: dict[TaskOutcome, list[str]]
        for outcome in session.execution_reports:
            names[TaskOutcome(outcome.outcome)].append(outcome.task.name)
        return names[TaskOutcome.SUCCESS], names[TaskOutcome.SKIP_UNCHANGED]

    def _tasks(self) -> list[RunTask]:
        chapters = [chapter for chapter in self._study.chapters if chapter.name in self._request.selected]
        tasks = [self._chapter_task(chapter) for chapter in chapters]
        if self._request.live and any(chapter.uses_live for chapter in chapters):
            tasks.insert(0, self._probe_task())
        return tasks

    def _node(self, address: str) -> ContentNode:
        return ContentNode(path=self._folder / address, name=address)

    def _task(
        self, name: str, run: Callable[[], None], inputs: dict[str, str], reads: Sequence[str], writes: Iterable[str]
    ) -> RunTask:
        digests = [DigestNode(name=key, owner=name, digest=digest) for key, digest in inputs.items()]
        return RunTask(
            name=name,
            function=run,
            depends_on={"inputs": digests, "artifacts": [self._node(address) for address in reads]},
            produces={"products": [self._node(address) for address in writes]},
        )

    def _probe_task(self) -> RunTask:
        inputs = self._inputs.of_probe(machine_record())
        task = self._task(PROBE, self._run_probe, inputs, (), (PROFILE,))
        task.markers.append(pytask.Mark("try_first", (), {}))
        return task

    def _chapter_task(self, chapter: Chapter) -> RunTask:
        reads = [f"artifacts/{address}" for address in chapter.reads]
        if self._request.live and chapter.uses_live:
            reads.append(PROFILE)
        own = f"artifacts/{chapter.name}"
        writes = [f"notebooks/{chapter.name}.ipynb", own, *(f"{own}/{file}" for file in chapter.products)]
        return self._task(
            chapter.name, lambda: self._run_chapter(chapter), self._inputs.of_chapter(chapter), reads, writes
        )

    def _run_probe(self) -> None:
        from wirebound.study.execute import child_environment

        self._report(PROBE, "measuring this machine; leave it alone for half a minute")
        target = self._folder / PROFILE
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name("profile.new.json")
        module, *arguments = self._study.probe.command(full=self._request.full)
        command = [sys.executable, "-m", module, *arguments, "--out", str(fresh)]
        answer = subprocess.run(
            command,
            cwd=self._folder,
            env=os.environ | child_environment(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if answer.returncode != 0 or not fresh.is_file():
            lines = (answer.stderr or answer.stdout).strip().splitlines() or [f"exit code {answer.returncode}"]
            fresh.unlink(missing_ok=True)
            raise WireboundError(f"the live probe failed: {lines[-1]} (use --no-live to do without)")
        fresh.replace(target)
        self._report(PROBE, "measured")

    def _run_chapter(self, chapter: Chapter) -> None:
        records = self._folder / "records"
        failure = records / f"{chapter.name}.failed.json"
        records.mkdir(parents=True, exist_ok=True)
        for path in (records / f"{chapter.name}.json", failure, self._folder / "notebooks" / f"{chapter.name}.ipynb"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self._folder / "artifacts" / chapter.name, ignore_errors=True)
        self._report(chapter.name, "running")
        start = time.monotonic()
        try:
            self._execute(chapter)
        except WireboundError as error:
            write_json(failure, {"problem": str(error)})
            raise
        seconds = time.monotonic() - start
        write_json(self._folder / "environment.json", environment_record())
        executed = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "seconds": round(seconds, 2)}
        values = self._request.values[chapter.name]
        write_json(records / f"{chapter.name}.json", {"parameters": values, "executed": executed})
        self._report(chapter.name, f"done in {seconds:.1f} s")

    def _execute(self, chapter: Chapter) -> None:
        from wirebound.study.execute import execute_notebook

        own = self._folder / "artifacts" / chapter.name
        own.mkdir(parents=True, exist_ok=True)
        # The parameters cell has the quick defaults: only what differs is injected, and stands out on the page.
        defaults = {parameter.name: parameter.default_value() for parameter in chapter.parameters}
        values = self._request.values[chapter.name]
        execute_notebook(
            chapter.name,
            self._study.project.notebooks / f"{chapter.name}.ipynb",
            self._folder / "notebooks" / f"{chapter.name}.ipynb",
            parameters={name: value for name, value in values.items() if value != defaults[name]},
            folder=self._folder,
            progress=self._progress,
        )
        missing = [file for file in chapter.products if not (own / file).is_file()]
        if missing:
            raise WireboundError(f"chapter {chapter.name} did not write artifacts/{chapter.name}/{missing[0]}")
        read_chapter_results(own / RESULTS)
        if not read_chapter_results(own / LIVE):
            (own / LIVE).unlink(missing_ok=True)  # nothing of this machine: the same as in a run without a probe


def _plain_error(error: BaseException | None, task: str) -> BaseException:
    if isinstance(error, WireboundError | KeyboardInterrupt | OSError):
        return error
    return WireboundError(f"{task} failed: {type(error).__name__}: {error}")
