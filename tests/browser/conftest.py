"""The book of this checkout, built into a temporary folder and served, and a browser to read it with."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from wirebound.study.book import build_book
from wirebound.study.project import Project
from wirebound.study.serve import address_of, open_server

from .ensure_browser import REMEDY, find_browser


@pytest.fixture(scope="session")
def book_folder(study_project: Project) -> Path:
    """The book of the real study, of a run without the live probe."""
    return build_book(study_project, "quick")


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
