"""Gather what the book is made of into one folder: prose, executed chapters, downloads and generated pages."""

import shutil
import tomllib
from pathlib import Path
from typing import Any

import yaml

import wirebound
from wirebound.errors import WireboundError
from wirebound.files import write_text
from wirebound.study.project import Project

#: The packages of the API pages, each with the title of its page.
API_PACKAGES = {
    "units": "Units",
    "model": "Model",
    "simulate": "Simulate",
    "fit": "Fit",
    "profile": "Profile",
    "techniques": "Techniques",
    "testbed": "Testbed",
    "study": "Study",
    "figures": "Figures",
}

#: The studies that the book looks at again, by their keys in ``references.bib``.
SOURCE_KEYS = ("zhang2020", "shi2020", "survey2022")

RUN_DOCUMENTS = ("results.json", "live.json", "manifest.json")
KNOWN_HOSTS = ("github.com", "gitlab.com", "bitbucket.org")


def stage_sources(project: Project, run: Path, folder: Path) -> None:
    """Fill the new folder `folder` with the sources of the book of `run`, a folder ``runs/NAME``.

    Raises `WireboundError` when the table of contents and the chapters of the run disagree.
    """
    shutil.copytree(project.book, folder, ignore=shutil.ignore_patterns("_build", ".*", "__pycache__"))
    _check_chapters(folder, run)
    shutil.copytree(run / "notebooks", folder / "notebooks")
    served = folder / "_served"
    downloads = served / "downloads"
    downloads.mkdir(parents=True)
    if (run / "artifacts").is_dir():
        shutil.copytree(run / "artifacts", served / "artifacts")
    for name in RUN_DOCUMENTS:
        source = run / name
        text = source.read_text(encoding="utf-8") if source.is_file() else "{}\n"
        write_text(downloads / name, text)

    write_api_pages(folder / "api", Path(wirebound.__file__).parent)
    generated = folder / "_generated"
    generated.mkdir()
    entries = {
        "wirebound.bib": citation_bibtex(project),
        "sources.bib": "\n\n".join(
            bibtex_entry((folder / "references.bib").read_text(encoding="utf-8"), key) for key in SOURCE_KEYS
        )
        + "\n",
    }
    for name, text in entries.items():
        write_text(generated / name, text)
        write_text(downloads / name, text)

    config = yaml.safe_load((folder / "_config.yml").read_text(encoding="utf-8"))
    add_repository(config, repository_address(project))
    write_text(folder / "_config.yml", yaml.safe_dump(config, allow_unicode=True))


def chapters_in_toc(book: Path) -> list[str]:
    """Return the chapters that ``_toc.yml`` in the folder `book` lists, in reading order."""
    toc = yaml.safe_load((book / "_toc.yml").read_text(encoding="utf-8"))
    names: list[str] = []

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            file = node.get("file")
            if isinstance(file, str) and file.startswith("notebooks/"):
                names.append(file.removeprefix("notebooks/").removesuffix(".ipynb"))
            for value in node.values():
                collect(value)
        elif isinstance(node, list):
            for value in node:
                collect(value)

    collect(toc)
    return names


def _check_chapters(book: Path, run: Path) -> None:
    listed = chapters_in_toc(book)
    executed = {path.stem for path in (run / "notebooks").glob("*.ipynb")}
    missing = [name for name in listed if name not in executed]
    if missing:
        raise WireboundError(
            f"the run {run.name!r} has no executed chapter {missing[0]!r}: run `wirebound run --name {run.name}` first"
        )
    unlisted = sorted(executed.difference(listed))
    if unlisted:
        raise WireboundError(f"the chapter {unlisted[0]!r} of the run {run.name!r} is not listed in book/_toc.yml")


def write_api_pages(folder: Path, package: Path) -> None:
    """Write one reST page for each package of `API_PACKAGES`, with every public module under the folder `package`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, title in API_PACKAGES.items():
        modules = [f"wirebound.{name}"]
        if (package / name).is_dir():
            modules = [
                ".".join(("wirebound", *path.relative_to(package).with_suffix("").parts))
                for path in sorted((package / name).rglob("*.py"))
                if not path.name.startswith("_")
            ]
        lines = [title, "=" * len(title), ""]
        for module in modules:
            if len(modules) > 1:
                lines += [module, "-" * len(module), ""]
            lines += [f".. automodule:: {module}", ""]
        write_text(folder / f"{name}.rst", "\n".join(lines))


def bibtex_entry(text: str, key: str) -> str:
    """Return the entry `key` of a BibTeX file's text."""
    lines = text.splitlines()
    start = next(
        (i for i, line in enumerate(lines) if line.startswith("@") and line.endswith(f"{{{key},")),
        None,
    )
    if start is None:
        raise WireboundError(f"book/references.bib has no entry {key!r}")
    end = lines.index("}", start)
    return "\n".join(lines[start : end + 1])


def citation_bibtex(project: Project) -> str:
    """Return the book's own BibTeX entry, from ``CITATION.cff`` or else from ``pyproject.toml``."""
    path = project.root / "CITATION.cff"
    if path.is_file():
        cff = yaml.safe_load(path.read_text(encoding="utf-8"))
    else:
        metadata = _project_metadata(project)
        cff = {
            "title": metadata.get("description", "Wirebound"),
            "version": metadata.get("version", wirebound.__version__),
            "authors": metadata.get("authors", [{"name": "The Wirebound authors"}]),
        }
    fields = {
        "title": f"{{{cff['title']}}}",
        "author": " and ".join(_author(author) for author in cff["authors"]),
        "year": str(cff.get("date-released", ""))[:4],
        "version": str(cff.get("version", "")),
        "doi": str(cff.get("doi", "")),
        "url": str(cff.get("url") or cff.get("repository-code") or repository_address(project) or ""),
    }
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    return "@software{wirebound,\n" + ",\n".join(lines) + "\n}\n"


def _author(author: dict[str, str]) -> str:
    if "family-names" in author:
        return ", ".join(part for part in (author["family-names"], author.get("given-names", "")) if part)
    return f"{{{author['name']}}}"


def _project_metadata(project: Project) -> dict[str, Any]:
    path = project.root / "pyproject.toml"
    if not path.is_file():
        return {}
    metadata: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    return metadata


def repository_address(project: Project) -> str | None:
    """Return the repository's address in ``[project.urls]`` of ``pyproject.toml``, None while there is none."""
    urls = _project_metadata(project).get("urls", {})
    address = next((url for name, url in urls.items() if name.lower() == "repository"), None)
    return None if address is None else str(address).rstrip("/").removesuffix(".git")


def add_repository(config: dict[str, Any], address: str | None) -> None:
    """Add launch, repository and edit buttons to the book's configuration; does nothing without an address.

    Launch buttons open a chapter in JupyterLab on Binder. A host that the theme does not know gets a plain link.
    """
    if address is None:
        return
    if not any(address.startswith(f"https://{host}/") for host in KNOWN_HOSTS):
        options = config["sphinx"]["config"]["html_theme_options"]
        options["icon_links"] = [{"name": "Repository", "url": address, "icon": "fa-brands fa-git-alt"}]
        return
    config["repository"] = {"url": address, "branch": "main", "path_to_book": ""}
    config["launch_buttons"] = {"notebook_interface": "jupyterlab", "binderhub_url": "https://mybinder.org"}
    config["html"] |= {"use_repository_button": True, "use_edit_page_button": True, "use_issues_button": True}
