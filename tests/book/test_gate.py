"""Each rule of the publish gate: a good page passes it, a broken one does not."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wirebound.study import gate
from wirebound.study.gate import check_site

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><title>x</title></svg>'
PAGE = """<!DOCTYPE html>
<html lang="en"><head><title>Fit</title>
<link rel="stylesheet" href="../_static/style.css"/>
<link rel="license" href="https://creativecommons.org/licenses/by/4.0/"/>
<script src="../_static/script.js"></script><script>const greeting = "no address here";</script>
</head><body>
<a class="navbar-brand" href="../index.html"><img src="../_static/logo.svg" alt=""/><p>Wirebound</p></a>
<a href="../_sources/notebooks/fit.ipynb">notebook</a>
<h1 id="fit">Fit</h1> <a href="#fit">here</a> <a href="other.html#there">other</a>
<a href="https://example.org/paper">a paper</a>
<div class="cell"><div class="cell_input"><pre>x = 1</pre></div><div class="cell_output">
<figure class="wb-figure" id="figure-x"><img alt="A line that rises" src="data:image/svg+xml;base64,{svg}"/>
<figcaption>A caption <a href="../artifacts/fit/x.csv" download>table</a> <a href="../artifacts/fit/x.svg">SVG</a>
</figcaption></figure>
<div class="wb-table" id="table-x"><table><tr><td>1</td></tr></table><a href="../artifacts/fit/x.csv">table</a></div>
</div></div>
</body></html>
""".replace("{svg}", base64.b64encode(SVG.encode()).decode())


class Site:
    """A small site that is fit to publish, with one executed notebook, for a test to break."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "html"
        self.notebook = root / "run" / "fit.ipynb"
        self.cells: list[dict[str, Any]] = [
            {"cell_type": "markdown", "metadata": {}, "source": "# Fit\n\nThe best is {glue:text}`best`."},
            {"cell_type": "code", "metadata": {}, "source": "x = 1", "execution_count": 1, "outputs": []},
        ]
        self.write(
            "index.html", '<html><body><h1 id="top">Start</h1><a href="notebooks/fit.html">fit</a></body></html>'
        )
        self.write("notebooks/fit.html", PAGE)
        self.write("notebooks/other.html", '<html><body><h1 id="there">Other</h1></body></html>')
        self.write("_static/style.css", "/* url(https://example.org/x.png) */ body { background: url(logo.svg); }")
        self.write("_static/script.js", "// nothing")
        self.write("_static/logo.svg", SVG)
        self.write("artifacts/fit/x.csv", "a,b\n1,2\n")
        self.write("artifacts/fit/x.svg", SVG)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def replace(self, old: str, new: str) -> None:
        path = self.folder / "notebooks" / "fit.html"
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def add(self, html: str) -> None:
        self.replace("</body>", html + "</body>")

    def check(self, *private: str) -> list[tuple[str, str]]:
        document = {"cells": self.cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        self.notebook.parent.mkdir(parents=True, exist_ok=True)
        self.notebook.write_text(json.dumps(document), encoding="utf-8")
        self.write("_sources/notebooks/fit.ipynb", json.dumps(document))
        self.findings = check_site(self.folder, [self.notebook], private=private)
        return sorted({(finding.page, finding.rule) for finding in self.findings})


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_good_site_passes(site: Site) -> None:
    assert site.check("/some/folder/of/mine") == []


FIT = "notebooks/fit.html"


def _markdown(text: str) -> Callable[[Site], None]:
    return lambda site: site.cells.append({"cell_type": "markdown", "metadata": {}, "source": [text]})


def _error(site: Site) -> None:
    output = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}
    site.cells[1]["outputs"].append(output)


def _not_executed(site: Site) -> None:
    site.cells[1]["execution_count"] = None


def _added(html: str) -> Callable[[Site], None]:
    return lambda site: site.add(html)


def _replaced(old: str, new: str) -> Callable[[Site], None]:
    return lambda site: site.replace(old, new)


def _written(name: str, text: str) -> Callable[[Site], None]:
    return lambda site: site.write(name, text)


def _removed(name: str) -> Callable[[Site], None]:
    return lambda site: (site.folder / name).unlink()


