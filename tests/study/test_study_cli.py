"""The study's commands as a user types them: the real chapters, in an empty checkout; nothing may run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from toy_study import write_toy_project

from wirebound.cli import main
from wirebound.files import write_json
from wirebound.study import doctor, inputs
from wirebound.study.chapter import Chapter
from wirebound.study.doctor import Check
from wirebound.study.project import Project


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "_config.yml").write_text("title: Empty\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    printed = capsys.readouterr()
    return int(str(stop.value.code)), printed.out, printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "sed=3"], ["unknown parameter 'sed'", "did you mean 'seed'?"]),
        (["--set", "profile_compute.sed=3"], ["'profile_compute' has no parameter 'sed'"]),
        (["--set", "profile_computer.seed=3"], ["unknown chapter", "did you mean 'profile_compute'?"]),
        (["--set", "seed=three"], ["parameter 'seed'", "'three' is not a whole number", "from 0 to"]),
        (["--set", "seed=-1"], ["parameter 'seed'", "-1 is out of range"]),
        (["--set", "bandwidth=10"], ["parameter 'bandwidth'", "has no unit", "such as '10 Gbps'"]),
        (["--set", "bandwidth=10 GiB"], ["parameter 'bandwidth'", "unknown unit 'GiB'"]),
        (["--set", "seed"], ["write NAME=VALUE"]),
        (["--params", "missing.yaml"], ["missing.yaml: No such file"]),
        (["--only", "fit_modle"], ["unknown chapter 'fit_modle'", "did you mean 'fit_model'?"]),
        (["--name", "../up"], ["run name '../up'"]),
        (["--no-live", "--refresh-live"], ["exclude each other"]),
        (["--colour"], ["--colour"]),
        ([], ["notebook profile_compute.ipynb is missing"]),
    ],
)
def test_mistakes_are_one_line_and_run_nothing(
    checkout: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    code, out, err = call(capsys, "run", "--json", *arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert all(word in err for word in words), err
    assert not (checkout / "runs").exists()


def test_file_is_beaten_by_the_command_line(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "p.yaml").write_text("seed: three\n")
    assert "'three' is not a whole number" in call(capsys, "run", "--params", "p.yaml")[2]
    assert (
        "notebook profile_compute.ipynb is missing" in call(capsys, "run", "--params", "p.yaml", "--set", "seed=3")[2]
    )


def test_real_process_exits_with_2_and_one_line(checkout: Path) -> None:
    command = [sys.executable, "-m", "wirebound", "run", "--set", "seed=2.5"]
    source = str(Path(inputs.__file__).parents[2])
    answer = subprocess.run(
        command, cwd=checkout, env={"PYTHONPATH": source}, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("wirebound: error: parameter 'seed': '2.5' is not a whole number; allowed: ")
    assert answer.stderr.count("\n") == 1


def test_outside_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("run", "status", "compare"):
        code, _, err = call(capsys, command)
        assert code == 2
        assert "is not inside a Wirebound checkout" in err


@pytest.mark.parametrize("command", ["run", "status", "compare", "doctor"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, command, "--help")
    assert code == 0
    assert f"Example: wirebound {command}" in out


def test_status_and_a_run_of_the_toy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_toy_project(tmp_path / "toy")
    monkeypatch.chdir(study.project.notebooks)
    monkeypatch.setattr(inputs, "Study", lambda _: study)
    monkeypatch.setenv("PYTHONPATH", str(study.project.root))
    code, out, _ = call(capsys, "status", "--json")
    assert code == 0
    assert {row["state"] for row in json.loads(out)["chapters"]} == {"never run"}
    code, out, err = call(
        capsys, "run", "--json", "--name", "mine", "--only", "measure", "--no-live", "--set", "digits=1"
    )
    assert code == 0
    document = json.loads(out)
    assert (document["folder"], document["executed"]) == ("runs/mine", ["measure"])
    assert document["parameters"]["measure"] == {"rate": "10 Gbps", "digits": 1, "label": "plain"}
    assert err.splitlines()[0] == "measure: running"
    code, out, _ = call(capsys, "status", "--name", "mine")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["measure", "fresh"],
        ["analyse", "never"],
        ["report", "never"],
        ["aside", "never"],
    ]
    code, out, _ = call(capsys, "run", "--name", "mine", "--only", "measure", "--no-live", "--set", "digits=1")
    assert out == "run mine: nothing to execute; 1 fresh; runs/mine unchanged\n"
    code, _, err = call(capsys, "compare", "--accept", "mine")
    assert code == 2
    assert "lacks analyse, report, aside" in err


def write_results(folder: Path, values: dict[str, Any], tolerance: float = 0.01, **parameters: Any) -> None:
    rows = {
        name: {"value": value, "unit": "s", "tolerance": tolerance, "label": name} for name, value in values.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "results.json", {"results": rows})
    manifest = {"set": "quick", "live": False, "parameters": {"one": parameters}, "stale": []}
    write_json(folder / "manifest.json", manifest)


def test_compare_says_what_moved(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = Project(checkout)
    first = {"one.same": 1.0, "one.edge": 0.97, "one.moved": 2.0, "one.verdict": "holds", "one.gone": 4}
    second = {"one.same": 1.0, "one.edge": 0.98, "one.moved": 2.5, "one.verdict": "fails", "one.new": True}
    write_results(project.recorded / "reference_run", first, workers=4)
    write_results(project.runs / "quick", second, tolerance=9, workers=8)
    code, out, _ = call(capsys, "compare")
    assert code == 0
    assert out.splitlines() == [
        "parameter one.workers: 4 → 8",
        "one.edge: within tolerance by +0.01 (tolerance 0.01): 0.97 → 0.98 s",
        "one.moved: moved by +0.5 (tolerance 0.01): 2 → 2.5 s",
        "one.verdict: moved: holds → fails s",
        "one.gone: vanished: 4 s",
        "one.new: appeared: True s",
        "published → quick: 1 same, 1 within tolerance, 2 moved, 1 appeared, 1 vanished",
    ]
    code, out, _ = call(capsys, "compare", "published", "quick", "--strict", "--json")
    document = json.loads(out)
    assert (code, document["agrees"]) == (1, False)
    assert document["parameters"] == {"one.workers": [4, 8]}
    changes = {row["name"]: row["change"] for row in document["results"]}
    assert changes == {
        "one.same": "same",
        "one.edge": "within",
        "one.moved": "moved",
        "one.verdict": "moved",
        "one.gone": "vanished",
        "one.new": "appeared",
    }
    write_results(project.runs / "mine", first | {"one.edge": 0.965})
    assert call(capsys, "compare", "mine", "--strict")[0] == 0
    assert call(capsys, "compare", "quick", "mine", "--strict")[0] == 1


def test_compare_mistakes(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "compare")
    assert code == 2
    assert "no published run yet" in err
    write_results(Project(checkout).runs / "mine", {"one.a": 1})
    code, _, err = call(capsys, "compare", "other", "mine")
    assert code == 2
    assert "no run 'other' (there are mine)" in err
    (Project(checkout).runs / "mine" / "results.json").write_text("{")
    code, _, err = call(capsys, "compare", "mine", "mine")
    assert code == 2
    assert "is missing or damaged" in err
    assert call(capsys, "compare", "a", "b", "c")[0] == 2


def test_accepted_run_becomes_the_published_one(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(checkout)
    study = inputs.Study(project, (Chapter(1, "one", "One"),))
    monkeypatch.setattr(inputs, "Study", lambda _: study)
    write_results(project.runs / "quick", {"one.a": 1.5}, workers=4)
    code, out, _ = call(capsys, "compare", "--accept", "quick")
    assert (code, out) == (0, "data/recorded/reference_run is now run quick\n")
    for name in ("results.json", "manifest.json"):
        accepted = project.recorded / "reference_run" / name
        assert accepted.read_text() == (project.runs / "quick" / name).read_text()
    assert call(capsys, "compare", "--strict")[0] == 0


def test_doctor_passes_here_and_fails_with_a_remedy(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "MODULES", {"json": "json"})
    (checkout / "requirements.lock").write_text("pytest==0.0.1\nno-such-package==1.0\n")
    code, out, _ = call(capsys, "doctor", "--json")
    document = json.loads(out)
    checks = {check["name"]: check for check in document["checks"]}
    assert (code, document["ok"]) == (0, True)
    assert checks["kernel"]["state"] == "ok"
    assert checks["requirements.lock"]["state"] == "warn"
    assert "no-such-package missing (lock: 1.0)" in checks["requirements.lock"]["message"]
    monkeypatch.setattr(doctor, "MODULES", {"no_such_module": "no-such-package"})
    code, out, _ = call(capsys, "doctor")
    assert code == 1
    assert "fail  no_such_module     ModuleNotFoundError: No module named 'no_such_module' → pip install no-such" in out


def test_doctor_thresholds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert doctor.check_python((3, 10, 9)).state == "fail"
    assert doctor.check_python((3, 11, 0)).state == "ok"
    assert [doctor.check_disk(int(size)).state for size in (3e9, 1e9, 1e8)] == ["ok", "warn", "fail"]
    assert [doctor.check_memory(size).state for size in (8 * 2**30, 2**30, None)] == ["ok", "warn", "warn"]
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor.Path, "home", lambda: tmp_path)
    assert doctor.check_browser() == Check(
        "browser", "warn", "no Chromium: only the browser tests need it", "playwright install chromium"
    )
    assert doctor.check_lock(Project(tmp_path)).state == "warn"
    monkeypatch.setattr(doctor.sys, "executable", "/bin/false")
    assert doctor.check_kernel().state == "fail"
