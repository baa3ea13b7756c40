"""The sweep against the definition on random jobs, against published arithmetic, and against itself cut up."""

import itertools
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.model import METHODS, Cluster, Link, Method, method_named
from wirebound.model.library import builtin_workload, read_published
from wirebound.simulate.all_reduces import COLLECTIVES, FLAT_RING
from wirebound.simulate.collectives import ALL_REDUCES
from wirebound.simulate.job import TrainingJob
from wirebound.simulate.step import simulate_step
from wirebound.simulate.sweep import QUANTITIES, sweep, sweep_table
from wirebound.simulate.sweep_axes import AXES, job_at
from wirebound.simulate.sweep_range import Grid, compute_range
from wirebound.study.zhang2020 import exact_scaling_factor

from .jobs import clusters, made, workloads

RESNET = builtin_workload("resnet50")
CLUSTER = Cluster(64, Link(1.25e9))
WFBP = method_named("wfbp-a2a")


def random_workload(seed, count):
    """Up to hundreds of tensors as real networks have them: sizes over six orders, many gaps of nothing."""
    draw = random.Random(seed)
    gaps = [draw.choice([0.0, draw.expovariate(1e4), draw.expovariate(1e3)]) for _ in range(count)]
    sizes = [draw.choice([4, 64, 8192, int(10 ** draw.uniform(0, 7))]) for _ in range(count)]
    table = sorted((10 ** draw.uniform(0, 8), draw.uniform(0, 1e-4)) for _ in range(draw.choice([0, 1, 9])))
    forwards = [draw.uniform(0, 1e-3) for _ in range(count)] if draw.random() < 0.5 else None
    return made(gaps, sizes, draw.uniform(1e-3, 0.1), draw.choice([0.0, 0.01]), forwards, table)


many_tensors = st.builds(random_workload, st.integers(0, 10**6), st.integers(1, 200))
methods = st.builds(
    lambda name, changes: method_named(name, **changes),
    st.sampled_from(sorted(METHODS)),
    st.fixed_dictionaries(
        {},
        optional={
            "collective": st.sampled_from([*COLLECTIVES]),
            "merge_below_bytes": st.sampled_from([0.0, 32768.0]),
            "partition_bytes": st.floats(1e6, 1e7),
            "credit_bytes": st.floats(1e5, 1e8),
            "bucket_cap_bytes": st.floats(1e4, 1e8),
            "servers": st.integers(0, 9),
            "colocated": st.booleans(),
            "push_pull_overlap": st.floats(0, 1),
            "incast": st.sampled_from([0.0, 0.5]),
        },
    ),
)
axis = {
    "compression": st.lists(st.floats(1, 100), min_size=1, max_size=2),
    "bandwidth": st.lists(st.floats(1e6, 1e11), min_size=1, max_size=3),
    "latency": st.lists(st.sampled_from([0.0, 1e-5]) | st.floats(0, 1e-3), min_size=1, max_size=2),
    "utilization": st.lists(st.floats(0.1, 1), min_size=1, max_size=2),
    "nodes": st.lists(st.integers(1, 300), min_size=1, max_size=2),
    "accelerators_per_node": st.lists(st.integers(1, 8), min_size=1, max_size=2),
    "intra_bandwidth": st.lists(st.floats(1e8, 1e12), min_size=1, max_size=2),
    "intra_latency": st.lists(st.floats(0, 1e-4), min_size=1, max_size=2),
}


def defined(job, quantities=tuple(QUANTITIES)):
    """The quantities of one job by the definition."""
    step = simulate_step(
        job.workload,
        job.cluster,
        job.method,
        include_vector_add=job.include_vector_add,
        accumulation=job.accumulation,
    )
    return {quantity: getattr(step, quantity) for quantity in quantities}


