"""Digests of what a chapter depends on. They follow content and meaning: times, comments and outputs do not count.

Code is hashed as a syntax tree, so formatting and comments change nothing; in modules docstrings do not count either.
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from wirebound.errors import InputError

#: The digest of a file that does not exist.
ABSENT = "absent"


def digest_text(text: str) -> str:
    """Return the SHA-256 of some text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_value(value: Any) -> str:
    """Return the digest of a plain value by its canonical JSON."""
    return digest_text(json.dumps(value, sort_keys=True, ensure_ascii=False))


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_folder(folder: Path) -> str:
    """Return one digest of all files below `folder`, by name and content."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return digest_value([[path.relative_to(folder).as_posix(), digest_file(path)] for path in files])


def digest_data(folder: Path, address: str) -> str:
    """Return the digest of a data file, of all files in a data folder, or of those that fit a pattern as ``*.csv``.

    Raises `InputError` when there is none.
    """
    path = folder / address
    if "*" in path.name:
        files = sorted(path.parent.glob(path.name))
        if files:
            return digest_value([[file.name, digest_file(file)] for file in files])
    if path.is_dir():
        return digest_folder(path)
    if path.is_file():
        return digest_file(path)
    raise InputError(f"data file {path.name!r} is missing: {folder.name}/{address} is declared in study/chapters.py")


def digest_lock(path: Path) -> str:
    """Return the digest of a lock's requirements, without comments and blank lines."""
    if not path.is_file():
        return ABSENT
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return digest_value(sorted(line for line in lines if line))


def read_cells(path: Path) -> list[dict[str, Any]]:
    """Return a notebook's cells, each with its source as one text; raises `InputError` for anything else."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        cells = [dict(cell, source="".join(cell["source"])) for cell in document["cells"]]
        if all(isinstance(cell["cell_type"], str) for cell in cells):
            return cells
    except FileNotFoundError:
        raise InputError(f"notebook {path.name} is missing: restore it in {path.parent.name}/") from None
    except (ValueError, KeyError, TypeError):
        pass
    raise InputError(f"{path.name} is not a notebook: restore it in {path.parent.name}/")


def code_sources(cells: Iterable[dict[str, Any]]) -> list[str]:
    """Return the sources of the code cells."""
    return [cell["source"] for cell in cells if cell["cell_type"] == "code"]


def digest_notebook(cells: Iterable[dict[str, Any]]) -> str:
    """Return the digest of a notebook's cells: code by its syntax tree, prose by its text, and the tags of both."""
    return digest_value(
        [
            [
                cell["cell_type"],
                sorted(cell.get("metadata", {}).get("tags", [])),
                _dump(cell["source"]) if cell["cell_type"] == "code" else cell["source"],
                cell.get("attachments", {}),
            ]
            for cell in cells
        ]
    )


def _dump(source: str) -> str:
    try:
        return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError):
        return source  # it will fail when it runs; until then its text stands for it


class Modules:
    """The modules of one package: what they import from it, and their digests. Each file is read once."""

    def __init__(self, package: Path) -> None:
        self._package = package
        self._read: dict[str, tuple[str, frozenset[str]]] = {}

    def used_by(self, sources: Iterable[str]) -> dict[str, str]:
        """Return module name → digest for all modules that `sources` import, directly or through other modules."""
        waiting = {name for source in sources for name in self._imports(_parse(source), module="")}
        digests: dict[str, str] = {}
        while waiting:
            name = waiting.pop()
            digests[name], imports = self._module(name)
            waiting |= imports - digests.keys()
        return dict(sorted(digests.items()))

    def _file(self, name: str) -> Path | None:
        top, *parts = name.split(".")
        if top != self._package.name:
            return None
        path = self._package.joinpath(*parts)
        candidates = (path / "__init__.py", path.with_name(f"{path.name}.py"))
        return next((candidate for candidate in candidates if candidate.is_file()), None)

    def _module(self, name: str) -> tuple[str, frozenset[str]]:
        if name not in self._read:
            path = self._file(name)
            assert path is not None
            source = path.read_text(encoding="utf-8")
            tree = _parse(source)
            inside = f"{name}.__init__" if path.name == "__init__.py" else name
            imports = frozenset(self._imports(tree, module=inside))
            digest = digest_text(source if tree is None else ast.dump(_without_docstrings(tree)))
            self._read[name] = (digest, imports)
        return self._read[name]

    def _imports(self, tree: ast.Module | None, *, module: str) -> Iterator[str]:
        """Yield the package's modules that a syntax tree imports anywhere, their parent packages included."""
        for name in () if tree is None else _imported_names(tree, module):
            parts = name.split(".")
            for length in range(1, len(parts) + 1):
                candidate = ".".join(parts[:length])
                if self._file(candidate) is not None:
                    yield candidate


def _parse(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _imported_names(tree: ast.Module, module: str) -> Iterator[str]:
    """Yield the full names that imports may mean; ``from a import b`` means ``a`` and perhaps the module ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if called in ("import_module", "__import__") and isinstance(first, ast.Constant):
                yield str(first.value)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                del node.body[0]
    return tree
