"""Which format a file to import has."""

import re
from pathlib import Path

from wirebound.errors import InputError
from wirebound.profile.traces.nccl_tests import looks_like_nccl_tests
from wirebound.profile.traces.source import TextSource, shown

FORMATS = ("kineto", "horovod", "nccl-tests")
_PYTORCH = re.compile(r'"cat"\s*:\s*"(?:kernel|cpu_op|operator|user_annotation|cuda_runtime|gpu_)', re.IGNORECASE)


def is_nccl_tests(path: Path) -> bool:
    """Return whether the file is there and begins like nccl-tests output."""
    if path.suffix.lower() == ".json" or not path.is_file():
        return False
    source = TextSource(path)
    text = source.read()
    source.close()
    return looks_like_nccl_tests(text)


def format_of(path: Path) -> str:
    """Return the format by how the file begins: an object is PyTorch's, a list Horovod's, a table nccl-tests'.

    A list whose first events have PyTorch's categories is PyTorch's. Raises `InputError` when it is none of these.
    """
    source = TextSource(path)
    text = source.read()
    source.close()
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("{"):
        return "kineto"
    if start.startswith("[") and (not start[1:].strip() or start[1:].lstrip().startswith(("{", "]"))):
        return "kineto" if _PYTORCH.search(start) else "horovod"
    if looks_like_nccl_tests(text):
        return "nccl-tests"
    what = f"it begins with {shown(start[:20])!r}" if start else "it is empty"
    raise InputError(
        f"{path}: is neither a PyTorch trace nor a Horovod timeline nor nccl-tests output ({what}): name its format"
        f" with --format {'|'.join(FORMATS)}, or export it again"
    )
