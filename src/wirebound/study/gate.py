"""The publish gate: what the finished pages must fulfil before they replace the last book."""

import base64
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, Tag

from wirebound.study.typed_numbers import typed_quantities

#: The hosts that a page may load something from. Links that a reader may follow are not meant.
ALLOWED_HOSTS: frozenset[str] = frozenset()

#: Folders of people's machines. `check_site` is given those of this machine besides.
_PRIVATE_PATH = re.compile(
    r"(?<![\w.:/~-])/(?:home|Users|root|tmp|private/(?:tmp|var)|var/folders|mnt/c/Users)/[\w.~-]*"
    r"|\b[A-Za-z]:\\+(?:Users|Documents and Settings)\\+[\w.~-]*"
    r"|\bfile:/{2,3}[\w.~/-]+"
)
_DATA_URI = re.compile(r"data:([\w.+/-]*)(?:;[\w-]+=[\w-]+)*(;base64)?,([^\"')\s]*)")
_CSS_ADDRESS = re.compile(r"url\(\s*['\"]?([^'\")]+)['\"]?\s*\)|@import\s+['\"]([^'\"]+)['\"]")
_CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SCRIPT_HOST = re.compile(r"(?:https?:)?//((?:[\w-]+\.)+[a-z]{2,}|localhost)\b")
_NAMESPACES = {"www.w3.org"}
_LOADING_LINKS = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "modulepreload",
    "preconnect",
    "dns-prefetch",
    "manifest",
}
_LOADING_TAGS = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "track": ("src",),
    "input": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
