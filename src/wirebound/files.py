"""Write a file whole or not at all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from wirebound.errors import InputError


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 with ``\\n`` line ends; an older file is replaced only once the new one is whole.

    Raises `InputError` when `path` is a folder or its folder does not exist.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file to write")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist: create it first")
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # mkstemp makes files that only their owner can read.
        Path(temporary).chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document like `write_text`; raises `ValueError` for numbers that JSON does not have."""
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