BROKEN: list[tuple[Callable[[Site], None], str, str]] = [
    (_error, "fit.ipynb", "error output"),
    (_added('<div class="output traceback">ValueError: no</div>'), FIT, "error output"),
    (
        _added('<div class="cell_output"><pre>Traceback (most recent call last):\n no</pre></div>'),
        FIT,
        "error output",
    ),
    (_not_executed, "fit.ipynb", "unexecuted cell"),
    (
        _written("prose.html", '<div class="cell"><div class="cell_input"><pre>x</pre></div></div>'),
        "prose.html",
        "unexecuted cell",
    ),
    (_added('<a href="nowhere.html">x</a>'), FIT, "dead link"),
    (_added('<a href="other.html#nowhere">x</a>'), FIT, "dead link"),
    (_added('<a href="#nowhere">x</a>'), FIT, "dead link"),
    (_added('<a href="/index.html">x</a>'), FIT, "dead link"),
    (_added('<a href="../../run/fit.ipynb">x</a>'), FIT, "dead link"),
    (_added('<img alt="words" src="nowhere.png"/>'), FIT, "dead link"),
    (_written("_static/style.css", "@import 'nowhere.css';"), "_static/style.css", "dead link"),
    (_added('<script src="https://unpkg.com/thebe"></script>'), FIT, "foreign host"),
    (_added('<script src="//cdn.example.org/x.js"></script>'), FIT, "foreign host"),
    (_added('<script>const URL = "https://unpkg.com/thebe";</script>'), FIT, "foreign host"),
    (_added('<link rel="stylesheet" href="https://fonts.example.org/x.css"/>'), FIT, "foreign host"),
    (_added('<link rel="preconnect" href="https://fonts.example.org"/>'), FIT, "foreign host"),
    (_added('<img alt="words" src="https://example.org/x.png"/>'), FIT, "foreign host"),
    (_added('<img alt="words" srcset="../_static/logo.svg 1x, https://example.org/x.png 2x"/>'), FIT, "foreign host"),
    (_added('<iframe src="https://example.org"></iframe>'), FIT, "foreign host"),
    (_added('<p style="background: url(https://example.org/x.png)">x</p>'), FIT, "foreign host"),
    (_added("<style>@font-face { src: url('https://example.org/x.woff'); }</style>"), FIT, "foreign host"),
    (_written("_static/style.css", "b { background: url(//example.org/x) }"), "_static/style.css", "foreign host"),
    (_added('<img src="../_static/logo.svg"/>'), FIT, "missing alt text"),
    (_added('<img alt=" " src="../_static/logo.svg"/>'), FIT, "missing alt text"),
    (_added('<img alt="../_static/logo.svg" src="../_static/logo.svg"/>'), FIT, "missing alt text"),
    (_replaced('alt="A line that rises"', ""), FIT, "missing alt text"),
    (_added("<figure><svg><path/></svg></figure>"), FIT, "missing alt text"),
    (_replaced('<a href="../artifacts/fit/x.svg">SVG</a>', ""), FIT, "missing download"),
    (_replaced('<a href="../artifacts/fit/x.csv" download>table</a>', ""), FIT, "missing download"),
    (_replaced('<a href="../artifacts/fit/x.csv">table</a>', ""), FIT, "missing download"),
    (_removed("artifacts/fit/x.svg"), FIT, "missing download"),
    (_replaced('<a href="../_sources/notebooks/fit.ipynb">notebook</a>', ""), FIT, "missing download"),
    (
        _added('<div class="cell_output"><img alt="A plot" src="../_static/logo.svg"/></div>'),
        FIT,
        "missing download",
    ),
    (_added("<p>see /home/ada/wirebound/x.csv</p>"), FIT, "private path"),
    (_added("<p>see /Users/ada/x.csv</p>"), FIT, "private path"),
    (_added("<pre>/tmp/ipykernel_7/1.py:3: UserWarning</pre>"), FIT, "private path"),
    (_added("<p>/root/x</p>"), FIT, "private path"),
    (_added(r"<p>C:\Users\ada\x.csv</p>"), FIT, "private path"),
    (_added("<p>file:///srv/x</p>"), FIT, "private path"),
    (_added("<p>/some/folder/of/mine/x</p>"), FIT, "private path"),
    (_written("artifacts/fit/x.csv", "file\n/home/ada/x\n"), "artifacts/fit/x.csv", "private path"),
    (_written("artifacts/fit/x.parquet", "PAR1 /some/folder/of/mine"), "artifacts/fit/x.parquet", "private path"),
    (
        _added(
            '<img alt="words" src="data:image/svg+xml;base64,'
            + base64.b64encode(b"<svg><text>/home/ada/x</text></svg>").decode()
            + '"/>'
        ),
        FIT,
        "private path",
    ),
    (_markdown("It reaches 12 Gbps."), "fit.ipynb", "typed number"),
]


@pytest.mark.parametrize(("break_it", "page", "rule"), BROKEN)
def test_broken_page_is_rejected(site: Site, break_it: Callable[[Site], None], page: str, rule: str) -> None:
    break_it(site)
    assert (page, rule) in site.check("/some/folder/of/mine")


def test_every_rule_has_a_broken_page() -> None:
    assert {rule for _, _, rule in BROKEN} == {
        "error output",
        "unexecuted cell",
        "dead link",
        "foreign host",
        "missing alt text",
        "missing download",
        "private path",
        "typed number",
    }
    assert len(gate.RULES) == 8


@pytest.mark.parametrize(
    "html",
    [
        "<p>https://example.org/home/page, ./tmp/x, and/or, data/home/x</p>",
        '<img alt="words" src="data:image/png;base64,iVBOR/tmp/w0KGgo/home/ada"/>',
        '<a href="mailto:ada@example.org">x</a><a href="https://example.org/#x">x</a><a href="#">top</a>',
        '<img aria-hidden="true" src="../_static/logo.svg"/>',
        "<script>const NS = 'http://www.w3.org/2000/svg'; // a comment</script>",
    ],
)
def test_harmless_pages_pass(site: Site, html: str) -> None:
    site.add(html)
    assert site.check() == []


def test_changed_notebook_is_not_the_executed_one(site: Site) -> None:
    assert site.check() == []
    site.write("_sources/notebooks/fit.ipynb", "{}")
    found = check_site(site.folder, [site.notebook])
    assert [finding.rule for finding in found] == ["missing download"]


def test_private_folder_is_not_found_in_longer_names(site: Site) -> None:
    site.add("<p>https://example.org/srv, data/srv, /srvother, square /srv-like</p>")
    assert site.check("/srv") == []
    site.add("<p>PATH=/srv/bin</p>")
    assert site.check("/srv") == [(FIT, "private path")]


def test_finding_is_one_line(site: Site) -> None:
    site.add('<a href="nowhere.html">x</a>')
    site.check()
    assert [str(finding) for finding in site.findings] == [f"{FIT}: dead link: nowhere.html (no such file)"]


def test_empty_folder_is_not_fit(tmp_path: Path) -> None:
    assert [finding.rule for finding in check_site(tmp_path, [])] == ["no pages"]
