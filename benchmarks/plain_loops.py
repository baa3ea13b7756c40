"""The sweeps' arithmetic as plain C loops, built with gcc: the yardstick of `engine.py`."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from wirebound.model import Cluster, Link
from wirebound.simulate.cost import message_cost
from wirebound.simulate.messages import planned_messages

FLAGS = ["-O3", "-march=native", "-ffp-contract=off", "-fopenmp", "-shared", "-fPIC"]


class Networks(ctypes.Structure):
    """As in plain_loops.c."""

    _fields_ = [(name, ctypes.c_long) for name in ("ratios", "latencies", "bandwidths")] + [
        (name, ctypes.POINTER(ctypes.c_double)) for name in ("ratio", "latency", "bandwidth")
    ]


class Compute(ctypes.Structure):
    """As in plain_loops.c."""

    _fields_ = [(name, ctypes.c_double) for name in ("forward", "backward", "optimizer")]


def build():
    """Return the compiled loops, None where there is no gcc with OpenMP."""
    if shutil.which("gcc") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "plain_loops.so"
        source = Path(__file__).with_name("plain_loops.c")
        built = subprocess.run(["gcc", *FLAGS, source, "-o", library, "-lm"], capture_output=True, check=False)
        return ctypes.CDLL(str(library)) if built.returncode == 0 else None


def doubles(values):
    """An array of float64 and a pointer to it; the array must be kept as long as the pointer."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    return array, array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def run(library, job, axes):
    """Return the scaling factors of a job by the loop of its schedule: shape (compression, latency, bandwidth).

    The cluster is one ring of single accelerators. Vector additions are the definition's cost over a free network.
    """
    workload, method, workers = job.workload, job.method, job.cluster.nodes
    add = message_cost(workload, Cluster(workers, Link(float("inf"))), method)
    grids = [doubles(axes.get(name, [value])) for name, value in (("compression", 1.0), ("latency", 0.0))]
    grids.append(doubles(axes["bandwidth"]))
    networks = Networks(*(len(array) for array, _ in grids), *(pointer for _, pointer in grids))
    compute = Compute(workload.forward_s, workload.backward_s, workload.optimizer_s)
    sizes = [tensor.size for tensor in workload.tensors]
    kept = []  # arrays stay alive until the loop is done

    def pointer(values):
        array, address = doubles(values)
        kept.append(array)
        return address

    out = np.empty([len(array) for array, _ in grids])
    address = out.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    number, count = ctypes.c_double, ctypes.c_long
    if method.schedule == "mg-wfbp":
        table = np.zeros((len(sizes), len(sizes)))
        for first in range(len(sizes)):
            for end in range(first, len(sizes)):
                table[first, end] = add(float(sum(sizes[first : end + 1])))
        arrays = (pointer(sizes), pointer(workload.ready_s), pointer(table))
        library.mg_wfbp(networks, compute, count(workers), count(len(sizes)), *arrays, number(add(0.0)), address)
        return out
    planned = planned_messages(workload, method)
    columns = ([m.size for m in planned], [m.ready_s for m in planned], [add(m.size) for m in planned])
    arrays = tuple(pointer(column) for column in columns)
    if method.schedule == "priority":
        tensors = (ctypes.c_long * len(planned))(*(m.tensors[-1] for m in planned))
        library.priority(
            *(networks, compute, count(workers), count(len(planned)), *arrays, tensors, number(method.credit_bytes)),
            *(count(len(sizes)), pointer(sizes), pointer(workload.forward_gaps_s), address),
        )
    else:
        library.fifo(networks, compute, count(workers), count(len(planned)), *arrays, address)
    return out
