"""How fast is a trace imported, and in how much memory? Run: python benchmarks/import_trace.py [MEGABYTES]

Writes a trace in the layout of the PyTorch profiler (steps of a data-parallel job on a GPU) to a temporary folder,
imports it in processes of their own, prints megabytes of JSON per second and peak memory, and removes the folder.
"""

import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_IMPORT = """
import resource, sys, time
from pathlib import Path
from wirebound.profile.traces.kineto import read_kineto
from wirebound.profile.traces.kineto_profile import kineto_profile
from wirebound.profile.traces.kineto_summary import summarize
began = time.perf_counter()
trace = read_kineto(Path(sys.argv[1]))
kineto_profile(trace, summarize(trace))
print(time.perf_counter() - began, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
_ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*>>"
)


def step_events(step: int, layers: int = 160) -> Iterator[dict[str, object]]:
    """One step: per layer and pass a host operation, its launch, the flow between them and a kernel; 5 all-reduces."""
    start, identifier = 1e9 + step * 250_000.0, itertools.count(step * 100_000 + 1)
    mark = {"ph": "X", "pid": 7, "tid": 7, "cat": "user_annotation"}
    yield mark | {
        "name": f"ProfilerStep#{step}",
        "ts": start,
        "dur": 249_000.0,
        "args": {"External id": next(identifier)},
    }
    yield mark | {"name": "Optimizer.step#SGD.step", "ts": start + 230_000, "dur": 9_000.0, "args": {}}
    for index in range(2 * layers):
        number, moment = next(identifier), start + 1000 + index * 700.0
        name = "aten::convolution" if index < layers else "autograd::engine::evaluate_function: ConvolutionBackward0"
        host = {"pid": 7, "tid": 7 if index < layers else 8}
        device = {"device": 0, "context": 1, "stream": 7, "correlation": number, "External id": number}
        shape = {"registers per thread": 32, "shared memory": 0, "grid": [24, 1, 1], "block": [128, 1, 1]}
        yield {"ph": "X", "cat": "cpu_op", "name": name, **host, "ts": moment, "dur": 300.5, "args": {"Ev Idx": number}}
        launch = {"cbid": 211, "correlation": number, "External id": number}
        yield {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            **host,
            "ts": moment + 50,
            "dur": 8.25,
            "args": launch,
        }
        yield {"ph": "s", "id": number, **host, "ts": moment + 50, "cat": "ac2g", "name": "ac2g"}
        yield {"ph": "f", "id": number, "pid": 0, "tid": 7, "ts": moment + 90, "cat": "ac2g", "name": "ac2g", "bp": "e"}
        yield {
            "ph": "X",
            "cat": "kernel",
            "name": _KERNEL,
            "pid": 0,
            "tid": 7,
            "ts": moment + 90,
            "dur": 320.75,
            "args": device | shape,
        }
        if index >= layers and (index - layers) % 32 == 31:
            message = {"In msg nelems": 5_000_000, "Out msg nelems": 5_000_000, "Group size": 2, "dtype": "Float"}
            reduce = {"ph": "X", "cat": "kernel", "name": _ALL_REDUCE, "pid": 0, "tid": 20, "ts": moment + 500}
            yield reduce | {"dur": 2_000.0, "args": message | {"stream": 20, "correlation": number}}


def write_trace(path: Path, megabytes: int) -> float:
    """Write a trace of about so many megabytes, indented as PyTorch does; return its size in megabytes."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{\n  "schemaVersion": 1,\n  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},\n')
        file.write('  "traceEvents": [\n')
        for step in itertools.count():
            events = ["  " + json.dumps(event) for event in step_events(step)]
            file.write((",\n" if step else "") + ",\n".join(events))
            if file.tell() > megabytes * 1e6:
                break
        file.write("\n  ]\n}\n")
    return path.stat().st_size / 1e6


def main() -> None:
    """Measure three imports and print the best, the median and the memory."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        began = time.perf_counter()
        size = write_trace(path, megabytes)
        print(f"wrote {size:.0f} MB in {time.perf_counter() - began:.0f} s", flush=True)
        runs = []
        for _ in range(3):
            done = subprocess.run([sys.executable, "-c", _IMPORT, path], capture_output=True, text=True, check=True)
            seconds, processor_s, memory = map(float, done.stdout.split())
            runs.append(seconds)
            print(
                f"imported in {seconds:.2f} s: {size / seconds:.0f} MB/s ({size / processor_s:.0f} MB per second of"
                f" processor time), peak memory {memory:.0f} MiB",
                flush=True,
            )
        print(f"median {size / sorted(runs)[1]:.0f} MB/s")


if __name__ == "__main__":
    main()
