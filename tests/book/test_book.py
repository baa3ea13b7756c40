"""Building the book: staging, building, holding to the gate, swapping in."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup

from wirebound.errors import InputError, WireboundError
from wirebound.study import book, book_sources
from wirebound.study.book import build_book, ensure_book
from wirebound.study.book_sources import add_repository, chapters_in_toc, citation_bibtex, repository_address
from wirebound.study.project import Project

from .standin import ROOT, make_project, write_run


def _page(folder: Path, name: str) -> BeautifulSoup:
    return BeautifulSoup((folder / name).read_text(encoding="utf-8"), "html.parser")


# The whole book.


def test_every_listed_page_is_there(standin_project: Project, standin_book: Path) -> None:
    for chapter in chapters_in_toc(standin_project.book):
        assert (standin_book / "notebooks" / f"{chapter}.html").is_file()
    for page in ("index", "intro", "glossary", "notation", "reexecute", "api", "api/model", "cite", "search"):
        assert (standin_book / f"{page}.html").is_file()


def test_chapter_offers_its_executed_notebook(standin_project: Project, standin_book: Path) -> None:
    links = _page(standin_book, "notebooks/fit_model.html").select("a.btn-download-source-button")
    assert [link["href"] for link in links] == ["../_sources/notebooks/fit_model.ipynb"]
    offered = standin_book / "_sources" / "notebooks" / "fit_model.ipynb"
    executed = standin_project.runs / "quick" / "notebooks" / "fit_model.ipynb"
    assert offered.read_bytes() == executed.read_bytes()
    cells = nbformat.read(offered, as_version=4).cells
    assert [cell.execution_count for cell in cells if cell.cell_type == "code"] == [1, 2, 3, 4, 5, 6]


def test_prose_shows_results_math_and_citations(standin_book: Path) -> None:
    page = _page(standin_book, "notebooks/fit_model.html")
    text = page.get_text()
    assert "The best is 12.3 Gbps" in text
    assert page.select_one("div.math") is not None
    assert page.select_one("a[href*='cite.html#']") is not None
    assert page.select_one("div.cell_output .math") is not None, "math in a computed sentence"
    assert page.select_one("a[href*='glossary.html#term-WFBP']") is not None


def test_run_documents_and_artifacts_are_served(standin_project: Project, standin_book: Path) -> None:
    run = standin_project.runs / "quick"
    for name in ("results.json", "live.json", "manifest.json"):
        assert (standin_book / "downloads" / name).read_bytes() == (run / name).read_bytes()
    served = standin_book / "artifacts" / "fit_model" / "curve.csv"
    assert served.read_bytes() == (run / "artifacts" / "fit_model" / "curve.csv").read_bytes()


def test_no_page_has_what_comes_from_elsewhere(standin_book: Path) -> None:
    for path in standin_book.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for name in ("thebe", "require.js", "jsdelivr", "unpkg", "cdnjs", "googleapis", "mybinder", "edit/main"):
            assert name not in text, f"{path.name} names {name}"
        assert len(BeautifulSoup(text, "html.parser").select("form.bd-search")) <= 2, path.name


def test_mathjax_is_whole_enough_and_small(standin_book: Path) -> None:
    folder = standin_book / "_static" / "mathjax"
    assert (folder / "tex-chtml.js").is_file()
    assert len(list((folder / "output/chtml/fonts/woff-v2").glob("*.woff"))) > 20
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 5e6


def test_api_pages_document_the_public_names(standin_book: Path) -> None:
    text = _page(standin_book, "api/model.html").get_text()
    for name in ("Workload", "Link", "Cluster", "Method", "Step", "with_batch"):
        assert name in text
    assert _page(standin_book, "api/units.html").find(id="wirebound.units.parse_bandwidth") is not None
    assert not _page(standin_book, "api/model.html").select("a[href*='_sources']")


def test_nothing_to_do_when_nothing_changed(standin_project: Project, standin_book: Path) -> None:
    before = (standin_book / "intro.html").stat()
    again = ensure_book(standin_project, "quick")
    assert (again.folder, again.rebuilt) == (standin_book, False)
    assert (standin_book / "intro.html").stat() == before


# A small book, for what goes wrong.


@pytest.fixture
def small(tmp_path: Path) -> Project:
    project = make_project(tmp_path / "project", ["fit_model"])
    write_run(project, ["fit_model"])
    return project


def _last_good_book(project: Project) -> Path:
    folder = project.book / "_build" / "html"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("the last good book", encoding="utf-8")
    return folder / "index.html"


def test_missing_run_is_named(small: Project) -> None:
    with pytest.raises(InputError, match=r"no run 'full' \(there are quick\): execute `wirebound run --full` first"):
        build_book(small, "full")


def test_chapter_missing_from_the_run_is_named(small: Project) -> None:
    toc = yaml.safe_load((small.book / "_toc.yml").read_text(encoding="utf-8"))
    toc["chapters"].append({"file": "notebooks/validation"})
    (small.book / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf-8")
    with pytest.raises(WireboundError, match="the run 'quick' has no executed chapter 'validation'"):
        build_book(small, "quick")


def test_chapter_missing_from_the_book_is_named(small: Project) -> None:
    source = small.runs / "quick" / "notebooks" / "fit_model.ipynb"
    source.with_name("extra.ipynb").write_bytes(source.read_bytes())
    with pytest.raises(WireboundError, match=r"the chapter 'extra' of the run 'quick' is not listed in book/_toc.yml"):
        build_book(small, "quick")


def test_warning_fails_the_build_and_names_the_page(small: Project) -> None:
    good = _last_good_book(small)
    page = small.book / "intro.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n{term}`no such term`\n", encoding="utf-8")
    with pytest.raises(WireboundError, match=r"^the book was not built: intro.md:8: WARNING: .*no such term") as caught:
        build_book(small, "quick")
    assert "\n" not in str(caught.value)
    assert "no such term" in (small.runs / ".work" / "book" / "build.log").read_text(encoding="utf-8")
    assert good.read_text(encoding="utf-8") == "the last good book"


def test_gate_stops_the_book_and_the_last_one_stays(small: Project) -> None:
    good = _last_good_book(small)
    (small.runs / "quick" / "artifacts" / "fit_model" / "curve.svg").unlink()
    with pytest.raises(
        WireboundError,
        match=r"^the book is not fit to publish: notebooks/fit_model.html: dead link: ../artifacts/fit_model/curve.svg",
    ):
        build_book(small, "quick")
    assert good.read_text(encoding="utf-8") == "the last good book"


def _fake_pages(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Let a page of one line stand for what Jupyter Book makes."""
    built: list[Path] = []

    def build(work: Path) -> Path:
        pages = work / "_build" / "html"
        pages.mkdir(parents=True)
        (pages / "index.html").write_text("<p>new</p>", encoding="utf-8")
        built.append(pages)
        return pages

    monkeypatch.setattr(book, "_run_jupyter_book", build)
    monkeypatch.setattr(book, "check_site", lambda folder, notebooks, private: [])
    return built


