"""What makes a chapter run again, and what does not. Every test changes one thing and looks at what was executed."""

import json
import os
from collections.abc import Callable

import pytest
from conftest import ToyRun
from toy_study import CODE, run_toy, write_notebook, write_toy_project

from wirebound.study import status, tasks
from wirebound.study.chapters import chapter_named
from wirebound.study.inputs import make_request
from wirebound.study.status import chapter_states


def touch_everything(toy: ToyRun) -> None:
    for path in toy.root.rglob("*"):
        os.utime(path, (1, 1))


def set_own_parameter(toy: ToyRun) -> None:
    toy.settings["analyse.workers"] = "8"


def set_same_value(toy: ToyRun) -> None:
    toy.settings["rate"] = "10000 Mbps"


def set_shared_parameter(toy: ToyRun) -> None:
    toy.settings["label"] = 'a "quoted" \\ text\nwith {braces}'


def keep_more_digits(toy: ToyRun) -> None:
    toy.settings["digits"] = "2"  # 2.250: the table stays the same


def change_module(toy: ToyRun) -> None:
    toy.rewrite("toy/scale.py", "FACTOR = 2", "FACTOR = 3")


def comment_module(toy: ToyRun) -> None:
    toy.rewrite("toy/results.py", '"""Write one result."""', '"""Another docstring."""  # and a comment')
    toy.rewrite("toy/scale.py", "FACTOR = 3", "FACTOR = (\n    3  # three\n)") if "3" in (
        toy.root / "toy/scale.py"
    ).read_text() else toy.rewrite("toy/scale.py", "FACTOR = 2", "FACTOR = (2)  # two")


def add_unused_module(toy: ToyRun) -> None:
    (toy.root / "toy" / "unused.py").write_text("VALUE = 1\n")


def comment_notebook(toy: ToyRun) -> None:
    path = toy.root / "notebooks" / "report.ipynb"
    notebook = json.loads(path.read_text())
    notebook["metadata"]["kernelspec"] = {"name": "another", "display_name": "Another"}
    cell = notebook["cells"][-1]
    cell["source"] = f"# a comment\n{cell['source']}"
    cell["execution_count"] = 7
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "old"}]
    path.write_text(json.dumps(notebook))


def edit_code(toy: ToyRun) -> None:
    chapter = chapter_named(toy.study.chapters, "report")
    write_notebook(toy.root / "notebooks" / "report.ipynb", chapter, f"{CODE['report']}\nprint('more')")


def edit_prose(toy: ToyRun) -> None:
    chapter = chapter_named(toy.study.chapters, "aside")
    write_notebook(toy.root / "notebooks" / "aside.ipynb", chapter, CODE["aside"], prose="# Another title")


def comment_lock(toy: ToyRun) -> None:
    path = toy.root / "requirements.lock"
    path.write_text(f"# another comment\n\n{path.read_text()}")


def change_lock(toy: ToyRun) -> None:
    toy.rewrite("requirements.lock", "toy==1.0", "toy==1.1")


def change_data(toy: ToyRun) -> None:
    toy.rewrite("data/numbers.csv", "1.25", "4.25")


def lose_artifact(toy: ToyRun) -> None:
    (toy.work / "artifacts" / "analyse" / "summary.json").unlink()


def damage_artifact(toy: ToyRun) -> None:
    (toy.work / "artifacts" / "measure" / "table.json").write_text('{"mean": 0}')


def damage_notebook(toy: ToyRun) -> None:
    (toy.work / "notebooks" / "aside.ipynb").write_text("{}")


def change_probe(toy: ToyRun) -> None:
    toy.rewrite("toy/probe.py", "count = int", "count = 0 + int")


@pytest.mark.parametrize(
    ("change", "executed"),
    [
        (touch_everything, []),
        (set_own_parameter, ["analyse", "report"]),
        (set_same_value, []),
        (set_shared_parameter, ["aside", "measure"]),
        (keep_more_digits, ["measure"]),
        (change_module, ["analyse", "report"]),
        (comment_module, []),
        (add_unused_module, []),
        (comment_notebook, []),
        (edit_code, ["report"]),
        (edit_prose, ["aside"]),
        (comment_lock, []),
        (change_lock, ["analyse", "aside", "measure", "report"]),
        (change_data, ["analyse", "measure", "report"]),
        (lose_artifact, ["analyse"]),
        (damage_artifact, ["measure"]),
        (damage_notebook, ["aside"]),
        (change_probe, ["aside", "live_probe"]),
    ],
)
def test_change_executes_what_depends_on_it(toy: ToyRun, change: Callable[[ToyRun], None], executed: list[str]) -> None:
    before = toy.hashes()
    change(toy)
    outcome = toy.run()
    assert sorted(outcome.executed) == executed
    assert sorted([*outcome.executed, *outcome.fresh]) == ["analyse", "aside", "live_probe", "measure", "report"]
    if not executed:
        assert not outcome.published
        assert toy.hashes() == before
