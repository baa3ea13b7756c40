"""Built-in workloads against the papers' totals."""

import hashlib
from fractions import Fraction

import pytest

from wirebound.errors import InputError
from wirebound.model.architectures import backward_order, forward_flops
from wirebound.model.library import builtin_names, builtin_workload, published_file, read_published

MEASURED = {"resnet50": ("102.23", 161), "resnet101": ("178.20", 314), "vgg16": ("553.46", 58)}
AUTHORS_TABLE = {
    "resnet50": "05f50de933d8677af2487374d186e9694048e16eadffcb50ec91a2a017edca6d",
    "resnet101": "ef19312142f9a6d98da12678dc53008f1ea5ce7df99213f0431e5c383f42ecb9",
    "vgg16": "8234e1d0c346256cb1335a030c5b1417172cf9e771c7023489facb0a9492500f",
}
ITERATION_S = {"resnet50": 0.128085802, "resnet101": 0.192005995, "vgg16": 0.194523523}


@pytest.mark.parametrize("name", MEASURED)
def test_sizes_that_zhang_et_al_state(name: str) -> None:
    workload = builtin_workload(name)
    megabytes, tensors = MEASURED[name]
    assert f"{workload.size / 1e6:.2f}" == megabytes
    assert len(workload.tensors) == tensors
    assert [(t.name, t.size) for t in workload.tensors] == [(p.name, p.size) for p in backward_order(name)]


@pytest.mark.parametrize("name", MEASURED)
def test_one_step_takes_the_published_iteration_time(name: str) -> None:
    workload = builtin_workload(name)
    assert workload.timing == "measured"
    assert workload.compute_s == pytest.approx(ITERATION_S[name], rel=1e-12)
    gaps = sum(Fraction(row["gap_us"]) for row in read_published("zhang2020_backward.csv") if row["workload"] == name)
    assert workload.backward_s == pytest.approx(float(gaps / 10**6), rel=1e-12)
    assert len(workload.vector_add) == 25


@pytest.mark.parametrize("name", ["bert-base", "bert-large"])
def test_estimates_are_labelled_and_proportional_to_operations(name: str) -> None:
    workload = builtin_workload(name)
    assert workload.timing == "flop-proportional"
    assert "201" in workload.source or "202" in workload.source
    assert workload.backward_s == pytest.approx(2 * workload.forward_s)
    flops: dict[str, int] = {}
    for parameter in backward_order(name):
        flops[parameter.layer] = flops.get(parameter.layer, 0) + parameter.forward_flops
    gaps: dict[str, float] = {}
    for tensor in workload.tensors:
        layer = tensor.name.rpartition(".")[0]
        assert layer not in gaps or tensor.gap_s == 0, "a layer's gradients become ready together"
        gaps[layer] = gaps.get(layer, 0.0) + tensor.gap_s
    assert gaps == pytest.approx(
        {layer: workload.backward_s * count / forward_flops(name) for layer, count in flops.items()}
    )


@pytest.mark.parametrize(("name", "batch_size", "per_second"), [("bert-base", 64, 212.8), ("bert-large", 8, 49.0)])
def test_bert_reaches_the_published_throughput_of_one_gpu(name: str, batch_size: int, per_second: float) -> None:
    workload = builtin_workload(name)
    assert workload.batch_size == batch_size
    assert workload.batch_size / workload.compute_s == pytest.approx(per_second)


def test_resnet18_takes_what_was_published_of_it() -> None:
    """PipeDream's profile of ResNet-18: 152.3 ms backward for 256 images, typed from its graph file."""
    workload = builtin_workload("resnet18")
    assert (workload.timing, workload.batch_size, workload.size) == ("flop-estimated", 32, 46_758_048)
    rows = [row for row in read_published("layer_times.csv") if row["series"] == "pipedream-resnet18"]
    published_s = sum(float(row["backward_us"]) for row in rows) * 1e-6
    assert published_s == pytest.approx(0.1523, rel=1e-3)
    per_image = [workload.backward_s / 32, published_s / 256]
    assert max(per_image) / min(per_image) < 1.2
    # A network of 44 % of ResNet-50's operations takes less of its backward than that: it moves less data for each.
    large = builtin_workload("resnet50")
    assert workload.backward_s / large.backward_s < forward_flops("resnet18") / forward_flops("resnet50") < 0.45


@pytest.mark.parametrize(("wrong", "right"), [("resnet-50", "resnet50"), ("BERT_base", "bert-base"), ("vgg", "vgg16")])
def test_misspelt_workload_names_the_closest(wrong: str, right: str) -> None:
    with pytest.raises(InputError, match=f"unknown workload '{wrong}': did you mean '{right}'"):
        builtin_workload(wrong)


def test_unknown_table_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no published table 'x\.csv': there are all_reduce_times\.csv, "):
        published_file("x.csv")


def test_every_builtin_workload_loads() -> None:
    assert [builtin_workload(name).name for name in builtin_names()] == list(builtin_names())


@pytest.mark.parametrize("name", MEASURED)
def test_every_tensor_has_its_published_bytes_and_gap(name: str) -> None:
    rows = [row for row in read_published("zhang2020_backward.csv") if row["workload"] == name]
    assert [int(row["ready_order"]) for row in rows] == list(range(len(rows)))
    tensors = builtin_workload(name).tensors
    assert [tensor.size for tensor in tensors] == [int(row["size_bytes"]) for row in rows]
    assert [tensor.gap_s * 1e6 for tensor in tensors] == pytest.approx([float(row["gap_us"]) for row in rows])
    # Digest of the lines "bytes,gap" of the authors' own table, made apart from this package.
    lines = "".join(f"{int(row['size_bytes'])},{float(row['gap_us'])!r}\n" for row in rows)
    assert hashlib.sha256(lines.encode()).hexdigest() == AUTHORS_TABLE[name]
