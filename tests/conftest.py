"""The real study, run once for all tests that need it: recorded data only, in a folder of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from wirebound.study.project import Project

ROOT = Path(__file__).resolve().parents[1]
_LEFT_OUT = shutil.ignore_patterns(".*", "runs", "_build", "__pycache__", "*.egg-info", "dist", "tests")


@pytest.fixture(scope="session")
def study_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of this checkout with the run ``quick``, made without the live probe.

    Where tests run in several processes, the first that needs it makes it for all.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    root = shared / "study" / "project"
    with FileLock(shared / "study.lock"):
        if not (root / "runs" / "quick").is_dir():
            shutil.copytree(ROOT, root, ignore=_LEFT_OUT, dirs_exist_ok=True)
            command = [sys.executable, "-m", "wirebound", "run", "--no-live"]
            run = subprocess.run(command, cwd=root, capture_output=True, text=True, encoding="utf-8", check=False)
            assert run.returncode == 0, run.stderr
    return Project(root)
