"""Sphinx extension of the book: MathJax from this site, edit links to the right folder, short signatures."""

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


#: A default value that is printed longer than this says little and may hold a folder of this machine.
LONGEST_DEFAULT = 32


def shorten_defaults(signature: str, longest: int = LONGEST_DEFAULT) -> str:
    """Return a signature such as ``(a: int, b: str = 'x')`` with every default longer than `longest` as ``...``."""
    shown, depth, quote = [""], 0, ""  # the parts between commas and equal signs of the outermost parentheses
    for before, sign in zip(" " + signature, signature, strict=False):
        if quote:
            quote = "" if sign == quote and before != "\\" else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        if not quote and depth <= 1 and (sign in ",=" or (sign == ")" and depth == 0)):
            shown += [sign, ""]
        else:
            shown[-1] += sign
    for index in range(2, len(shown)):
        if shown[index - 1] == "=" and len(shown[index]) > longest:
            shown[index] = " ..." if shown[index].startswith(" ") else "..."
    return "".join(shown)


def _shorten_signature(
    app: "Sphinx", what: str, name: str, obj: object, options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    return (None if signature is None else shorten_defaults(signature)), returns


def setup(app: "Sphinx") -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("html-page-context", _point_edit_link, priority=400)
    app.connect("autodoc-process-signature", _shorten_signature)
    app.connect("build-finished", _copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
