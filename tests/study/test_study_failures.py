"""What a failed, interrupted or killed run leaves behind: the last good run, whole, and a way on."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_study import CHAPTERS, CODE, ToyRun, write_notebook, write_toy_project

from wirebound.cli import main
from wirebound.errors import InputError, WireboundError
from wirebound.files import write_json
from wirebound.study import inputs, run_folder
from wirebound.study.fingerprint import digest_file
from wirebound.study.inputs import make_request
from wirebound.study.run_folder import RunLock, exchange, publish, published_run, recover, swap_folder
from wirebound.study.status import chapter_states

ANALYSE = next(chapter for chapter in CHAPTERS if chapter.name == "analyse")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise ValueError('first line\\nsecond line')", ["failed in cell 3 (code cell 2)", "ValueError: first line"]),
        ("import os\nos._exit(9)", ["failed in cell 3", "its Python process died"]),
        ("pass", ["did not write artifacts/analyse/results.json"]),
        (
            f"{CODE['analyse']}\nPath('artifacts/analyse/results.json').write_text('[]')",
            ["results.json is not"],
        ),
    ],
    ids=["error", "death", "nothing written", "no results"],
)
def test_failing_chapter_leaves_the_last_good_run(
    toy: ToyRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str, words: list[str]
) -> None:
    monkeypatch.chdir(toy.root)
    monkeypatch.setattr(inputs, "Study", lambda _: toy.study)
    notebook = toy.root / "notebooks" / "analyse.ipynb"
    good, before = notebook.read_text(), toy.hashes()
    write_notebook(notebook, ANALYSE, code)
    with pytest.raises(SystemExit) as stop:
        main(["run", "--json"])
    printed = capsys.readouterr()
    assert stop.value.code == 1
    assert printed.out == ""
    last = printed.err.strip().splitlines()[-1]
    assert last.startswith("wirebound: failed: chapter analyse")
    assert all(word in last for word in words)
    assert toy.hashes() == before
    states = {state.chapter: state.state for state in chapter_states(toy.study, make_request(toy.study))}
    assert states["analyse"] == "failed"
    assert states["measure"] == "fresh"
    notebook.write_text(good)
    assert toy.run().executed[0] == "analyse"
    assert toy.hashes(manifest=False) == {name: before[name] for name in before if name != "manifest.json"}


def test_failing_probe_names_the_remedy(toy: ToyRun) -> None:
    good = (toy.root / "toy" / "probe.py").read_text()
    (toy.root / "toy" / "probe.py").write_text("raise SystemExit('no network')\n")
    before = toy.hashes()
    with pytest.raises(WireboundError, match="the live probe failed: no network"):
        toy.run()
    assert toy.hashes() == before
    (toy.root / "toy" / "probe.py").write_text(good)
    toy.run()


def test_wrong_input_stops_before_anything_runs(toy: ToyRun) -> None:
    before = toy.hashes()
    notebook = toy.root / "notebooks" / "analyse.ipynb"
    good = notebook.read_text()
    notebook.write_text(good.replace("workers = 4", "workers = 5"))
    with pytest.raises(InputError, match=r"analyse.ipynb: its parameters cell differs .*--fix"):
        toy.run()
    notebook.write_text("{}")
    with pytest.raises(InputError, match=r"analyse.ipynb is not a notebook"):
        toy.run()
    notebook.unlink()
    with pytest.raises(InputError, match=r"notebook analyse.ipynb is missing"):
        toy.run()
    notebook.write_text(good)
    numbers = toy.root / "data" / "numbers.csv"
    text = numbers.read_text()
    numbers.unlink()
    with pytest.raises(InputError, match=r"data/numbers.csv is declared"):
        toy.run()
    numbers.write_text(text)
    assert toy.hashes() == before
    assert toy.run().executed == ()


def test_two_runs_of_one_name_exclude_each_other(toy: ToyRun) -> None:
    with (
        RunLock(toy.study.project, "quick"),
        pytest.raises(WireboundError, match="run 'quick' is being executed by another process"),
    ):
        toy.run()
    assert toy.run().executed == ()


def test_deleted_or_altered_run_is_published_again_without_executing(toy: ToyRun) -> None:
    before = toy.hashes()
    (toy.published / "results.json").write_text("{}")
    outcome = toy.run()
    assert (outcome.executed, outcome.published) == ((), True)
    assert toy.hashes(manifest=False) == {name: before[name] for name in before if name != "manifest.json"}


def write_run(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "manifest.json", {"text": text})


def read_run(folder: Path) -> str:
    return str(json.loads((folder / "manifest.json").read_text())["text"])


@pytest.mark.parametrize("can_exchange", [True, False])
def test_swap_replaces_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool) -> None:
    if not can_exchange:
        monkeypatch.setattr(run_folder, "exchange", lambda *_: False)
    project = inputs.Project(tmp_path)
    prepared = swap_folder(project, "mine") / "new"
    for text in ("first", "second"):
        write_run(prepared, text)
        publish(project, "mine", prepared)
        assert read_run(published_run(project, "mine")) == text
        assert not prepared.exists()
        assert not (swap_folder(project, "mine") / "old").exists()


def test_reader_puts_the_last_run_back_after_a_kill_between_the_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = inputs.Project(tmp_path)
    prepared = swap_folder(project, "mine") / "new"
    write_run(prepared, "first")
    publish(project, "mine", prepared)
    write_run(prepared, "second")
    rename = os.rename

    def killed(source: Path, target: Path) -> None:
        if source == prepared:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(run_folder, "exchange", lambda *_: False)
    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        publish(project, "mine", prepared)
    monkeypatch.undo()
    assert not (project.runs / "mine").exists()
    assert read_run(published_run(project, "mine")) == "first"
    recover(project, "mine")
    assert not swap_folder(project, "mine").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
def test_exchange_is_one_step_on_linux(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert exchange(tmp_path / "a", tmp_path / "b")
    assert [(tmp_path / name / "file").read_text() for name in ("a", "b")] == ["b", "a"]


def is_whole(folder: Path) -> bool:
    """Whether a published folder holds just the files of its manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    del files["manifest.json"]
    return {name: digest_file(path) for name, path in files.items()} == manifest["files"]


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are killed as on Unix")
def test_killed_at_any_moment_the_last_good_run_stays(tmp_path: Path) -> None:
    """Twenty kills, half while a chapter executes, half around publication, which a lost manifest asks for."""
    study = write_toy_project(tmp_path / "killed")
    toy = ToyRun(study, live=False)
    script = [sys.executable, str(Path(__file__).with_name("toy_study.py")), str(toy.root), "--no-live", "--only-aside"]

    def start(*settings: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*script, *settings], stderr=subprocess.DEVNULL, start_new_session=True)

    began = time.monotonic()
    assert start().wait() == 0
    whole_s = time.monotonic() - began
    began = time.monotonic()
    assert start().wait() == 0
    short_s = time.monotonic() - began
    chance = random.Random(20)
    for number in range(20):
        executing = number % 2 == 0
        settings = (f"workers={chance.randint(1, 64)}",) if executing else ()
        before = toy.hashes()
        if not executing:
            (toy.published / "manifest.json").write_text("{}")  # the run has to be published again
            before = toy.hashes()
        process = start(*settings)
        time.sleep(chance.uniform(0.1, 1.0) * (min(whole_s, 3.0) if executing else short_s))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert toy.hashes() == before or is_whole(toy.published)
    assert start("workers=7").wait() == 0
    assert is_whole(toy.published)
    results = json.loads((toy.published / "results.json").read_text())["results"]
    assert results["aside.value"]["value"] == 7
