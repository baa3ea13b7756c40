"""What makes a chapter run again, and what does not. Every test changes one thing and looks at what was executed."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from toy_study import CODE, MODULES, ToyRun, write_notebook, write_toy_project

from wirebound.study import status, tasks
from wirebound.study.chapter import chapter_named
from wirebound.study.inputs import make_request
from wirebound.study.settings import parse_assignments
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
    path = toy.root / "toy" / "scale.py"
    path.write_text(f"# a comment\n\n{path.read_text()}")


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


def test_full_set_has_its_own_defaults_and_name(toy: ToyRun) -> None:
    request = make_request(toy.study, full=True)
    assert (request.name, request.values["measure"]["digits"]) == ("full", 6)
    assert make_request(toy.study).values["measure"]["digits"] == 3


def test_only_runs_a_chapter_and_its_stale_ancestors(toy: ToyRun) -> None:
    toy.rewrite("data/numbers.csv", "2.5", "7.5")
    before = toy.hashes()
    outcome = toy.run(only="analyse")
    assert outcome.executed == ("measure", "analyse")
    assert outcome.manifest["stale"] == ["report"]
    after = toy.hashes()
    assert {name for name in after if after[name] != before[name]} == {
        "artifacts/analyse/results.json",
        "artifacts/analyse/summary.json",
        "artifacts/measure/results.json",
        "artifacts/measure/table.json",
        "manifest.json",
        "results.json",
    }
    assert before.keys() == after.keys()
    outcome = toy.run()
    assert outcome.executed == ("report",)
    assert outcome.manifest["stale"] == []


def test_probe_runs_again_for_another_machine_or_on_request(toy: ToyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def count() -> int:
        return int(json.loads((toy.published / "artifacts/live_probe/profile.json").read_text())["count"])

    start = count()
    assert sorted(toy.run(refresh=True).executed) == ["aside", "live_probe"]
    assert count() == start + 1
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "machine_record", lambda: {"cores": -1})
        assert sorted(toy.run().executed) == ["aside", "live_probe"]
        assert count() == start + 2
    assert sorted(toy.run().executed) == ["aside", "live_probe"]


def test_without_live_the_probe_and_its_traces_are_gone(toy: ToyRun) -> None:
    assert {"live.json", "artifacts/aside/live.json", "artifacts/live_probe/profile.json"} <= toy.hashes().keys()
    toy.live = False
    assert toy.run().executed == ("aside",)
    assert not [name for name in toy.hashes() if "live" in name]
    assert json.loads((toy.published / "manifest.json").read_text())["live"] is False
    toy.live = True
    assert sorted(toy.run().executed) == ["aside", "live_probe"]


def test_status_says_what_changed_and_executes_nothing(toy: ToyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    request = make_request(toy.study, layers=[parse_assignments(f"{k}={v}" for k, v in toy.settings.items())])
    assert {state.state for state in chapter_states(toy.study, request)} == {"fresh"}
    toy.rewrite("data/numbers.csv", "7.5", "8.5")
    toy.rewrite("requirements.lock", "toy==1", "toy==2")
    monkeypatch.setattr(status, "machine_record", dict)
    before = toy.hashes()
    states = {state.chapter: state for state in chapter_states(toy.study, request)}
    assert states["live_probe"].reasons == ("machine is changed",)
    assert states["measure"].reasons == ("requirements.lock is changed", "data numbers.csv is changed")
    assert states["analyse"].reasons == ("requirements.lock is changed", "measure is stale")
    assert states["report"].reasons == ("requirements.lock is changed", "analyse is stale", "measure is stale")
    assert states["aside"].reasons == ("requirements.lock is changed", "live_probe is stale")
    other = chapter_states(toy.study, make_request(toy.study, name="other"))
    assert {state.state for state in other} == {"never run"}
    assert toy.hashes() == before
    monkeypatch.undo()
    toy.run()


def test_another_folder_gives_the_same_files(toy: ToyRun, tmp_path: Path) -> None:
    """All but the manifest, and what the probe measured, is the same wherever the study is executed."""
    other = ToyRun(write_toy_project(tmp_path / "other {place}"), live=False, settings=toy.settings)
    for address in ("data/numbers.csv", "requirements.lock", *(f"toy/{name}.py" for name in MODULES)):
        (other.root / address).write_text((toy.root / address).read_text())
    for path in toy.study.project.notebooks.iterdir():
        (other.study.project.notebooks / path.name).write_text(path.read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(other.root), os.environ["PYTHONPATH"]]))
        other.run()
    toy.live = False
    toy.run()
    assert other.hashes(manifest=False) == toy.hashes(manifest=False)
    text = "".join(path.read_text() for path in other.published.rglob("*") if path.is_file())
    assert str(tmp_path) not in text
    toy.live = True
    toy.run()