def test_new_book_replaces_the_last_and_leaves_nothing_behind(small: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_pages(monkeypatch)
    index = _last_good_book(small)
    assert build_book(small, "quick") == index.parent
    assert index.read_text(encoding="utf-8") == "<p>new</p>"
    assert [path.name for path in index.parent.parent.iterdir()] == ["html"]
    assert not (small.runs / ".work" / "book").exists()


def test_interrupted_swap_is_repaired(small: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_pages(monkeypatch)
    output = build_book(small, "quick")
    output.rename(output.with_name(".html.old"))
    again = ensure_book(small, "quick")
    assert not again.rebuilt
    assert (output / "index.html").is_file()


def test_output_elsewhere(small: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_pages(monkeypatch)
    assert build_book(small, "quick", output=tmp_path / "site") == tmp_path / "site"
    assert (tmp_path / "site" / "index.html").is_file()
    assert not (small.book / "_build").exists()


@pytest.mark.parametrize(
    "name",
    ["book/intro.md", "book/references.bib", "runs/quick/results.json", "runs/quick/artifacts/fit_model/curve.csv"],
)
def test_a_changed_source_is_built_again(small: Project, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = _fake_pages(monkeypatch)
    build_book(small, "quick")
    build_book(small, "quick")
    assert len(built) == 1
    path = small.root / name
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    build_book(small, "quick")
    assert len(built) == 2


def test_force_builds_again(small: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    built = _fake_pages(monkeypatch)
    build_book(small, "quick")
    build_book(small, "quick", force=True)
    assert len(built) == 2


def test_comments_in_code_do_not_change_the_digest(
    small: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(book.wirebound, "__file__", str(package / "__init__.py"))
    module = package / "module.py"
    module.write_text('"""Docstring."""\nx = 1\n', encoding="utf-8")
    first = book._digest(small, small.runs / "quick")
    module.write_text('"""Docstring."""\n\n# a comment\nx = 1  # another\n', encoding="utf-8")
    assert book._digest(small, small.runs / "quick") == first
    module.write_text('"""Another docstring."""\nx = 1\n', encoding="utf-8")
    assert book._digest(small, small.runs / "quick") != first


# The configuration.


def _config() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / "book" / "_config.yml").read_text(encoding="utf-8"))
    return config


def _with_repository(project: Project, address: str) -> str | None:
    text = (project.root / "pyproject.toml").read_text(encoding="utf-8")
    urls = f'\n[project.urls]\nRepository = "{address}"\n'
    (project.root / "pyproject.toml").write_text(text.replace("[project.scripts]", f"{urls}\n[project.scripts]"))
    return repository_address(project)


def test_without_a_repository_there_are_no_buttons(small: Project) -> None:
    assert repository_address(small) is None
    config = _config()
    add_repository(config, None)
    assert config == _config()
    assert "launch_buttons" not in config
    assert config["repository"]["url"] == ""


def test_repository_brings_its_buttons(small: Project) -> None:
    address = _with_repository(small, "https://github.com/ada/wirebound.git")
    assert address == "https://github.com/ada/wirebound"
    config = _config()
    add_repository(config, address)
    assert config["repository"]["url"] == address
    assert config["launch_buttons"] == {
        "notebook_interface": "jupyterlab",
        "binderhub_url": "https://mybinder.org",
    }
    assert config["html"]["use_edit_page_button"] is True


def test_other_hosts_get_a_plain_link() -> None:
    config = _config()
    add_repository(config, "https://codeberg.org/ada/wirebound")
    assert "launch_buttons" not in config
    links = config["sphinx"]["config"]["html_theme_options"]["icon_links"]
    assert [link["url"] for link in links] == ["https://codeberg.org/ada/wirebound"]


def test_buttons_on_the_pages_lead_to_the_right_files(small: Project) -> None:
    _with_repository(small, "https://github.com/ada/wirebound")
    folder = build_book(small, "quick")
    repository = "https://github.com/ada/wirebound"

    def links(page: str) -> set[str]:
        return {str(tag["href"]) for tag in _page(folder, page).find_all("a", href=True)}

    chapter = links("notebooks/fit_model.html")
    assert f"{repository}/edit/main/notebooks/fit_model.ipynb" in chapter
    assert "https://mybinder.org/v2/gh/ada/wirebound/main?urlpath=lab/tree/notebooks/fit_model.ipynb" in chapter
    prose = links("intro.html")
    assert f"{repository}/edit/main/book/intro.md" in prose
    assert not any(link.startswith("https://mybinder.org") for link in prose)


# Generated pages.


def test_citation_from_the_citation_file(small: Project) -> None:
    (small.root / "CITATION.cff").write_text(
        "title: A Study\nversion: 2.1.0\ndate-released: 2027-03-01\ndoi: 10.5281/zenodo.1\n"
        "authors:\n  - {family-names: Lovelace, given-names: Ada}\n  - {name: The others}\n",
        encoding="utf-8",
    )
    assert citation_bibtex(small) == (
        "@software{wirebound,\n  title = {{A Study}},\n  author = {Lovelace, Ada and {The others}},\n"
        "  year = {2027},\n  version = {2.1.0},\n  doi = {10.5281/zenodo.1}\n}\n"
    )


def test_citation_without_a_citation_file(small: Project) -> None:
    (small.root / "CITATION.cff").unlink()
    entry = citation_bibtex(small)
    assert "author = {{The Wirebound authors}}" in entry
    assert "version = {0.1.0}" in entry


def test_unknown_source_is_named() -> None:
    with pytest.raises(WireboundError, match=r"book/references.bib has no entry 'nobody1999'"):
        book_sources.bibtex_entry("@misc{a,\n}\n", "nobody1999")


def test_api_pages_list_public_modules_only(tmp_path: Path) -> None:
    package = tmp_path / "package"
    for name in ("model/__init__.py", "model/step.py", "model/_private.py", "units.py", "fit/deep/x.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    book_sources.write_api_pages(tmp_path / "api", package)
    text = (tmp_path / "api" / "model.rst").read_text(encoding="utf-8")
    assert ".. automodule:: wirebound.model.step" in text
    assert "private" not in text
    assert "__init__" not in text
    assert ".. automodule:: wirebound.fit.deep.x" in (tmp_path / "api" / "fit.rst").read_text(encoding="utf-8")


def test_run_documents_that_are_missing_are_empty(small: Project, tmp_path: Path) -> None:
    (small.runs / "quick" / "live.json").unlink()
    book_sources.stage_sources(small, small.runs / "quick", tmp_path / "source")
    served = tmp_path / "source" / "_served" / "downloads" / "live.json"
    assert json.loads(served.read_text(encoding="utf-8")) == {}


@pytest.mark.parametrize("name", ["..", "../quick", "quick/../quick", "", ".work"])
def test_a_run_is_named_not_addressed(small: Project, name: str):
    with pytest.raises(InputError, match="run name"):
        build_book(small, name)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("{", "manifest.json is damaged"),
        ("[]", "manifest.json is damaged"),
        ('{"files": {"results.json": "0"}}', "results.json is missing or was changed"),
        ('{"files": {"notebooks/none.ipynb": "0"}}', "none.ipynb is missing or was changed"),
    ],
)
def test_a_damaged_run_is_not_published(small: Project, manifest: str, message: str):
    path = small.runs / "quick" / "manifest.json"
    before = path.read_text(encoding="utf-8")
    path.write_text(manifest, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        build_book(small, "quick")
    path.write_text(before, encoding="utf-8")
