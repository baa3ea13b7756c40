"""Notebooks agree with their declarations: ``python -m wirebound.study.check_notebooks [--fix]``.

Each chapter has a notebook and each notebook a chapter; its first code cell, tagged ``parameters``, is the one that the
declaration generates; all code is plain Python; there are no outputs. ``--fix`` rewrites the cell and drops outputs.
"""

import ast
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.files import write_text
from wirebound.study.chapter import Chapter
from wirebound.study.chapters import CHAPTERS
from wirebound.study.fingerprint import read_cells
from wirebound.study.project import find_project

_TAG = "parameters"
_REMEDY = "run `python -m wirebound.study.check_notebooks --fix`"


def parameters_cell(chapter: Chapter) -> str:
    """Return the source of a chapter's parameters cell: the quick defaults, each with its meaning."""
    lines = [f"# Change with `wirebound run --set {chapter.name}.NAME=VALUE`."]
    for parameter in chapter.parameters:
        lines += [f"# {parameter.help}", f"{parameter.name} = {_python(parameter.default_value())}"]
    return "\n".join(lines)


def _python(value: Any) -> str:
    """Print a plain value as Python code with double quotes, as formatters do."""
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def check_parameters_cell(folder: Path, chapter: Chapter) -> None:
    """Raise `InputError` unless a chapter's notebook has just the parameters cell that its declaration generates."""
    problem = _parameters_problem(read_cells(folder / f"{chapter.name}.ipynb"), chapter)
    if problem:
        raise InputError(f"notebooks/{chapter.name}.ipynb: {problem}: {_REMEDY}")


def _parameters_problem(cells: Sequence[dict[str, Any]], chapter: Chapter) -> str | None:
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    tagged = [cell for cell in cells if _TAG in cell.get("metadata", {}).get("tags", [])]
    if not chapter.parameters:
        return "it has a parameters cell, but declares no parameters" if tagged else None
    if len(tagged) != 1 or not code or tagged[0] is not code[0]:
        return "its first code cell, and no other, must be tagged 'parameters'"
    if tagged[0]["source"] != parameters_cell(chapter):
        return "its parameters cell differs from the declaration in study/chapters.py"
    return None


def _other_problems(cells: Sequence[dict[str, Any]]) -> list[str]:
    problems = []
    for number, cell in enumerate(cells, start=1):
        if cell["cell_type"] != "code":
            continue
        if not cell["source"].strip():
            problems.append(f"cell {number} is empty: delete it")
        try:
            ast.parse(cell["source"])
        except SyntaxError as error:
            problems.append(f"cell {number} is not plain Python ({error.msg})")
        noise = {"execution", "papermill"}.intersection(cell.get("metadata", {}))
        if cell.get("outputs") or cell.get("execution_count") is not None or noise:
            problems.append(f"cell {number} keeps outputs: {_REMEDY}")
    return problems


def check_notebooks(folder: Path, chapters: Sequence[Chapter]) -> list[str]:
    """Return what is wrong with the notebooks in `folder`, one line each; nothing when all is well."""
    names = {chapter.name for chapter in chapters}
    problems = [
        f"notebooks/{path.name}: no chapter of that name is declared in study/chapters.py"
        for path in sorted(folder.glob("*.ipynb"))
        if path.stem not in names
    ]
    for chapter in chapters:
        try:
            cells = read_cells(folder / f"{chapter.name}.ipynb")
        except InputError as error:
            problems.append(str(error))
            continue
        problem = _parameters_problem(cells, chapter)
        found = ([f"{problem}: {_REMEDY}"] if problem else []) + _other_problems(cells)
        problems.extend(f"notebooks/{chapter.name}.ipynb: {text}" for text in found)
    return problems


def fix_notebook(path: Path, chapter: Chapter) -> bool:
    """Rewrite the parameters cell, drop outputs and sort the file's keys; return whether the file changed."""
    read_cells(path)
    before = path.read_text(encoding="utf-8")
    notebook = json.loads(before)
    cells = notebook["cells"]
    for cell in cells:
        if _TAG in cell["metadata"].get("tags", []):
            cell["metadata"]["tags"].remove(_TAG)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
            for noise in ("execution", "papermill"):
                cell["metadata"].pop(noise, None)
    if chapter.parameters:
        _place_parameters_cell(cells, chapter, json.loads(before)["cells"])
    after = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if after != before:
        write_text(path, after)
    return after != before


def _place_parameters_cell(cells: list[dict[str, Any]], chapter: Chapter, before: Sequence[dict[str, Any]]) -> None:
    """Fill the first tagged cell and move it before all other code; without one insert it there."""
    tagged = [index for index, cell in enumerate(before) if _TAG in cell["metadata"].get("tags", [])]
    if tagged:
        cell = cells.pop(tagged[0])
    else:
        cell = {"cell_type": "code", "id": _TAG, "metadata": {}, "outputs": [], "execution_count": None}
    cell["source"] = parameters_cell(chapter).splitlines(keepends=True)
    cell["metadata"]["tags"] = [_TAG, *cell["metadata"].get("tags", [])]
    first = next((index for index, other in enumerate(cells) if other["cell_type"] == "code"), len(cells))
    cells.insert(first, cell)


def main(arguments: list[str] | None = None) -> int:
    """Print what is wrong and return 1 if anything is; with ``--fix`` repair what can be repaired first."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments not in ([], ["--fix"]):
        print("usage: python -m wirebound.study.check_notebooks [--fix]", file=sys.stderr)
        return 2
    folder = find_project().notebooks
    if arguments:
        for chapter in CHAPTERS:
            path = folder / f"{chapter.name}.ipynb"
            if path.is_file() and fix_notebook(path, chapter):
                print(f"rewrote notebooks/{path.name}")
    problems = check_notebooks(folder, CHAPTERS)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
