"""Build the book of a run: gather the sources, let Jupyter Book make the pages, hold them to the gate, swap them in."""

import ast
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import wirebound
from wirebound.errors import WireboundError
from wirebound.study.book_sources import stage_sources
from wirebound.study.gate import Finding, check_site
from wirebound.study.project import Project
from wirebound.study.run_folder import check_intact, published_run

#: The digest of what a book was built from lies in its folder, so that both are swapped in by the same rename.
DIGEST_FILE = ".digest"

#: The icon of every page, as in ``html.favicon`` of book/_config.yml.
ICON = "_static/favicon.svg"

#: Packages whose version changes the pages.
BUILDERS = ("jupyter-book", "sphinx", "sphinx-book-theme", "pydata-sphinx-theme", "myst-nb", "sphinx-mathjax-offline")

_BUILD = "from jupyter_book.cli.main import main; main()"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PROBLEM = re.compile(r"\b(?:WARNING|ERROR|CRITICAL|SEVERE): |^(?:\w+\.)*\w*(?:Error|Exception): |^Exception occurred")


@dataclass(frozen=True, slots=True)
class BuiltBook:
    """A finished book: its `folder` of pages, and whether this call built it (`rebuilt`) or found it up to date."""

    folder: Path
    rebuilt: bool


def build_book(project: Project, run_name: str, *, output: Path | None = None, force: bool = False) -> Path:
    """Build the book of the run `run_name` and return its folder, by default ``book/_build/html``.

    Nothing is done when neither the run, the book's sources, the package nor its tools changed, unless `force`. The
    last good book stays where it is when anything fails. Raises `InputError` when the run is missing, and
    `WireboundError` naming the page and the problem when Jupyter Book warns or the publish gate finds something.
    """
    return ensure_book(project, run_name, output=output, force=force).folder


def ensure_book(project: Project, run_name: str, *, output: Path | None = None, force: bool = False) -> BuiltBook:
    """Do what `build_book` does, and say whether the book had to be built."""
    output = output or project.book / "_build" / "html"
    run = published_run(project, run_name)
    check_intact(run)
    _restore(output)
    digest = _digest(project, run)
    if not force and _read_digest(output) == digest:
        return BuiltBook(output, rebuilt=False)

    work = project.runs / ".work" / "book"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    stage_sources(project, run, work / "source")
    pages = _run_jupyter_book(work)
    findings = check_site(pages, sorted((run / "notebooks").glob("*.ipynb")), private=_private_texts(project))
    if findings:
        (work / "gate.log").write_text("".join(f"{finding}\n" for finding in findings), encoding="utf-8")
        raise WireboundError(_and_more(f"the book is not fit to publish: {findings[0]}", findings, work / "gate.log"))
    (pages / DIGEST_FILE).write_text(digest + "\n", encoding="utf-8")
    _swap_in(pages, output)
    shutil.rmtree(work, ignore_errors=True)
    return BuiltBook(output, rebuilt=True)


def _run_jupyter_book(work: Path) -> Path:
    """Build ``work/source`` in a process of its own, warnings being errors, and return the folder of pages."""
    environment = os.environ | {
        # The pages document, and are built by, the package that runs now.
        "PYTHONPATH": os.pathsep.join(
            part for part in (str(Path(wirebound.__file__).parents[1]), os.environ.get("PYTHONPATH", "")) if part
        ),
        "PYTHONUTF8": "1",
        "NO_COLOR": "1",
    }
    command = [sys.executable, "-c", _BUILD, "build", str(work / "source"), "--path-output", str(work)]
    finished = subprocess.run(
        [*command, "-W", "-n", "--keep-going", "--all", "-q"],
        env=environment,
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    log = work / "build.log"
    text = _ANSI.sub("", finished.stdout)
    for folder in (work / "source", Path(wirebound.__file__).parents[1], work):
        text = text.replace(f"{folder}{os.sep}", "")
    log.write_text(text, encoding="utf-8")
    problems = [line.strip() for line in text.splitlines() if _PROBLEM.search(line)]
    if finished.returncode != 0 or problems:
        first = problems[0] if problems else f"Jupyter Book ended with code {finished.returncode}"
        raise WireboundError(_and_more(f"the book was not built: {first}", problems, log))
    pages = work / "_build" / "html"
    _give_first_page_an_icon(pages / "index.html")
    return pages


def _give_first_page_an_icon(first_page: Path) -> None:
    """Jupyter Book's first page is a bare redirect; without an icon of its own a browser asks for /favicon.ico."""
    redirect = first_page.read_text(encoding="utf-8")
    if (first_page.parent / ICON).is_file() and 'rel="icon"' not in redirect:
        first_page.write_text(f'<link rel="icon" href="{ICON}">\n{redirect}', encoding="utf-8")


def _and_more(message: str, problems: Sequence[str | Finding], log: Path) -> str:
    more = f"{len(problems) - 1} more and " if len(problems) > 1 else ""
    return f"{message} ({more}the details are in {log})"


def _private_texts(project: Project) -> list[str]:
    """Return the folders of this machine whose names have no place in a published page."""
    return sorted({str(folder) for folder in (project.root.resolve(), Path.home(), Path(sys.prefix))} - {"/"})


def _restore(output: Path) -> None:
    """Bring the last good book back if a swap was cut off between its two renames."""
    retired = output.with_name(f".{output.name}.old")
    if retired.is_dir() and not output.exists():
        retired.rename(output)


def _swap_in(pages: Path, output: Path) -> None:
    """Put the new pages in place of the old ones, by rename."""
    output.parent.mkdir(parents=True, exist_ok=True)
    incoming, retired = (output.with_name(f".{output.name}.{suffix}") for suffix in ("new", "old"))
    for leftover in (incoming, retired):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.move(pages, incoming)
    if output.exists():
        output.rename(retired)
    incoming.rename(output)
    shutil.rmtree(retired, ignore_errors=True)


def _read_digest(output: Path) -> str:
    path = output / DIGEST_FILE
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _digest(project: Project, run: Path) -> str:
    """Return a hash of all that the pages depend on; comments in the package's code do not count."""
    digest = hashlib.sha256()
    for builder in BUILDERS:
        digest.update(f"{builder} {importlib.metadata.version(builder)}\n".encode())
    roots = [project.root / name for name in ("pyproject.toml", "CITATION.cff", "requirements.lock")]
    for path in [*(root for root in roots if root.is_file()), *_files(project.book), *_files(run)]:
        digest.update(f"{path.relative_to(project.root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    package = Path(wirebound.__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode())
        digest.update(ast.dump(ast.parse(path.read_bytes())).encode())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and "_build" not in path.relative_to(folder).parts:
            yield path