def check_all(job, axes, dataset):
    """Every configuration of a sweep against the definition."""
    for indices in itertools.product(*(range(len(values)) for values in axes.values())):
        point = {name: values[index] for index, (name, values) in zip(indices, axes.items(), strict=True)}
        for quantity, value in defined(job_at(job, point)).items():
            found = dataset[quantity].to_numpy()[indices]
            assert found == pytest.approx(value, rel=1e-9, abs=0), (quantity, point)


@settings(deadline=None, max_examples=150)
@given(
    workloads | many_tensors,
    clusters,
    methods,
    st.fixed_dictionaries({}, optional=axis),
    st.booleans(),
    st.integers(1, 3),
)
def test_equals_the_definition(workload, cluster, method, axes, include_vector_add, accumulation):
    options = {"include_vector_add": include_vector_add, "accumulation": accumulation}
    dataset = sweep(workload, cluster, method, axes=axes, quantities=tuple(QUANTITIES), **options)
    check_all(TrainingJob(workload, cluster, method, **options), axes, dataset)


@pytest.mark.parametrize("name", [*ALL_REDUCES, FLAT_RING])
@pytest.mark.parametrize("method", ["horovod", "mg-wfbp", "bytescheduler-a2a"])
def test_every_registered_all_reduce_compiles(name, method, monkeypatch):
    monkeypatch.setattr("wirebound.simulate.sweep_range._define", None)  # no way around the kernels
    axes = {"nodes": [2, 3, 16], "bandwidth": [1e8, 1.25e9], "latency": [0.0, 5e-5], "accelerators_per_node": [1, 4]}
    method = method_named(method, collective=name)
    dataset = sweep(RESNET, CLUSTER, method, axes=axes, quantities=tuple(QUANTITIES))
    check_all(TrainingJob(RESNET, CLUSTER, method), axes, dataset)


def test_axes_that_change_the_messages():
    axes = {
        "batch": [8, 32],
        "method": ["ddp", "mg-wfbp", method_named("bytescheduler-ps", servers=3)],
        "bucket_cap_bytes": [1e6, 25e6],
        "workload": ["resnet18", RESNET],
        "gradient_dtype": ["fp16", "fp32"],
        "accumulation": [1, 2],
        "workers": [8, 32],
        "accelerators_per_node": [2, 4],
        "bandwidth": [1e9],
    }
    dataset = sweep(RESNET, CLUSTER, WFBP, axes=axes, quantities=tuple(QUANTITIES))
    check_all(TrainingJob(RESNET, CLUSTER, WFBP), axes, dataset)
    assert dataset["scaling_factor"].dims == tuple(axes)
    assert dataset["method"].values.tolist() == ["ddp", "mg-wfbp", "bytescheduler-ps"]
    assert dataset["workload"].values.tolist() == ["resnet18", "resnet50"]


def test_several_network_cards():
    axes = {"accelerators_per_node": [8], "nics_per_node": [1, 2, 8], "nodes": [1, 4], "bandwidth": [1e9]}
    for method in (WFBP, method_named("wfbp-ps"), method_named("horovod", collective=FLAT_RING)):
        dataset = sweep(RESNET, CLUSTER, method, axes=axes, quantities=tuple(QUANTITIES))
        check_all(TrainingJob(RESNET, CLUSTER, method), axes, dataset)


def test_what_no_kernel_knows_goes_through_the_definition():
    method = method_named("mg-wfbp", partition_bytes=5e6)
    axes = {"nodes": [1, 8], "bandwidth": [1e9, 1e10], "compression": [1.0, 3.0]}
    dataset = sweep(RESNET, CLUSTER, method, axes=axes, quantities=tuple(QUANTITIES))
    check_all(TrainingJob(RESNET, CLUSTER, method), axes, dataset)


