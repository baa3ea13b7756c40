"""One book of a stand-in run, built once for all tests that look at its pages."""

from pathlib import Path

import pytest

from wirebound.study.book import build_book
from wirebound.study.book_sources import chapters_in_toc
from wirebound.study.project import Project

from .standin import make_project, write_run


@pytest.fixture(scope="session")
def standin_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with the whole book's sources and a run of stand-in chapters."""
    project = make_project(tmp_path_factory.mktemp("standin") / "project")
    write_run(project, chapters_in_toc(project.book))
    return project


@pytest.fixture(scope="session")
def standin_book(standin_project: Project) -> Path:
    """The pages of that project's book."""
    return build_book(standin_project, "quick")
