"""Whenever a run is interrupted, nothing of it stays: no process, no namespace, no interface, no folder."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from wirebound.testbed.interruption import Interruptions, Terminated
from wirebound.testbed.leftovers import NAMESPACES, owned_name, remove_leftovers
from wirebound.testbed.tiers import open_network, tier_available

PROGRAM = Path(__file__).with_name("disturbed.py")
MARK = "WIREBOUND_TEST_RUN"
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="signals, /proc and namespaces as on Linux")


def start(tier: str, what: str) -> subprocess.Popen[str]:
    environment = os.environ | {MARK: f"{os.getpid()}-{time.monotonic_ns()}"}
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), tier, what],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    program.mark = environment[MARK]  # type: ignore[attr-defined]
    return program


def marked(mark: str) -> list[psutil.Process]:
    """The processes that inherited the mark; those that have ended do not count."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def left_by(program: subprocess.Popen[str]) -> list[str]:
    """What a program that has ended still has: processes (none has a port without one), namespaces, folders."""
    owner = f"wirebound-{program.pid}-"
    folders = [NAMESPACES, Path(tempfile.gettempdir())]
    names = [path.name for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return [
        *(" ".join(process.cmdline()) for process in marked(program.mark)),  # type: ignore[attr-defined]
        *(name for name in names if name.startswith(owner)),
    ]


def interrupt(program: subprocess.Popen[str], number: int) -> str:
    program.send_signal(number)
    _, errors = program.communicate(timeout=60)
    return errors


@needs_linux
@pytest.mark.parametrize("working_tier", ["user-namespaces", "root-namespaces", "relay"], indirect=True)
def test_setting_up_and_taking_down_may_be_interrupted_at_any_moment(working_tier: str):
    moments = random.Random(11)
    for number in (signal.SIGINT, signal.SIGTERM) * 2:
        program = start(working_tier, "cycle")
        assert program.stdout is not None
        assert program.stdout.readline() == "0\n"  # one is up; the moment is within this one or a later one
        time.sleep(moments.uniform(0, 0.6))
        errors = interrupt(program, number)
        assert program.returncode != 0
        assert not left_by(program), errors


@needs_linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("working_tier", ["pacing", "user-namespaces"], indirect=True)
def test_a_run_may_be_interrupted(working_tier: str, number: int):
    program = start(working_tier, "allreduce")
    assert program.stdout is not None
    program.stdout.readline()
    time.sleep(random.Random(int(number)).uniform(0, 1.0))  # while the processes start
    errors = interrupt(program, number)
    assert program.returncode != 0
    assert not left_by(program), errors


@needs_linux
@pytest.mark.parametrize("working_tier", ["pacing", "user-namespaces", "root-namespaces"], indirect=True)
def test_the_next_start_removes_what_a_killed_run_left(working_tier: str):
    program = start(working_tier, "allreduce")
    assert program.stdout is not None
    program.stdout.readline()
    if working_tier != "root-namespaces":
        program.stdout.readline()  # gloo's processes run; they must end by themselves
    assert left_by(program)
    program.kill()
    program.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while marked(program.mark) and time.monotonic() < deadline:  # type: ignore[attr-defined]
        time.sleep(0.05)
    with open_network(working_tier, 2):
        assert not left_by(program)


@needs_linux
def test_what_a_living_owner_has_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    began = owned_name("").split("-")[2]
    mine, theirs = tmp_path / owned_name("x"), tmp_path / f"wirebound-{dead.pid}-{began}-x"
    reborn, other = tmp_path / f"wirebound-{os.getpid()}-1-x", tmp_path / "wirebound-results"
    for folder in (mine, theirs, reborn, other):
        folder.mkdir()
    assert {theirs.name, reborn.name} <= set(remove_leftovers())
    assert mine.is_dir()
    assert other.is_dir()
    assert not theirs.exists()
    assert not reborn.exists()


@needs_linux
def test_a_signal_waits_for_what_must_not_be_cut_short():
    done = []

    def while_held() -> None:
        with Interruptions() as interruptions, interruptions.held():
            signal.raise_signal(signal.SIGTERM)
            done.append("held")

    def while_closing() -> None:
        with Interruptions() as interruptions:
            interruptions.closing()
            signal.raise_signal(signal.SIGINT)
            done.append("closed")

    def twice() -> None:
        with Interruptions():
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.raise_signal(signal.SIGINT)
                done.append("unwound")

    for program, error in ((while_held, Terminated), (while_closing, KeyboardInterrupt), (twice, KeyboardInterrupt)):
        with pytest.raises(error):
            program()
    assert done == ["held", "closed", "unwound"]


class Interrupting:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@needs_linux
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_fails_after_an_interruption_that_was_lost_in_a_destructor_is_one():
    def program() -> None:
        with Interruptions():
            Interrupting()
            raise ValueError("a process that was ended for the interruption")

    with pytest.raises(KeyboardInterrupt):
        program()


@needs_linux
def test_nothing_of_a_network_shows_on_the_machine_itself():
    if not tier_available("user-namespaces").works:
        pytest.skip(tier_available("user-namespaces").reason)
    before = set(psutil.net_if_addrs())
    with open_network("user-namespaces", 2):
        assert not {name for name in set(psutil.net_if_addrs()) - before if name.startswith(("wire", "port", "bridge"))}
