"""Find quantities typed by hand in prose, where the book takes every number from results."""

import re

_UNITS = (
    # data, rates, time, shares
    r"[kKMGTP]?i?B(?:/s)?|[kKMGT]?(?:bit|b)(?:/s|ps)|bits?|bytes?|[num]s|[µμ]s|s|min|h|hours?|minutes?|days?|"
    r"(?:milli|micro|nano)?seconds?|[kMG]?Hz|%|percent(?:age points?)?|[x×](?![\w(])|-?fold"
)
_NUMBER = r"(?<![\w.,/#-])[~≈<>±]?\d[\d.,_]*(?:[eE][+-]?\d+)?(?:\s?(?:[×x]\s?)?(?:–|-|to|and|or)\s?\d[\d.,]*)?"
_QUANTITY = re.compile(rf"{_NUMBER}[\s\u00a0\u202f~-]?(?:{_UNITS})(?![\w/])")
_YEARS = re.compile(r"\d{4}s")

#: Directives whose body is not prose; the body of any other one, such as ``{note}``, is checked.
_VERBATIM = re.compile(
    r"\{(?:math|code|code-block|code-cell|literalinclude|glue:?\w*|mermaid|raw|bibliography|eval-rst)\}"
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}|:{3,})\s*(.*)$")
_CITATION = r"\{cite(?::\w+)?\}`[^`]*`"

_REMOVED = (
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"\$\$.*?\$\$", re.DOTALL),
    re.compile(r"(?<!\\)\$(?!\s)[^$\n]+?(?<!\s)\$(?!\d)"),
    re.compile(r"\\\(.*?\\\)|\\\[.*?\\\]|\\begin\{(\w+\*?)\}.*?\\end\{\1\}", re.DOTALL),
    re.compile(rf"[“\"][^”\"\n]*(?:\n[^”\"\n]+)*[”\"],?\s*{_CITATION}"),  # words quoted from a source that is cited
    re.compile(r"(?:\{[\w:.-]+\})?(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL),  # code spans and roles, {glue} among them
    re.compile(r"!?\[[^\]]*\]\([^)]*\)|!?\[[^\]]*\]\[[^\]]*\]|<https?://[^>]*>|https?://\S+"),
    re.compile(r"<[^>\n]+>"),
)


def typed_quantities(markdown: str) -> list[str]:
    """Return the numbers with units that stand as such in Markdown text, in their order.

    Not counted are citations (a role, quoted words directly followed by one, a block quote that holds one), links,
    code, math, roles such as ``{glue:text}``, HTML tags and comments.
    """
    text = _without_blocks(markdown)
    for pattern in _REMOVED:
        text = pattern.sub(" · ", text)
    found = (match[0].strip() for match in _QUANTITY.finditer(text))
    return [quantity for quantity in found if not _YEARS.fullmatch(quantity)]


def _without_blocks(markdown: str) -> str:
    """Drop verbatim blocks, fences themselves, and block quotes that hold a citation."""
    kept: list[str] = []
    quote: list[str] = []
    closing: str | None = None  # the fence that ends the verbatim block that we are in

    def end_quote() -> None:
        if not re.search(_CITATION, "\n".join(quote)):
            kept.extend(line.lstrip("> ") for line in quote)
        quote.clear()

    for line in markdown.splitlines():
        fence = _FENCE.match(line)
        if closing is not None:
            if fence and fence[1].startswith(closing) and not fence[2]:
                closing = None
            continue
        if line.lstrip().startswith(">"):
            quote.append(line.strip())
            continue
        end_quote()
        if fence:
            directive = fence[2].startswith("{")
            code = not directive and fence[1][0] != ":" and (fence[2] != "" or not _closes(kept))
            if code or _VERBATIM.match(fence[2]):
                closing = fence[1]
            elif directive:
                kept.append(re.sub(r"^\{[\w:.-]+\}", "", fence[2]))  # an admonition's title is prose
                kept.append(f"\0{fence[1]}")
            continue
        if re.match(r"^:[\w-]+:( |$)", line):
            continue  # an option of a directive
        kept.append(line)
    end_quote()
    return "\n".join(line for line in kept if not line.startswith("\0"))


def _closes(kept: list[str]) -> bool:
    """Whether a bare fence of backticks ends a directive that is still open (it is marked in `kept`)."""
    for index in range(len(kept) - 1, -1, -1):
        if kept[index].startswith("\0`") or kept[index].startswith("\0~"):
            del kept[index]
            return True
    return False
