"""Curves in a file, one a line, each added when its run has ended: whoever was stopped goes on from there."""

import json
from pathlib import Path

from wirebound.techniques.learning.runs import Curve, curve_of


def append(journal: Path, curve: Curve) -> None:
    """Add a curve. A line begins with its newline, so that one that was cut off spoils no other."""
    with journal.open("a", encoding="utf-8") as stream:
        stream.write("\n" + json.dumps(curve.fields()))


def read(journal: Path) -> list[Curve]:
    """Return the curves of a journal, none where there is no file; a line that was cut off is left out."""
    if not journal.is_file():
        return []
    curves = []
    for line in journal.read_text(encoding="utf-8").splitlines():
        try:
            curves.append(curve_of(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            continue
    return curves
