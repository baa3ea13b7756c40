"""Which numbers in prose count as typed by hand."""

import re

import pytest

from wirebound.study.typed_numbers import typed_quantities

from .standin import ROOT


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It reaches 12 Gbps.", ["12 Gbps"]),
        ("It reaches 12.5Gbit/s and 3 GB/s.", ["12.5Gbit/s", "3 GB/s"]),
        ("About 68 % of 102.2 MB in 5 ms", ["68 %", "102.2 MB", "5 ms"]),
        ("a ratio of 2×–5× is enough", ["2×–5×"]),
        ("a ratio of 2–5x", ["2–5x"]),
        ("waits 20 µs, 3 seconds or 4 minutes", ["20 µs", "3 seconds", "4 minutes"]),
        ("**64 MiB** buckets", ["64 MiB"]),
        (":::{note} After 5 ms\nand 25 MiB\n:::", ["5 ms", "25 MiB"]),
        ("```{warning}\nafter 5 ms\n```\nand 6 ms", ["5 ms", "6 ms"]),
        ("> 10 Gbps is enough, we say", ["10 Gbps"]),
        ("“needs 10 Gbps”, says nobody", ["10 Gbps"]),
        ("| 1 Gbps | 2 |", ["1 Gbps"]),
        ("$5 for 3 GB, $6 for more", ["3 GB"]),
    ],
)
def test_finds_quantities(text: str, found: list[str]) -> None:
    assert typed_quantities(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "The best is {glue:text}`best`.",
        'with `bandwidth="10 Gbps"` in code',
        "``5 ms``",
        "```python\nbandwidth = '10 Gbps'\n```",
        "```\n10 Gbps\n```\nand then",
        "    \n$T = 5\\,\\text{ms}$ and $$ 3\\ \\text{s} $$",
        "\\begin{align} x = 5 ms \\end{align}",
        "```{math}\n5 ms\n```",
        "[a 10 Gbps network](https://example.org/10Gbps)",
        "<https://example.org/5ms>",
        "“only 32 of 100 Gbps” {cite:p}`zhang2020`",
        "> only 10 Gbps needs 2×\n>\n> {cite:t}`zhang2020`",
        "{cite:p}`zhang2020`",
        '<img style="width: 50%" alt="x"/>',
        "<!-- 5 ms -->",
        "ResNet-50 on 16 workers in 2020, a 100GbE card, section 3, the 1990s, VGG-16, 2-D",
        "one of 172 held-out rows",
        ":::{figure} x\n:width: 50%\n:::",
    ],
)
def test_leaves_other_numbers_alone(text: str) -> None:
    assert typed_quantities(text) == []


def test_introduction_has_none() -> None:
    assert typed_quantities((ROOT / "book" / "intro.md").read_text(encoding="utf-8")) == []


def test_prose_pages_name_known_citations() -> None:
    known = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "book" / "references.bib").read_text(encoding="utf-8"), re.M))
    cited = {
        key
        for page in (ROOT / "book").glob("*.md")
        for key in re.findall(r"\{cite:\w\}`(\w+)`", page.read_text(encoding="utf-8"))
    }
    assert cited <= known
    assert {"zhang2020", "shi2020", "survey2022"} <= cited
