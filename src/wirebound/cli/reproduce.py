"""The command that writes tables of published results as this package computes them: reproduce."""

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from wirebound.cli.naming import naming
from wirebound.cli.output import JsonFlag, note, print_json
from wirebound.errors import unknown_name
from wirebound.files import require_writable, write_text

_Table = tuple[list[str], list[list[object]]]

_SHI_MODELS = {"resnet50": "ResNet-50", "bert-base": "BERT-Base", "bert-large": "BERT-Large"}
_SHI_NETWORKS = {"10gbe-tcp": "10GbE-TCP", "100gbe-tcp": "100GbE-TCP", "100gbib-rdma": "100GbIB-RDMA"}
_SHI_METHODS = {"bytescheduler-ps": "ByteScheduler-PS", "bytescheduler-a2a": "ByteScheduler-A2A"}


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("reproduce")(reproduce)


def reproduce(
    name: Annotated[str, typer.Argument(help="Table: zhang2020-whatif or shi2020.", metavar="NAME")],
    out: Annotated[Path, typer.Option("--out", help="CSV file to write.", metavar="FILE.csv")],
    json_output: JsonFlag = False,
) -> None:
    """Write a table of published results as this package computes it.

    zhang2020-whatif: scaling factors of a fully used network, 270 rows. shi2020: 252 measured runs with the predicted
    time of a step.

    Example: wirebound reproduce zhang2020-whatif --out whatif.csv
    """
    if name not in _TABLES:
        raise unknown_name("table", name, _TABLES)
    with naming("--out"):
        require_writable(out)
    columns, rows = _TABLES[name]()
    write_text(out, _csv(columns, rows))
    note(f"wrote {len(rows)} rows to {out}")
    if json_output:
        print_json({"name": name, "file": str(out), "rows": len(rows), "columns": columns})


def _csv(columns: list[str], rows: Iterable[list[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def _zhang2020_whatif() -> _Table:
    from wirebound.study.zhang2020 import whatif_grid

    columns = ["model", "N", "link_gbps", "compression", "scaling_factor"]
    return columns, [[*point[:-1], f"{point.scaling_factor:.9f}"] for point in whatif_grid()]


def _shi2020() -> _Table:
    from wirebound.fit.shi2020 import calibrate, predict_iteration_s, read_runs

    columns = [
        *("model", "batch_per_gpu", "network", "nominal_gbps", "method", "gpus"),
        *("throughput_1gpu", "throughput", "throughput_std", "suspect"),
        *("predicted_iteration_s", "measured_iteration_s", "split"),
    ]
    runs = read_runs()
    calibration = calibrate(run for run in runs if run.split == "calibration")
    rows: list[list[object]] = [
        [
            *(_SHI_MODELS[run.workload], run.samples_per_gpu, _SHI_NETWORKS[run.network], run.link_gbps),
            *(_SHI_METHODS.get(run.method, run.method.upper()), run.gpus),
            *(run.single_gpu_per_s, run.samples_per_s, run.std_per_s, int(run.suspect)),
            *(f"{predict_iteration_s(run, calibration):.9f}", f"{run.iteration_s:.9f}", run.split),
        ]
        for run in runs
    ]
    return columns, rows


_TABLES: dict[str, Callable[[], _Table]] = {"zhang2020-whatif": _zhang2020_whatif, "shi2020": _shi2020}
