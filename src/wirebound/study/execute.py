"""Execute one notebook through papermill, and make the result the same wherever it was executed."""

import copy
import importlib.util
import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import papermill
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from wirebound.errors import WireboundError
from wirebound.files import write_text
from wirebound.study.inputs import read_json
from wirebound.study.parameters import Value

#: What published notebooks say of their kernel, whatever the local one is called.
_KERNEL_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}
#: Metadata that tells when and where a notebook ran.
_NOISE = ("papermill", "execution", "widgets")
_INJECTED = "injected-parameters"


class NotebookError(WireboundError):
    """A notebook stopped in a cell.

    `cell` is its number among all cells and its number among the code cells, both from 1; None when none had begun.
    """

    def __init__(self, chapter: str, cell: tuple[int, int] | None, problem: str) -> None:
        self.chapter = chapter
        self.cell = cell
        self.problem = problem
        where = f" in cell {cell[0]} (code cell {cell[1]})" if cell is not None else ""
        super().__init__(f"chapter {chapter} failed{where}: {problem}")


class _OwnKernelManager(AsyncKernelManager):
    """Starts this interpreter's own kernel, whatever kernel specs are installed and whatever they are called."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--log-level=CRITICAL"],
            display_name="Python 3",
            language="python",
            env=child_environment() | {"IPYTHONDIR": str(Path.cwd() / ".ipython")},  # no one's own start-up files
        )


def child_environment() -> dict[str, str]:
    """Return the variables that a kernel and the probe get beside their parent's.

    Sets iterate in the same order every time, and ``PYTHONPATH`` holds in another working directory too.
    """
    variables = {"PYTHONHASHSEED": "0"}
    if os.environ.get("PYTHONPATH"):
        entries = os.environ["PYTHONPATH"].split(os.pathsep)
        variables["PYTHONPATH"] = os.pathsep.join(str(Path(entry).absolute()) for entry in entries if entry)
    return variables


def execute_notebook(
    chapter: str, source: Path, output: Path, *, parameters: Mapping[str, Value], folder: Path, progress: bool = False
) -> None:
    """Execute the notebook `source` in the working directory `folder` and write it to `output`.

    `parameters` are injected below the cell tagged ``parameters``. On failure `output` has what was executed until
    then. Raises `NotebookError` when a cell fails or the kernel dies, `WireboundError` without a kernel.
    """
    if importlib.util.find_spec("ipykernel") is None:
        raise WireboundError("there is no Jupyter kernel here: pip install ipykernel")
    logging.getLogger("papermill").setLevel(logging.ERROR)
    notebook = _read_source(source)
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        executed = papermill.execute_notebook(
            nbformat.from_dict(notebook),  # type: ignore[no-untyped-call]
            str(output).replace("{", "{{").replace("}", "}}"),  # papermill takes it for a format
            parameters=dict(parameters),
            kernel_name="python3",
            kernel_manager_class=_OwnKernelManager,
            progress_bar=progress,
            cwd=str(folder),
            start_timeout=120,
            iopub_timeout=120,
            coalesce_streams=True,
            record_timing=False,
        )
    except PapermillExecutionError as error:
        problem = f"{error.ename}: {error.evalue}".strip().split("\n")[0][:300]
        raise NotebookError(chapter, _cell_number(notebook, output), problem) from None
    except DeadKernelError:
        problem = "its Python process died: it may have run out of memory, or was stopped from outside"
        raise NotebookError(chapter, _cell_number(notebook, output), problem) from None
    except RuntimeError as error:  # the kernel did not start or did not answer
        raise NotebookError(chapter, None, f"the kernel does not answer ({error}): see `wirebound doctor`") from None
    result = nbformat.from_dict(comparable(executed, notebook))  # type: ignore[no-untyped-call]
    write_text(output, nbformat.writes(result) + "\n")  # type: ignore[no-untyped-call]


def _read_source(path: Path) -> dict[str, Any]:
    """Read a notebook without outputs, every cell with an id that depends on nothing but the notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for number, cell in enumerate(notebook["cells"], start=1):
        cell.setdefault("id", f"cell-{number}")
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    metadata = _without_noise(notebook["metadata"]) | _KERNEL_METADATA
    return notebook | {"metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _cell_number(source: Mapping[str, Any], output: Path) -> tuple[int, int] | None:
    """Return the numbers, see `NotebookError`, of the source's cell at which an execution stopped."""
    begun = [
        cell["id"]
        for cell in (read_json(output) or {"cells": []})["cells"]
        if cell["cell_type"] == "code" and cell["metadata"].get("papermill", {}).get("start_time")
    ]
    numbers, code_cells = {}, 0
    for number, cell in enumerate(source["cells"], start=1):
        code_cells += cell["cell_type"] == "code"
        numbers[cell["id"]] = (number, code_cells)
    return numbers.get(begun[-1]) if begun else None


def comparable(executed: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """Return an executed notebook without paths, times and the local kernel's name.

    Two executions with the same outputs are then the same file. Cells keep the source's metadata.
    """
    notebook = copy.deepcopy(dict(executed))
    originals = {cell["id"]: cell for cell in source["cells"]}
    notebook["metadata"] = copy.deepcopy(source["metadata"])
    for cell in notebook["cells"]:
        if cell["id"] in originals:
            cell["metadata"] = _without_noise(originals[cell["id"]]["metadata"])
        else:
            cell["metadata"] = {"tags": [_INJECTED]}
            cell["id"] = _INJECTED
        for result in cell.get("outputs", []):
            result.get("metadata", {}).pop("execution", None)
    return notebook


def _without_noise(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: copy.deepcopy(value) for key, value in metadata.items() if key not in _NOISE}
