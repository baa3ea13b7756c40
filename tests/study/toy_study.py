"""A small study of four chapters, for tests that execute: probe → aside, and measure → analyse → report.

As a script, ``toy_study.py ROOT [--no-live] [--only-aside] [NAME=VALUE …]`` runs it
in a process of its own, to be killed.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from wirebound.study.chapter import Chapter
from wirebound.study.check_notebooks import parameters_cell
from wirebound.study.fingerprint import digest_file
from wirebound.study.inputs import Probe, Study, make_request
from wirebound.study.parameters import Parameter
from wirebound.study.project import Project
from wirebound.study.run import Outcome, run_study
from wirebound.study.settings import parse_assignments

RATE = Parameter("rate", "bandwidth", "10 Gbps", "link rate", minimum="1 Mbps")
DIGITS = Parameter("digits", "integer", 3, "digits kept", minimum=0, maximum=9, full=6)
WORKERS = Parameter("workers", "integer", 4, "workers", minimum=1, maximum=64)
LABEL = Parameter("label", "text", "plain", "what to call it")

CHAPTERS = (
    Chapter(1, "measure", "Measure", (RATE, DIGITS, LABEL), writes=("table.json",), data=("numbers.csv",)),
    Chapter(2, "analyse", "Analyse", (WORKERS,), reads=("measure/table.json",), writes=("summary.json",)),
    Chapter(3, "report", "Report", (), reads=("analyse/summary.json", "measure/results.json")),
    Chapter(4, "aside", "Aside", (WORKERS, LABEL), uses_live=True),
)

MODULES = {
    "__init__": "",
    "results": '''"""Write results."""
import json
from pathlib import Path


def write(chapter, value, file="results.json"):
    """Write one result."""
    folder = Path("artifacts") / chapter
    rows = [{"name": "value", "value": value, "unit": "s", "tolerance": 0.5, "label": "a value"}]
    (folder / file).write_text(json.dumps({"chapter": chapter, "results": rows}), encoding="utf-8")
''',
    "scale": "FACTOR = 2\n",
    "analysis": """def scaled(value):
    from . import scale  # a local, relative import

    return value * scale.FACTOR
""",
    "probe": """import json
import sys
from pathlib import Path

counter = Path("probe_count")
count = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(count))
Path(sys.argv[sys.argv.index("--out") + 1]).write_text(json.dumps({"count": count}))
""",
}

CODE = {
    "measure": """import json
from pathlib import Path

from toy.results import write

numbers = [float(line) for line in Path("../../../data/numbers.csv").read_text().split()]
mean = round(sum(numbers) / len(numbers), digits)
print(rate, label)
Path("artifacts/measure/table.json").write_text(json.dumps({"mean": mean}))
write("measure", mean)""",
    "analyse": """import json
from pathlib import Path

from toy.analysis import scaled
from toy.results import write

mean = json.loads(Path("artifacts/measure/table.json").read_text())["mean"]
Path("artifacts/analyse/summary.json").write_text(json.dumps({"scaled": scaled(mean) * workers}))
write("analyse", scaled(mean) * workers)""",
    "report": """import json
from pathlib import Path

from toy.results import write

print({"b", "a", "c"})
write("report", json.loads(Path("artifacts/analyse/summary.json").read_text())["scaled"])""",
    "aside": """from pathlib import Path

from toy.results import write

write("aside", workers)
profile = Path("artifacts/live_probe/profile.json")
if profile.exists():
    write("aside", profile.read_text(), "live.json")""",
}


def write_toy_project(root: Path) -> Study:
    """Lay the project down in `root` and return its study."""
    for folder in ("notebooks", "book", "data", "toy"):
        (root / folder).mkdir(parents=True)
    (root / "book" / "_config.yml").write_text("title: Toy\n")
    (root / "data" / "numbers.csv").write_text("1.25\n2.5\n3.0001\n")
    (root / "requirements.lock").write_text("# pinned\ntoy==1.0\n")
    for name, source in MODULES.items():
        (root / "toy" / f"{name}.py").write_text(source)
    for chapter in CHAPTERS:
        write_notebook(root / "notebooks" / f"{chapter.name}.ipynb", chapter, CODE[chapter.name])
    return toy_study(root)


def toy_study(root: Path) -> Study:
    """The study in `root`."""
    return Study(Project(root), CHAPTERS, root / "toy", Probe("toy.probe", full_arguments=()))


def write_notebook(path: Path, chapter: Chapter, code: str, prose: str = "# Title") -> None:
    """Write a notebook of three cells: prose, parameters (where there are any) and code."""
    cells = [{"cell_type": "markdown", "id": "prose", "metadata": {}, "source": prose}]
    sources = [parameters_cell(chapter)] if chapter.parameters else []
    for number, source in enumerate([*sources, code]):
        tags = {"tags": ["parameters"]} if source in sources else {}
        cell = {"cell_type": "code", "id": f"code-{number}", "metadata": tags, "source": source}
        cells.append(cell | {"outputs": [], "execution_count": None})
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))


def run_toy(study: Study, *settings: str, live: bool = True, only: str | None = None, refresh: bool = False) -> Outcome:
    """Run the study with ``NAME=VALUE`` settings."""
    request = make_request(study, live=live, only=only, layers=[parse_assignments(settings)])
    return run_study(study, request, refresh_live=refresh)


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


if __name__ == "__main__":
    root, *rest = sys.argv[1:]
    os.environ["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    settings = [text for text in rest if not text.startswith("--")]
    only = "aside" if "--only-aside" in rest else None
    run_toy(toy_study(Path(root)), *settings, live="--no-live" not in rest, only=only)