def test_compressors_are_an_axis():
    axes = {"compressor": [None, "topk:0.01", "powersgd:4"], "nodes": [2, 8], "bandwidth": [1e9, 1e10]}
    dataset = sweep(RESNET, CLUSTER, WFBP, axes=axes, quantities=tuple(QUANTITIES))
    check_all(TrainingJob(RESNET, CLUSTER, WFBP), axes, dataset)
    assert dataset["compressor"].values.tolist() == ["none", "topk:0.01", "powersgd:4"]


def test_what_if_table_of_zhang_et_al():
    rows = read_published("zhang2020_whatif_resnet50.csv")
    axes = {
        "workers": [16, 32, 64],
        "bandwidth": [g * 125e6 for g in (1, 10, 25, 40, 100)],
        "compression": [1, 2, 5, 10, 50, 100],
    }
    table = sweep(RESNET, CLUSTER, method_named("horovod"), axes=axes)["scaling_factor"]
    assert len(rows) == table.size
    for row in rows:
        gpus, gbps, ratio = int(row["gpus"]), int(row["link_gbps"]), int(row["compression"])
        found = table.sel(workers=gpus, bandwidth=gbps * 125e6, compression=ratio).item()
        assert found == pytest.approx(float(exact_scaling_factor("resnet50", gpus, gbps, ratio)), rel=1e-12)
        assert found == pytest.approx(float(row["scaling_percent"]) / 100, abs=1.5e-5)


CUT = {
    "method": ["horovod", "mg-wfbp", "bytescheduler-a2a"],
    "nodes": [1, 4, 9],
    "bandwidth": np.geomspace(1e8, 1e11, 61),
}


@pytest.mark.parametrize("chunk", [1, 7, 61, 100, 10**6])
def test_chunks_change_nothing(chunk):
    whole = sweep(RESNET, CLUSTER, WFBP, axes=CUT, quantities=("iteration_s", "communication_s"))
    assert sweep(RESNET, CLUSTER, WFBP, axes=CUT, quantities=("iteration_s", "communication_s"), chunk=chunk).identical(
        whole
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 548), st.integers(1, 549))
def test_any_range_is_that_part_of_the_whole(start, length):
    grid = Grid(TrainingJob(RESNET, CLUSTER, WFBP), CUT, ("iteration_s",))
    whole = sweep(RESNET, CLUSTER, WFBP, axes=CUT, quantities=("iteration_s",))["iteration_s"].to_numpy().ravel()
    stop = min(549, start + length)
    assert compute_range(grid, start, stop)[0].tolist() == whole[start:stop].tolist()


def test_more_networks_than_a_block_holds():
    bandwidths = np.geomspace(1e7, 1e11, 700)
    for name in ("horovod", "mg-wfbp"):
        axes = {"compression": [1.0, 4.0], "bandwidth": bandwidths, "utilization": [1.0, 0.5]}
        found = sweep(RESNET, CLUSTER, method_named(name), axes=axes, chunk=1501)["scaling_factor"]
        for ratio, index, share in ((0, 3, 1), (0, 511, 0), (1, 0, 0), (1, 699, 1), (1, 333, 1)):
            cluster = Cluster(64, Link(float(bandwidths[index]), 0.0, (1.0, 0.5)[share]))
            step = simulate_step(RESNET, cluster, method_named(name, compression=(1.0, 4.0)[ratio]))
            assert found.to_numpy()[ratio, index, share] == pytest.approx(step.scaling_factor, rel=1e-9)


