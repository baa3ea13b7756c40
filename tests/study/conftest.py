"""A toy project that has been run once, shared by the tests of a module."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from toy_study import run_toy, write_toy_project

from wirebound.study.fingerprint import digest_file
from wirebound.study.inputs import Study
from wirebound.study.run import Outcome


@dataclass
class ToyRun:
    """The project, and the settings that its last run had; every test leaves the run up to date."""

    study: Study
    live: bool = True
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.study.project.root

    @property
    def published(self) -> Path:
        return self.study.project.runs / "quick"

    @property
    def work(self) -> Path:
        return self.study.project.runs / ".work" / "quick"

    def run(self, *, only: str | None = None, refresh: bool = False) -> Outcome:
        assignments = [f"{name}={value}" for name, value in self.settings.items()]
        return run_toy(self.study, *assignments, live=self.live, only=only, refresh=refresh)

    def hashes(self, *, manifest: bool = True) -> dict[str, str]:
        """Path → digest of every published file."""
        files = sorted(path for path in self.published.rglob("*") if path.is_file())
        digests = {path.relative_to(self.published).as_posix(): digest_file(path) for path in files}
        if not manifest:
            del digests["manifest.json"]
        return digests

    def rewrite(self, address: str, old: str, new: str) -> None:
        """Replace text in one of the project's files."""
        path = self.root / address
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyRun]:
    root = tmp_path_factory.mktemp("toy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))
        run = ToyRun(write_toy_project(root))
        run.run()
        yield run
