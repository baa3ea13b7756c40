"""Sphinx extension of the book: MathJax from this site, and edit links that lead to the right folder."""

import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wirebound.errors import WireboundError

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: What a page with formulas can ask for: the loader, its fonts, rarer TeX commands, and speech for screen readers.
MATHJAX_PARTS = (
    "tex-chtml.js",
    "output/chtml/fonts/woff-v2",
    "input/tex/extensions",
    "a11y",
    "sre/mathmaps/base.json",
    "sre/mathmaps/en.json",
    "sre/mathmaps/nemeth.json",
)


def mathjax_folder() -> Path:
    """Return the folder of MathJax's files that the package ``sphinx-mathjax-offline`` installed."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise WireboundError("MathJax is not installed: run `pip install sphinx-mathjax-offline`")
    return Path(spec.origin).parent / "static" / "mathjax"


def _copy_mathjax(app: "Sphinx", error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    source, target = mathjax_folder(), Path(app.outdir) / "_static" / "mathjax"
    for part in MATHJAX_PARTS:
        (target / part).parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, dirs_exist_ok=True)
        else:
            shutil.copyfile(source / part, target / part)


def _point_edit_link(app: "Sphinx", page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Chapters lie in ``notebooks/`` of the repository, prose in ``book/``, and generated pages nowhere."""
    if page.startswith("api/"):
        context["page_source_suffix"] = ""  # without a source the theme offers neither edit nor download
    context["doc_path"] = "" if page.startswith("notebooks/") else "book"


def setup(app: "Sphinx") -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("html-page-context", _point_edit_link, priority=400)
    app.connect("build-finished", _copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
