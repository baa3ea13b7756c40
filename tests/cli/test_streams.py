"""What leaves the program: any character under any locale, a reader that goes away, and failures of the system."""

import errno
import os
import subprocess
import sys

import pytest

from wirebound.cli import main

PROGRAM = [sys.executable, "-m", "wirebound"]
NEED = ["need", "--workload", "vgg16", "--gpus", "16", "--gpus-per-node", "8", "--method", "wfbp-a2a"]
NEED += ["--bandwidth", "10 Gbps", "--target", "0.9", "--solve", "compression"]


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_every_character_can_be_printed_under_any_locale(tmp_path, encoding):
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C", "LANG": "C"}
    times = tmp_path / "times.csv"
    times.write_text("bytes,seconds\n1024,0.001\n1048576,0.002\n4194304,0.005\n", encoding="utf-8")

    def run(*arguments):
        done = subprocess.run([*PROGRAM, *arguments], capture_output=True, env=environment, cwd=tmp_path, check=False)
        return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")

    code, out, err = run("fit", "times.csv")
    assert (code, err) == (0, "")
    assert "T(S) = α + β·S" in out
    code, out, err = run(*NEED)
    assert (code, err) == (0, "")
    assert "×" in out
    assert "2(P−1)/P·S" in out
    times.write_text("bytes,seconds\n1024,0.001\n", encoding="utf-8")
    code, out, err = run("fit", "times.csv")
    assert (code, out) == (2, "")
    assert "do not fix α and β" in err
    # an argument that the locale cannot read is no crash either
    code, out, err = run("predict", *NEED[1:-4], "--latency", "20 µq")
    assert (code, out, len(err.splitlines())) == (2, "", 1)


@pytest.mark.skipif(os.name == "nt", reason="pipes break in another way on Windows")
@pytest.mark.parametrize("arguments", [["messages", "--workload", "resnet50", "--method", "wfbp-a2a"], ["--version"]])
def test_a_reader_that_goes_away_is_no_failure_to_tell(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([*PROGRAM, *arguments], stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_one_line():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*PROGRAM, "workloads"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.decode("utf-8") == "wirebound: failed: standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(errno.ENOSPC, "No space left"), 1, f"failed: [Errno {errno.ENOSPC}] No space left"),
        (OSError(errno.ENOSPC, "No space left", "x.csv"), 1, "failed: x.csv: No space left"),
        (PermissionError(errno.EPERM, "Not permitted"), 1, f"failed: [Errno {errno.EPERM}] Not permitted"),
        (OSError("no shell"), 1, "failed: no shell"),
        (ConnectionResetError(), 1, "failed: ConnectionResetError"),
        (FileNotFoundError(errno.ENOENT, "No such file", "x.csv"), 2, "error: x.csv: No such file"),
        (PermissionError(errno.EACCES, "Not allowed", "x.csv"), 2, "error: x.csv: Not allowed"),
    ],
)
def test_errors_of_the_system(monkeypatch, capsys, error, code, said):
    def failing(**_):
        raise error

    monkeypatch.setattr("wirebound.cli.app", failing)
    with pytest.raises(SystemExit) as end:
        main(["workloads"])
    assert end.value.code == code
    assert capsys.readouterr().err == f"wirebound: {said}\n"


@pytest.mark.parametrize(
    "command",
    [
        "profile --out -",
        "import times.csv --out -",
        "fit times.csv --out -",
        "fit times.csv --json --out=-",
        "fit times.csv --out ./-",
        "predict --workload resnet50 --gpus 4 --bandwidth 10Gbps --method ddp --timeline -",
        "reproduce zhang2020-whatif --out -",
    ],
)
def test_a_dash_is_no_file(command, wirebound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "times.csv").write_text("bytes,seconds\n1024,0.001\n1048576,0.002\n4194304,0.005\n", encoding="utf-8")
    option = "--timeline" if "--timeline" in command else "--out"
    code, out, err = wirebound(*command.split())
    assert (code, out) == (2, "")
    said = f"{option}: '-' does not stand for standard output: give a name; where there is --json, it prints there"
    assert err == f"wirebound: error: {said}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["times.csv"]
