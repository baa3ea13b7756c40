"""The real study, run once for all tests that need it: recorded data only, in a folder of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wirebound.study.project import Project

ROOT = Path(__file__).resolve().parents[1]
_LEFT_OUT = shutil.ignore_patterns(".*", "runs", "_build", "__pycache__", "*.egg-info", "dist", "tests")


@pytest.fixture(scope="session")
def study_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of this checkout with the run ``quick``, made without the live probe."""
    root = tmp_path_factory.mktemp("study") / "project"
    shutil.copytree(ROOT, root, ignore=_LEFT_OUT)
    command = [sys.executable, "-m", "wirebound", "run", "--no-live"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, encoding="utf-8", check=False)
    assert run.returncode == 0, run.stderr
    return Project(root)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, keep together what shares a costly fixture, and what measures times."""
    for item in items:
        folder = Path(item.path).relative_to(ROOT / "tests").parts[0]
        if "study_project" in getattr(item, "fixturenames", ()):
            group = "study"
        elif folder in ("profile", "techniques", "testbed"):
            group = "live"
        else:
            group = str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
