"""A run's folder belongs to one run, and is as it was when the run does not end well."""

import subprocess
import sys
from pathlib import Path

import pytest

from wirebound.errors import InputError
from wirebound.testbed.out_folder import claimed_folder


def test_a_second_run_is_refused_while_the_first_lasts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with claimed_folder(out):
        with pytest.raises(InputError, match="another run writes there"), claimed_folder(out):
            pass
        out.mkdir()
        (out / "results.json").write_text("{}", encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(InputError, match="is there already"), claimed_folder(out):
        pass
    assert (out / "results.json").exists()


def write_and_stop(out: Path) -> None:
    with claimed_folder(out):
        out.mkdir(exist_ok=True)
        (out / "predictions.json").write_text("{}", encoding="utf-8")
        raise KeyboardInterrupt


@pytest.mark.parametrize("was_there", [False, True])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, was_there: bool) -> None:
    out = tmp_path / "out"
    if was_there:
        out.mkdir()
    with pytest.raises(KeyboardInterrupt):
        write_and_stop(out)
    assert [path.name for path in tmp_path.iterdir()] == (["out"] if was_there else [])
    if was_there:
        assert not any(out.iterdir())


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"), claimed_folder(tmp_path / "missing" / "out"):
        pass


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = (
        "import os, pathlib, sys\n"
        "from wirebound.testbed.out_folder import claimed_folder\n"
        "out = pathlib.Path(sys.argv[1])\n"
        "with claimed_folder(out):\n"
        "    out.mkdir()\n"
        "    (out / 'predictions.json').write_text('{}')\n"
        "    os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(out)], check=False).returncode == 9
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.running", "out"]
    with claimed_folder(out):
        assert not any(out.iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_results_that_a_killed_run_left_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "results.json").write_text("{}", encoding="utf-8")
    (tmp_path / ".out.running").touch()
    with pytest.raises(InputError, match="is there already"), claimed_folder(out):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out / "results.json").exists()


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be made \(File name too long\): name another folder"):
        write_and_stop(tmp_path / ("a" * 300))
