"""The book of this checkout, built into a temporary folder and served, and a browser to read it with."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from book.standin import ROOT, make_project, write_run
from wirebound.study.book import build_book
from wirebound.study.book_sources import chapters_in_toc
from wirebound.study.project import Project
from wirebound.study.serve import address_of, open_server

from .ensure_browser import REMEDY, find_browser

_LEFT_OUT = shutil.ignore_patterns(".*", "runs", "_build", "__pycache__", "*.egg-info", "dist", "tests")


def _has_all_chapters(project: Project) -> bool:
    return all((project.notebooks / f"{name}.ipynb").is_file() for name in chapters_in_toc(project.book))


@pytest.fixture(scope="session")
def book_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of a run without the live probe; where chapters are missing, those of stand-in chapters."""
    root = tmp_path_factory.mktemp("browser") / "project"
    if not _has_all_chapters(Project(ROOT)):
        project = make_project(root)
        write_run(project, chapters_in_toc(project.book))
        return build_book(project, "quick")
    shutil.copytree(ROOT, root, ignore=_LEFT_OUT)
    project = Project(root)
    command = [sys.executable, "-m", "wirebound", "run", "--no-live"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, encoding="utf-8", check=False)
    assert run.returncode == 0, run.stderr
    return build_book(project, "quick")


@pytest.fixture(scope="session")
def site(book_folder: Path) -> Iterator[str]:
    """The address of the served book."""
    server = open_server(book_folder, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield address_of(server)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def pages(book_folder: Path) -> list[str]:
    """All produced pages, by their addresses in the site."""
    found = (path.relative_to(book_folder) for path in sorted(book_folder.rglob("*.html")))
    return [path.as_posix() for path in found if "_static" not in path.parts]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless browser; without one the tests fail, since nobody would notice that they were skipped."""
    executable = find_browser()
    if executable is None:
        pytest.fail(REMEDY)
    options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=options)
        yield chromium
        chromium.close()