_TEXT_FILES = {".html", ".ipynb", ".json", ".csv", ".svg", ".md", ".rst", ".bib", ".txt", ".yml", ".yaml"}
_OWN_FOLDERS = ("artifacts", "downloads", "_sources")


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach of a rule: where (`page`, relative to the site), which `rule`, and what exactly."""

    page: str
    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.page}: {self.rule}: {' '.join(self.detail.split())}"


@dataclass
class Page:
    """One produced page."""

    path: Path
    name: str
    text: str
    soup: BeautifulSoup
    anchors: set[str] = field(default_factory=set)


@dataclass
class Site:
    """All that the rules look at: the produced pages under `folder`, and the executed notebooks by name."""

    folder: Path
    pages: list[Page]
    notebooks: dict[str, tuple[Path, dict[str, Any]]]
    private: Sequence[str]

    def page_at(self, path: Path) -> Page | None:
        """Return the page of a file, None if it is not a page."""
        return next((page for page in self.pages if page.path == path), None)


def check_site(folder: Path, notebooks: Iterable[Path], *, private: Sequence[str] = ()) -> list[Finding]:
    """Return what is not fit to publish in the produced pages under `folder`, made from the executed `notebooks`.

    `private` are texts that must not appear, such as the folders of this machine. An empty list means fit.
    """
    folder = folder.resolve()
    pages = []
    for path in sorted(folder.rglob("*.html")):
        if "_static" in path.relative_to(folder).parts:
            continue
        text = path.read_text(encoding="utf-8")
        page = Page(path, path.relative_to(folder).as_posix(), text, BeautifulSoup(text, "html.parser"))
        page.anchors = {str(tag["id"]) for tag in page.soup.find_all(id=True)}
        page.anchors |= {str(tag["name"]) for tag in page.soup.find_all("a", attrs={"name": True})}
        pages.append(page)
    read = {path.stem: (path, json.loads(path.read_text(encoding="utf-8"))) for path in notebooks}
    site = Site(folder, pages, read, private)
    if not pages:
        return [Finding(".", "no pages", f"{folder.name} holds no HTML page")]
    return [finding for rule in RULES for finding in rule(site)]


def error_outputs(site: Site) -> Iterator[Finding]:
    """No cell shows an error."""
    for name, (_, notebook) in site.notebooks.items():
        for number, cell in enumerate(notebook["cells"], start=1):
            for output in cell.get("outputs", ()):
                if output["output_type"] == "error":
                    yield Finding(f"{name}.ipynb", "error output", f"cell {number}: {output['ename']}")
    for page in site.pages:
        for tag in page.soup.select("div.output.traceback, .cell_output pre"):
            text = tag.get_text()
            if "traceback" in (tag.get("class") or ()) or "Traceback (most recent call last)" in text:
                yield Finding(page.name, "error output", text.strip()[-120:])


def unexecuted_cells(site: Site) -> Iterator[Finding]:
    """Every code cell was executed."""
    for name, (_, notebook) in site.notebooks.items():
        for number, cell in enumerate(notebook["cells"], start=1):
            if cell["cell_type"] == "code" and "".join(cell["source"]).strip() and not cell.get("execution_count"):
                yield Finding(f"{name}.ipynb", "unexecuted cell", f"cell {number} has no execution count")
    for page in site.pages:
        if page.soup.select_one("div.cell div.cell_input") and page.path.stem not in site.notebooks:
            yield Finding(page.name, "unexecuted cell", "a code cell on a page that no executed notebook is behind")


def dead_links(site: Site) -> Iterator[Finding]:
    """Every address inside the site leads to a file, and to an anchor where it names one."""
    for page in site.pages:
        addresses = [str(tag["href"]) for tag in page.soup.find_all(["a", "area"], href=True)]
        addresses += [address for _, address in _requests(page)]
        for address in dict.fromkeys(addresses):
            problem = _problem(site, page.path, address)
            if problem:
                yield Finding(page.name, "dead link", f"{address} ({problem})")
    for path in site.folder.rglob("*.css"):
        for address in _css_addresses(path.read_text(encoding="utf-8")):
            problem = _problem(site, path, address)
            if problem:
                yield Finding(path.relative_to(site.folder).as_posix(), "dead link", f"{address} ({problem})")


def _problem(site: Site, source: Path, address: str) -> str | None:
    parts = urllib.parse.urlsplit(address.strip())
    if parts.scheme or parts.netloc:
        return None
    if parts.path.startswith("/"):
        return "an address from the server's root breaks below another folder"
    target = (source.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else source
    if not target.is_relative_to(site.folder):
        return "outside the book"
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return "no such file"
    page = site.page_at(target)
    fragment = urllib.parse.unquote(parts.fragment)
    if page is not None and fragment and fragment not in page.anchors:
        return "no such anchor"
    return None


def foreign_hosts(site: Site) -> Iterator[Finding]:
    """Nothing is loaded from another host than `ALLOWED_HOSTS`."""
    for page in site.pages:
        for what, address in _requests(page):
            host = urllib.parse.urlsplit(address.strip()).netloc
            if host and host not in ALLOWED_HOSTS:
                yield Finding(page.name, "foreign host", f"{what} from {host}")
        for script in page.soup.find_all("script", src=False):
            for host in _SCRIPT_HOST.findall(script.get_text()):
                if host not in ALLOWED_HOSTS | _NAMESPACES:
                    yield Finding(page.name, "foreign host", f"a script names {host}")
    for path in site.folder.rglob("*.css"):
        for address in _css_addresses(path.read_text(encoding="utf-8")):
            host = urllib.parse.urlsplit(address).netloc
            if host and host not in ALLOWED_HOSTS:
                yield Finding(path.relative_to(site.folder).as_posix(), "foreign host", f"a style loads from {host}")


def _requests(page: Page) -> Iterator[tuple[str, str]]:
    """Yield what a browser loads by itself when it shows the page: the kind of element and the address."""
    for name, attributes in _LOADING_TAGS.items():
        for tag in page.soup.find_all(name):
            for attribute in attributes:
                value = str(tag.get(attribute) or "")
                if value.startswith("data:"):
                    continue
                if attribute == "srcset":
                    yield from ((name, part.split()[0]) for part in value.split(",") if part.strip())
                elif value:
                    yield name, value
    for tag in page.soup.find_all("link", href=True):
        if _LOADING_LINKS.intersection(str(rel).lower() for rel in tag.get("rel") or ()):
            yield "link", str(tag["href"])
    styles = [tag.get_text() for tag in page.soup.find_all("style")]
    styles += [str(tag["style"]) for tag in page.soup.find_all(style=True)]
    for style in styles:
        yield from (("style", address) for address in _css_addresses(style))


def _css_addresses(text: str) -> Iterator[str]:
    for match in _CSS_ADDRESS.finditer(_CSS_COMMENT.sub("", text)):
        address = (match[1] or match[2]).strip()
        if not address.startswith(("data:", "#")):
            yield address


def missing_alt_texts(site: Site) -> Iterator[Finding]:
    """Every image says in words what it shows; a decoration is marked as one."""
    for page in site.pages:
        for image in page.soup.find_all("img"):
            if _is_decoration(image):
                continue
            alt, source = str(image.get("alt") or "").strip(), str(image.get("src") or "")
            if not alt:
                yield Finding(page.name, "missing alt text", f"the image {source[:60]}")
            elif alt == source or re.fullmatch(r"\S+\.(?:png|svg|jpe?g|gif|webp)", alt):
                yield Finding(page.name, "missing alt text", f"the image's text is only its file name, {alt[:60]}")
        for figure in page.soup.find_all("figure"):
            drawings = [svg for svg in figure.find_all("svg") if not svg.get("aria-label") and not svg.find("title")]
            if drawings or not figure.find(["img", "svg", "table", "video", "pre"]):
                yield Finding(page.name, "missing alt text", f"the figure {figure.get('id') or ''}")


def _is_decoration(image: Tag) -> bool:
    hidden = image.get("aria-hidden") == "true" or image.get("role") in ("presentation", "none")
    brand = image.find_parent(class_="navbar-brand")
    return hidden or (image.get("alt") == "" and brand is not None and bool(brand.get_text(strip=True)))


def missing_downloads(site: Site) -> Iterator[Finding]:
    """Behind every figure are its table and its drawing, behind a table its file, behind a chapter its notebook."""
    for page in site.pages:
        for selector, suffixes in (("figure.wb-figure", (".csv", ".svg")), (".wb-table", (".csv",))):
            for block in page.soup.select(selector):
                links = [str(tag["href"]) for tag in block.find_all("a", href=True)]
                for suffix in suffixes:
                    fitting = [link for link in links if urllib.parse.urlsplit(link).path.endswith(suffix)]
                    if not any(_problem(site, page.path, link) is None for link in fitting):
                        yield Finding(
                            page.name, "missing download", f"{block.get('id') or selector} offers no {suffix}"
                        )
        for image in page.soup.select("div.cell_output img"):
            if image.find_parent("figure", class_="wb-figure") is None:
                yield Finding(page.name, "missing download", "an image among the outputs without table and drawing")
        notebook = site.notebooks.get(page.path.stem) if page.name.startswith("notebooks/") else None
        if notebook is not None and not any(
            _same_file(page.path.parent / str(tag["href"]), notebook[0])
            for tag in page.soup.find_all("a", href=re.compile(r"\.ipynb$"))
        ):
            yield Finding(page.name, "missing download", "the page does not offer its executed notebook")


def _same_file(offered: Path, original: Path) -> bool:
    return offered.is_file() and offered.read_bytes() == original.read_bytes()


def private_paths(site: Site) -> Iterator[Finding]:
    """No page and no file for download names a folder or user of the machine that made it."""
    for page in site.pages:
        yield from _private_in(page.name, page.text, site.private)
    for folder in _OWN_FOLDERS:
        for path in sorted((site.folder / folder).rglob("*")):
            if not path.is_file():
                continue
            name = path.relative_to(site.folder).as_posix()
            if path.suffix in _TEXT_FILES:
                yield from _private_in(name, path.read_text(encoding="utf-8"), site.private)
            elif any(text.encode() in path.read_bytes() for text in site.private):
                yield Finding(name, "private path", "names a folder of this machine")
    index = site.folder / "searchindex.js"
    if index.is_file():
        yield from _private_in(index.name, index.read_text(encoding="utf-8"), site.private)


def _private_in(name: str, text: str, private: Sequence[str]) -> Iterator[Finding]:
    visible = _DATA_URI.sub("data:", text)
    texts = [visible] + [_decoded(match) for match in _DATA_URI.finditer(text) if "svg" in match[1]]
    for part in texts:
        match = _PRIVATE_PATH.search(part)
        if match:
            yield Finding(name, "private path", match[0])
        else:
            yield from (Finding(name, "private path", word) for word in private if _names(word, part))


def _names(folder: str, text: str) -> bool:
    """Whether `text` holds the path `folder` itself, not a longer path or address that it is a part of."""
    return re.search(rf"(?<![\w./-]){re.escape(folder)}(?![\w-])", text) is not None


def _decoded(uri: re.Match[str]) -> str:
    if uri[2]:
        return base64.b64decode(uri[3]).decode("utf-8", errors="replace")
    return urllib.parse.unquote(uri[3])


def typed_numbers(site: Site) -> Iterator[Finding]:
    """Numbers with units in a chapter's prose come from its results."""
    for name, (_, notebook) in site.notebooks.items():
        for number, cell in enumerate(notebook["cells"], start=1):
            if cell["cell_type"] == "markdown":
                for quantity in typed_quantities("".join(cell["source"])):
                    yield Finding(f"{name}.ipynb", "typed number", f"cell {number} has {quantity!r}; glue a result")


RULES: tuple[Callable[[Site], Iterator[Finding]], ...] = (
    error_outputs,
    unexecuted_cells,
    dead_links,
    foreign_hosts,
    missing_alt_texts,
    missing_downloads,
    private_paths,
    typed_numbers,
)
