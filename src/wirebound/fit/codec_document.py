"""CODEC.json: what coding costs, as `--codec` reads it. Standard library only."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.files import parse_json, require_input_name
from wirebound.model import Codec

SCHEMA = "wirebound-codec"
VERSION = 1

_FIELDS = tuple(field.name for field in dataclasses.fields(Codec))
_EXAMPLE = json.dumps({"schema": SCHEMA, "version": VERSION} | dict.fromkeys(_FIELDS, 1e-9))
_REMEDY = f"write {_EXAMPLE}"


def codec_document(codecs: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a document of several codecs, by what the command line calls their compressors, such as ``topk:0.01``.

    Each has the four figures of a `Codec` by name, and whatever tells where they come from; `more` is about all.
    """
    return {"schema": SCHEMA, "version": VERSION, **more, "codecs": codecs}


def load_codec(path: Path, compressor: str | None = None) -> Codec:
    """Read a codec's four figures (see `wirebound.model.Codec`); those that are missing are 0.

    A file of one codec has them itself; of a file of several, that of `compressor`, such as ``topk:0.01``, is taken.
    Raises `InputError` with one line that names the file.
    """
    require_input_name(path)
    try:
        document = parse_json(path.read_text(encoding="utf-8-sig"), str(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such codec, the file does not exist: {_REMEDY}") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder, not a codec: {_REMEDY}") from None
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise InputError(f"{path}: is not JSON: {_REMEDY}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(f"{path}: is not a codec: {_REMEDY}")
    if document.get("version") != VERSION:
        raise InputError(
            f"{path}: has codec version {document.get('version')!r:.40}: this program reads version {VERSION}"
        )
    document = _chosen(document, path, compressor)
    values = {}
    for name in _FIELDS:
        value = document.get(name, 0)
        # NaN compares false; a whole number of any length compares exactly
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:
            raise InputError(f"{path}: {name} = {value!r:.40} must be seconds, between 0 and 1e+09")
        values[name] = float(value)
    if not any(math.isfinite(value) and value > 0 for value in values.values()):
        raise InputError(f"{path}: all of {', '.join(_FIELDS)} are 0: for a free codec give --free-codec instead")
    return Codec(**values)


def _chosen(document: dict[str, Any], path: Path, compressor: str | None) -> dict[str, Any]:
    if "codecs" not in document:
        return document
    codecs = document["codecs"]
    if not isinstance(codecs, dict) or not all(isinstance(codec, dict) for codec in codecs.values()):
        raise InputError(f"{path}: codecs must be an object of codecs by compressor: {_REMEDY}")
    if compressor not in codecs:
        wanted = compressor or "one compressor"
        raise InputError(f"{path}: has no codec of {wanted}: choose one of {', '.join(codecs)}, or another file")
    chosen: dict[str, Any] = codecs[compressor]
    return chosen
