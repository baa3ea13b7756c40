"""Where the study's files are."""

from dataclasses import dataclass
from pathlib import Path

from wirebound.errors import InputError


@dataclass(frozen=True, slots=True)
class Project:
    """A checkout of the study, by its root folder."""

    root: Path

    @property
    def notebooks(self) -> Path:
        """The chapters, without outputs."""
        return self.root / "notebooks"

    @property
    def data(self) -> Path:
        """Published and recorded tables."""
        return self.root / "data"

    @property
    def published(self) -> Path:
        """Tables typed from papers."""
        return self.data / "published"

    @property
    def recorded(self) -> Path:
        """What this project measured itself."""
        return self.data / "recorded"

    @property
    def book(self) -> Path:
        """The book's prose and configuration."""
        return self.root / "book"

    @property
    def runs(self) -> Path:
        """Executed runs; not under version control."""
        return self.root / "runs"


def find_project(start: Path | None = None) -> Project:
    """Return the checkout that contains `start` (default: the working directory).

    Raises `InputError` when no folder above it holds ``notebooks/`` and ``book/_config.yml``.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "notebooks").is_dir() and (folder / "book" / "_config.yml").is_file():
            return Project(folder)
    raise InputError(f"{start} is not inside a Wirebound checkout: change into the cloned repository first")