def test_tables():
    axes = {"method": ["bsp-a2a", "mg-wfbp"], "workers": [16, 64], "bandwidth": [1.25e8, 1.25e9, 1.25e10]}
    tidy = sweep_table(RESNET, CLUSTER, WFBP, axes=axes)
    assert list(tidy.columns) == ["method", "workers", "bandwidth", "scaling_factor"]
    assert len(tidy) == 12
    reduced = sweep_table(
        RESNET, CLUSTER, WFBP, axes=axes, over="method", statistics=("min", "mean", "q25", "max", "best")
    )
    assert list(reduced.columns) == ["workers", "bandwidth", "min", "mean", "q25", "max", "best"]
    for row in reduced.itertuples():
        both = (
            tidy[(tidy.workers == row.workers) & (tidy.bandwidth == row.bandwidth)].set_index("method").scaling_factor
        )
        low, high = sorted(both)
        assert (row.min, row.max, row.best) == (low, high, both.idxmax())
        assert row.mean == pytest.approx((low + high) / 2)
        assert row.q25 == pytest.approx(low + (high - low) / 4)
    slowest = sweep_table(
        RESNET, CLUSTER, WFBP, axes=axes, over=("workers", "bandwidth"), statistics=("max",), quantity="iteration_s"
    )
    assert slowest["method"].tolist() == ["bsp-a2a", "mg-wfbp"]
    best = sweep_table(
        RESNET,
        CLUSTER,
        WFBP,
        axes={"bandwidth": [1e9, 1e10]},
        over="bandwidth",
        statistics=("best",),
        quantity="iteration_s",
    )
    assert best["best"].tolist() == [1e10]


