"""Every command line of the README and the book can be typed as it stands there."""

import itertools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from wirebound.study.inputs import Study, make_request
from wirebound.study.project import Project
from wirebound.study.settings import parse_assignments

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "book").glob("*.md"))]

#: Commands that are quick and need no file of the reader's.
QUICK = ("workloads", "predict", "messages", "need", "advise")


def documented_commands() -> list[tuple[str, ...]]:
    """The words of each `wirebound …` line in a console block, once; comments and continued lines joined."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```(?:console|bash)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                if words[:1] == ["wirebound"]:
                    found.append(tuple(words[1:]))
    return list(dict.fromkeys(found))


COMMANDS = documented_commands()


def test_the_documentation_shows_commands():
    assert len(COMMANDS) > 15


@pytest.mark.parametrize("words", [words for words in COMMANDS if words[0] == "run"], ids=" ".join)
def test_run_takes_the_documented_parameters(words: tuple[str, ...]):
    assignments = [value for option, value in itertools.pairwise(words) if option == "--set"]
    request = make_request(Study(Project(ROOT)), name="documented", layers=[parse_assignments(assignments)])
    for assignment in assignments:
        name = assignment.split("=")[0].split(".")[-1]
        assert any(name in values for values in request.values.values())


@pytest.mark.parametrize(
    "words",
    [words for words in COMMANDS if words[0] in QUICK and not re.search(r"\b(PROFILE|FIT)\.json", " ".join(words))],
    ids=" ".join,
)
def test_documented_question_is_answered(words: tuple[str, ...], tmp_path: Path):
    answer = subprocess.run(
        [sys.executable, "-m", "wirebound", *words], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    said = "timeline of two steps in" if "--timeline" in words else ""
    assert answer.returncode == 0
    assert answer.stderr.startswith(said) if said else answer.stderr == ""
    assert answer.stdout


def command_of(words: tuple[str, ...]) -> tuple[str, ...]:
    return words[:2] if words[0] == "testbed" else words[:1]


@pytest.mark.parametrize("command", sorted({command_of(words) for words in COMMANDS}), ids=" ".join)
def test_documented_options_exist(command: tuple[str, ...]):
    help_text = subprocess.run(
        [sys.executable, "-m", "wirebound", *command, "--help"], capture_output=True, encoding="utf-8", check=True
    ).stdout
    for words in COMMANDS:
        if command_of(words) == command:
            for option in (word for word in words if word.startswith("--")):
                assert option in help_text, " ".join(words)
