"""Ctrl-C at any moment is one line: while modules are imported, while the command runs, and while the program ends."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAID = b"wirebound: interrupted\n"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="an interrupt cannot be sent to one process on Windows")


@pytest.fixture(params=["module", "script"])
def program(request, tmp_path):
    """How the program is started: as a module, or by the script that an installation makes of the entry point."""
    if request.param == "module":
        return [sys.executable, "-m", "wirebound"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, function = project["scripts"]["wirebound"].split(":")
    script = tmp_path / "wirebound"
    script.write_text(
        f"import sys\nfrom {module} import {function}\nif __name__ == '__main__':\n    sys.exit({function}())\n",
        encoding="utf-8",
    )
    return [sys.executable, str(script)]


@pytest.fixture(autouse=True)
def not_ignored():
    """Let programs receive interrupts also where whoever runs the tests ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_whenever_it_comes(program):
    command = [
        *program,
        "predict",
        "--workload",
        "resnet50",
        "--gpus",
        "8",
        "--bandwidth",
        "10 Gbps",
        "--method",
        "ddp",
    ]
    told = 0
    for after_ms in range(0, 300, 20):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(after_ms / 1000)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        if said == SAID:  # Python itself ends by the signal where it came while code was compiled: 130 to a shell
            assert process.returncode in (130, -signal.SIGINT)
            told += 1
        elif said == b"":  # it had finished, or Python had not begun
            assert process.returncode in (0, -signal.SIGINT)
        else:  # Python was still starting
            assert b"KeyboardInterrupt" in said
            assert b"wirebound/cli" not in said
            assert b"__main__.py" not in said
    assert told > 0


HOSTILE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupts:
    def __set_name__(self, owner, name):  # Python makes a RuntimeError of what is raised here
        signal.raise_signal(signal.SIGINT)
    def __del__(self):  # and prints what is raised here, and goes on
        signal.raise_signal(signal.SIGINT)

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "wirebound.cli":
            {mode}

sys.meta_path.insert(0, Finder())
from wirebound.__main__ import main
sys.argv = ["wirebound", "--version"]
main()
"""


@pytest.mark.parametrize("mode", ["type('Owner', (), {'name': Interrupts()})", "Interrupts()"])
def test_while_modules_are_imported_no_exception_is_swallowed_or_changed(mode):
    done = subprocess.run([sys.executable, "-c", HOSTILE.replace("{mode}", mode)], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", SAID)


ENDING = """
import atexit, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(signal.raise_signal, signal.SIGINT)
from wirebound.__main__ import main
sys.argv = ["wirebound", "--version"]
main()
"""


def test_once_all_is_done_it_changes_nothing():
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout


def test_where_interrupts_are_ignored_they_stay_so():
    code = ENDING.replace("default_int_handler", "SIG_IGN", 1)
    code = code.replace("\nmain()", "\nsignal.raise_signal(signal.SIGINT)\nmain()")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