def test_a_table_made_in_parts_is_the_same(monkeypatch):
    axes = {"bandwidth": np.geomspace(1e8, 1e11, 11), "nodes": [2, 4, 8]}
    whole = sweep_table(RESNET, CLUSTER, WFBP, axes=axes, over="nodes", statistics=("mean", "best"))
    monkeypatch.setattr("wirebound.simulate.sweep.SLAB", 7)
    parts = sweep_table(RESNET, CLUSTER, WFBP, axes=axes, over="nodes", statistics=("mean", "best"))
    assert parts.equals(whole)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"bandwith": [1e9]}, "unknown axis 'bandwith': did you mean 'bandwidth'"),
        ({"bandwidth": []}, "axis 'bandwidth' is empty"),
        ({"bandwidth": 1e9}, "axis 'bandwidth' must be a list of values, such as"),
        ({"method": "ddp"}, "axis 'method' must be a list of values, such as"),
        ({"bandwidth": [1e9, float("nan")]}, "axis 'bandwidth' has NaN at position 1"),
        ({"latency": np.array([0.0, np.nan])}, "axis 'latency' has NaN at position 1"),
        ({"bandwidth": [1e9, -1.0]}, "axis 'bandwidth': bandwidth -1.0 B/s must be greater than zero"),
        ({"latency": [0.0, -1e-6, 1.0]}, "axis 'latency': latency -1e-06 s must be finite and not negative"),
        ({"utilization": [0.5, 1.5]}, "axis 'utilization': utilization 1.5"),
        ({"compression": [0.5, 2]}, "axis 'compression': compression ratio 0.5"),
        ({"compression": [2, "5"]}, "axis 'compression' has the value '5', which is not a number"),
        ({"nodes": [2.5]}, "axis 'nodes' has the value 2.5: use whole numbers"),
        ({"nodes": [True, 2]}, "axis 'nodes' has the value True, which is not a number"),
        ({"nodes": [float("inf")]}, "axis 'nodes' has an infinite value"),
        ({"nodes": [0, 4]}, "axis 'nodes': nodes = 0 must be at least 1"),
        ({"nodes": [2], "workers": [4]}, "axes 'nodes' and 'workers' set the same thing"),
        ({"workers": [8, 9], "accelerators_per_node": [2]}, "axis 'workers': workers = 9 do not fill nodes of 2"),
        (
            {"nics_per_node": [2, 3], "accelerators_per_node": [4]},
            "axis 'nics_per_node': network cards per node = 3 must",
        ),
        ({"workload": ["resnet5"]}, "axis 'workload': unknown workload 'resnet5': did you mean"),
        ({"workload": [5]}, "axis 'workload' cannot take the value 5"),
        ({"method": ["mgwfbp"]}, "axis 'method': unknown method 'mgwfbp'"),
        ({"gradient_dtype": ["fp12"]}, "axis 'gradient_dtype': unknown gradient type 'fp12'"),
        ({"batch": [0]}, "axis 'batch': workload 'resnet50': "),
        ({"accumulation": [0]}, "axis 'accumulation': accumulation 0 must be at least 1"),
        ({"credit_bytes": [0.0]}, "axis 'credit_bytes': credit 0.0 B must be greater than zero"),
        ({"compressor": ["topk"]}, "axis 'compressor': compressor 'topk' needs"),
        ({"collective": ["rings"]}, "unknown collective 'rings'"),
    ],
)
def test_a_wrong_axis_is_named(axes, message):
    with pytest.raises(InputError) as caught:
        sweep(RESNET, CLUSTER, WFBP, axes=axes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_options_are_named():
    with pytest.raises(InputError, match="unknown quantity 'speed'"):
        sweep(RESNET, CLUSTER, WFBP, axes={}, quantities=["speed"])
    with pytest.raises(InputError, match="quantities must be a list"):
        sweep(RESNET, CLUSTER, WFBP, axes={}, quantities="scaling_factor")
    with pytest.raises(InputError, match="chunk = 0"):
        sweep(RESNET, CLUSTER, WFBP, axes={}, chunk=0)
    axes = {"nodes": [2, 4], "bandwidth": [1e9]}
    with pytest.raises(InputError, match="unknown axis to reduce over 'workers'"):
        sweep_table(RESNET, CLUSTER, WFBP, axes=axes, over="workers")
    with pytest.raises(InputError, match="unknown statistic 'q5'"):
        sweep_table(RESNET, CLUSTER, WFBP, axes=axes, over="nodes", statistics=["q5"])
    with pytest.raises(InputError, match="'best' names a value of one axis, not of 2"):
        sweep_table(RESNET, CLUSTER, WFBP, axes=axes, over=("nodes", "bandwidth"), statistics=["best"])


def test_every_number_of_a_method_is_an_axis():
    assert {"compression", "partition_bytes", "credit_bytes", "bucket_cap_bytes", "servers", "collective"} <= set(AXES)


def test_no_axes_are_one_configuration():
    step = simulate_step(RESNET, CLUSTER, Method("m", "all-reduce", "wfbp"))
    assert sweep(RESNET, CLUSTER, WFBP, axes={})["scaling_factor"].item() == step.scaling_factor


@pytest.mark.parametrize(
    ("processes", "names"),
    [(False, ["horovod", "mg-wfbp", "bytescheduler-a2a"]), (True, ["horovod", "ddp"])],
    ids=["threads", "processes"],
)
def test_dask_workers_compute_the_same(processes, names, tmp_path):
    import dask
    from distributed import Client, LocalCluster

    options = {"axes": CUT | {"method": names}}
    here = sweep(RESNET, CLUSTER, WFBP, quantities=("iteration_s", "link_utilization"), **options)
    table = sweep_table(RESNET, CLUSTER, WFBP, over="method", statistics=("max", "best"), **options)
    with (
        dask.config.set({"temporary-directory": str(tmp_path)}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=processes, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        options |= {"chunk": 100, "client": client}
        there = sweep(RESNET, CLUSTER, WFBP, quantities=("iteration_s", "link_utilization"), **options)
        assert there.identical(here)
        again = sweep_table(RESNET, CLUSTER, WFBP, over="method", statistics=("max", "best"), **options)
        assert again.equals(table)


def test_the_cache_may_have_no_folder_to_be_in():
    code = (
        "from wirebound.simulate.sweep_kernels import compiled\n"
        "from wirebound.simulate.collectives import ring_all_reduce\n"
        "import numba.core.caching as c\n"
        "c.CacheImpl._locator_classes = []\n"
        "c.FunctionCache._impl_class._locator_classes = []\n"
        "print(compiled(ring_all_reduce)(8.0, 2, 1.0, 4.0))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("4.0\n", 0), done.stderr
