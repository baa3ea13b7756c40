"""The headline results of a run, merged from its chapters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wirebound.errors import WireboundError
from wirebound.study.inputs import read_json

#: A chapter's results of this machine, in its artifacts and, merged, in the run folder.
LIVE = "live.json"


def read_chapter_results(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a chapter's ``results.json`` or ``live.json``, none when it does not exist.

    Raises `WireboundError` when the file is not ``{"results": [{"name", "value", …}]}`` or names a result twice.
    """
    if not path.is_file():
        return []
    document = read_json(path)
    rows = document.get("results") if isinstance(document, dict) else None
    where = f"chapter {path.parent.name}: {path.name}"
    if not isinstance(rows, list) or not all(isinstance(row, dict) and {"name", "value"} <= row.keys() for row in rows):
        raise WireboundError(
            f'{where} is not {{"results": [{{"name": …, "value": …}}]}}: check what the chapter writes'
        )
    names = [row["name"] for row in rows]
    if len(set(names)) < len(names):
        raise WireboundError(f"{where} names a result twice: check what the chapter writes")
    return rows


def merge_results(artifacts: Mapping[str, Path], file: str) -> dict[str, dict[str, Any]]:
    """Return ``CHAPTER.NAME`` → row, from `file` in every chapter's folder of artifacts."""
    return {
        f"{chapter}.{row['name']}": {key: value for key, value in row.items() if key != "name"}
        for chapter, folder in artifacts.items()
        for row in read_chapter_results(folder / file)
    }
