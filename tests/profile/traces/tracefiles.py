"""Small traces in the formats of PyTorch and Horovod, made here; and where public ones lie, if they are there."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]


def reference_folder() -> Path:
    """The folder of public traces beside this checkout; the test skips where there is none."""
    for folder in (ROOT, *ROOT.parents):
        if (folder / "shared" / "reference").is_dir():
            return folder / "shared" / "reference"
    pytest.skip("no reference traces beside this checkout")


def ddp_step(
    number: int,
    start: float,
    *,
    buckets: tuple[int, ...] = (1000, 2000),
    transfer: tuple[float, ...] = (300.0, 500.0),
    late: float = 0.0,
    tail: float = 200.0,
) -> list[dict[str, Any]]:
    """One step on a GPU, in µs from `start`: forward 100–1100, backward 1200–3200, its buckets ready at 2200, 3200.

    The first transfer runs under computation, the second after it; then the optimizer follows for `tail` µs. `late`
    delays this rank's collectives. The host launches everything 50 µs ahead.
    """
    events: list[dict[str, Any]] = []
    correlation = number * 1000

    def kernel(name: str, begin: float, end: float, stream: int = 7, tid: int = 1, **arguments: Any) -> None:
        nonlocal correlation
        correlation += 1
        ids = {"correlation": correlation}
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": tid}
        events.append(launch | {"ts": start + begin - 50, "dur": 5.0, "args": ids})
        device = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream}
        more = ids | {"stream": stream, "device": 0} | arguments
        events.append(device | {"ts": start + begin, "dur": end - begin, "args": more})

    def host(category: str, name: str, begin: float, end: float, tid: int = 1) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": tid}
        events.append(event | {"ts": start + begin, "dur": end - begin, "args": {}})

    after = 3200 + late + transfer[1]
    host("user_annotation", f"ProfilerStep#{number}", 0, after + tail + 50)
    host("gpu_user_annotation", f"ProfilerStep#{number}", 100, after + tail)
    host("user_annotation", "DistributedDataParallel.forward", 20, 900)
    kernel("void gemm_kernel(float*)", 100, 1100)
    host("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 1140, 2100, tid=2)
    kernel("void gemm_kernel(float*)", 1200, 2200, tid=2)
    sizes = {"dtype": "Float", "Group size": 2, "Collective name": "allreduce"}
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    first = {"In msg nelems": buckets[0], "Out msg nelems": buckets[0]}
    kernel(name, 2200 + late, 2200 + late + transfer[0], 20, 2, **sizes, **first)
    host("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 2120, 2140, tid=2)
    kernel("void gemm_kernel(float*)", 2200, 3200, tid=2)
    second = {"In msg nelems": buckets[1], "Out msg nelems": buckets[1]}
    kernel(name, 3200 + late, after, 20, 2, **sizes, **second)
    host("user_annotation", "Optimizer.step#SGD.step", after - 60, after)
    kernel("void multi_tensor_apply_kernel()", after, after + tail)
    events.append({"ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": start + 100, "cat": "ac2g", "name": "ac2g", "bp": "e"})
    return events


def gloo_job(steps: int = 1) -> list[dict[str, Any]]:
    """A step of 1000 µs on the processor: backward 300–550, one all-reduce 545–845. Without steps: no marks."""
    host = {"ph": "X", "pid": 5, "tid": 5}
    gloo = {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 5, "tid": 77}
    shape = {"Input Dims": [[250]], "Input type": ["float"]}
    mark = [host | {"cat": "user_annotation", "name": "ProfilerStep#3", "ts": 0, "dur": 1000}]
    return [
        *mark[:steps],
        host | {"cat": "cpu_op", "name": "aten::linear", "ts": 10, "dur": 200},
        host | {"cat": "cpu_op", "name": "autograd::engine::evaluate_function: AddmmBackward0", "ts": 300, "dur": 250},
        host | {"cat": "cpu_op", "name": "c10d::allreduce_", "ts": 540, "dur": 5},
        gloo | {"ts": 545, "dur": 300, "args": shape},
        host | {"cat": "user_annotation", "name": "Optimizer.step#SGD.step", "ts": 850, "dur": 100},
        host | {"cat": "cpu_op", "name": "aten::add_", "ts": 860, "dur": 80},
    ]


#: µs from step to step in `ddp_events`.
PERIOD = 4000.0


def ddp_events(steps: int = 3, **settings: Any) -> list[dict[str, Any]]:
    """Several steps, `PERIOD` µs apart."""
    return [event for step in range(steps) for event in ddp_step(step + 1, 1000.5 + step * PERIOD, **settings)]


def kineto_document(events: list[dict[str, Any]], *, rank: int | None = 0, world: int | None = 2) -> dict[str, Any]:
    """A trace with its header; the events are not last, as in real files."""
    info = {"backend": "nccl", "rank": rank, "world_size": world}
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Test GPU"}],
        "distributedInfo": {name: value for name, value in info.items() if value is not None},
        "traceEvents": events,
        "traceName": "/home/somebody/trace.json",
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
    }


def write(path: Path, document: Any) -> Path:
    """Write a document as JSON, packed where the name says so."""
    data = json.dumps(document).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rasterized(intervals: list[tuple[int, int]], length: int) -> np.ndarray:
    """Which whole microseconds the intervals cover: a second way to take a union."""
    line = np.zeros(length, dtype=bool)
    for start, end in intervals:
        line[start:end] = True
    return line


def horovod_step(start: float, *, first: bool) -> list[dict[str, Any]]:
    """One step of three tensors: a alone, b and c fused. Ready after 0, 400, 500; transfers 200–600 and 800–1500."""
    events: list[dict[str, Any]] = []
    if first:
        for pid, name in ((1, "grad.a"), (2, "grad.b"), (3, "grad.c")):
            events.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}})
            events.append({"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": pid}})

    def begin(pid: int, name: str, moment: float) -> None:
        events.append({"ph": "B", "name": name, "ts": start + moment, "pid": pid})

    def end(pid: int, moment: float, **arguments: str) -> None:
        events.append({"ph": "E", "ts": start + moment, "pid": pid} | ({"args": arguments} if arguments else {}))

    def negotiate(pid: int, ready: float, done: float) -> None:
        begin(pid, "NEGOTIATE_ALLREDUCE", ready)
        for rank, moment in ((0, ready), (1, done - 1)):
            events.append({"ph": "X", "name": str(rank), "ts": start + moment, "pid": pid, "dur": 0})
        end(pid, done)

    negotiate(1, 0, 190)
    begin(1, "ALLREDUCE", 190)
    begin(1, "NCCL_ALLREDUCE", 200)
    end(1, 600)
    end(1, 610, dtype="float32", shape="[100, 10]")
    negotiate(2, 400, 700)
    negotiate(3, 500, 700)
    for pid in (2, 3):
        begin(pid, "ALLREDUCE", 700)
        begin(pid, "MEMCPY_IN_FUSION_BUFFER", 710)
        end(pid, 790)
        begin(pid, "NCCL_ALLREDUCE", 800 + pid)
        end(pid, 1500 + pid)
        begin(pid, "MEMCPY_OUT_FUSION_BUFFER", 1510)
        end(pid, 1550)
        end(pid, 1560, dtype="float32", shape="[1000]" if pid == 2 else "[]")
    return events
