"""Times from operations: known costs are found, the total is kept, and measured networks are predicted from others."""

import csv
import dataclasses
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize

from wirebound.errors import InputError
from wirebound.fit.flops import (
    IMAGE_NETWORKS,
    TERMS,
    estimated_workload,
    fit_layer_cost,
    held_out_errors,
    layer_cost,
    published_series,
)
from wirebound.model.architectures import parameters_of
from wirebound.model.layer_cost import BACKWARD, FORWARD
from wirebound.model.library import builtin_workload, read_published
from wirebound.study.data import load_table


def reference_layers():
    """The folder of the sources' own files, where this checkout has one beside it."""
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "reference" / "layers").is_dir():
            return folder / "shared" / "reference" / "layers"
    return None


def layers(count=200, seed=0):
    rng = np.random.default_rng(seed)
    return 10 ** rng.uniform(8, 11, count), 10 ** rng.uniform(5, 7.5, count), rng


def test_a_known_cost_is_found():
    flops, values, rng = layers()
    exact = 8e-14 * flops + 4e-11 * values + 1e-4
    cost = fit_layer_cost(flops, values, exact)
    assert [cost.per_flop_s, cost.per_value_s, cost.per_layer_s] == pytest.approx([8e-14, 4e-11, 1e-4], rel=1e-6)
    noisy = fit_layer_cost(flops, values, exact * rng.gamma(25, 1 / 25, len(exact)))
    assert [noisy.per_flop_s, noisy.per_value_s, noisy.per_layer_s] == pytest.approx([8e-14, 4e-11, 1e-4], rel=0.25)


@pytest.mark.parametrize("terms", [("rate",), ("rate", "overhead"), TERMS])
def test_the_total_is_kept_and_a_general_solver_agrees(terms):
    flops, values, rng = layers(60, seed=1)
    times = (1e-13 * flops + 3e-11 * values + 5e-5) * rng.lognormal(0, 0.5, len(flops))
    cost = fit_layer_cost(flops, values, times, terms=terms)
    fitted = np.array([cost.time_s(f, v) for f, v in zip(flops, values, strict=True)])
    assert fitted.sum() == pytest.approx(times.sum(), rel=1e-6)
    # Score of the quasi-likelihood with variance in proportion to the mean is that of a Poisson likelihood.
    scale = {"rate": 1e-13, "traffic": 3e-11, "overhead": 5e-5}
    columns = {"rate": flops, "traffic": values, "overhead": np.ones(len(flops))}
    design = np.column_stack([columns[term] * scale[term] for term in terms])

    def loss(logs):
        mean = design @ np.exp(logs)
        return 1e3 * float(np.sum(mean - times * np.log(mean)))

    best = scipy.optimize.minimize(
        loss, np.zeros(len(terms)), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 0, "maxfev": 4000}
    )
    found = [
        {"rate": cost.per_flop_s, "traffic": cost.per_value_s, "overhead": cost.per_layer_s}[t] / scale[t]
        for t in terms
    ]
    assert found == pytest.approx(np.exp(best.x), rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "options", "part"),
    [
        (([1.0], [1.0, 2.0], [1.0]), {}, "1 operations, 2 values"),
        (([1.0], [1.0], [1.0]), {}, "1 layers do not fix 3 terms"),
        (([1.0] * 4, [1.0] * 4, [0.0] * 4), {}, "no times"),
        (([1.0] * 4, [1.0] * 4, [1.0] * 4), {"terms": ("speed",)}, "unknown term 'speed'"),
        (([1.0] * 4, [1.0] * 4, [1.0] * 4), {"terms": ()}, "do not fix 0 terms"),
    ],
)
def test_what_cannot_be_fitted_is_named(arguments, options, part):
    with pytest.raises(InputError, match=part):
        fit_layer_cost(*arguments, **options)


def test_series_hold_the_published_networks():
    series = {one.name: one for one in published_series()}
    assert set(series) == {
        *(f"pipedream-{name}" for name in ("alexnet", "vgg16", "resnet18", "resnet50")),
        *(f"espresso-{name}" for name in ("vgg16", "resnet50", "resnet101", "bert-base", "bert-large")),
        *(f"zhang-{name}" for name in ("resnet50", "resnet101", "vgg16")),
    }
    for name in ("resnet50", "resnet101", "vgg16"):
        assert series[f"zhang-{name}"].backward_s == pytest.approx(builtin_workload(name).backward_s)
    # Three laboratories, one network: backward of one image of ResNet-50 on a GPU of that time.
    per_image = [
        series[name].backward_s / batch
        for name, batch in (("zhang-resnet50", 32), ("espresso-resnet50", 32), ("pipedream-resnet50", 128))
    ]
    assert max(per_image) / min(per_image) < 1.05


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet101", "bert-large"])
def test_operations_of_the_table_are_those_of_the_architectures(name):
    own = defaultdict(int)
    for parameter in parameters_of(name):
        own[parameter.layer] += parameter.forward_flops
    for series in ("pipedream", "espresso"):
        rows = [row for row in read_published("layer_times.csv") if row["series"] == f"{series}-{name}"]
        known = [int(row["forward_flops"]) for row in rows if series == "pipedream" or row["layer"] in own]
        if series == "pipedream":
            assert sorted(known) in ([], sorted(own.values()))
        else:
            assert known == [own[row["layer"]] for row in rows if row["layer"] in own]


def test_values_of_a_convolution_are_its_operations_by_its_inputs():
    """Of ResNet-50's first convolution 112 × 112 × 64 values, of its last normalization 7 × 7 × 2048."""
    rows = {row["layer"]: row for row in read_published("layer_times.csv") if row["series"] == "espresso-resnet50"}
    assert int(rows["conv1"]["output_values"]) == 112 * 112 * 64
    assert int(rows["layer4.2.bn3"]["output_values"]) == 7 * 7 * 2048
    zhang = next(one for one in published_series() if one.name == "zhang-resnet50")
    assert zhang.layers[-1].values == 32 * 112 * 112 * 64
    assert [layer.flops for layer in zhang.layers] == [32 * int(row["forward_flops"]) for row in rows.values()]


def test_networks_are_predicted_from_others():
    full = {error.series: error for error in held_out_errors()}
    rate = {error.series: error for error in held_out_errors(("rate",))}
    assert set(full) == set(rate) == {series.name for series in published_series()}
    known = [name for name, error in full.items() if error.total_error is not None]
    assert sorted(set(full) - set(known)) == ["espresso-bert-base", "espresso-bert-large"]

    def mean(errors, what):
        return np.mean([abs(getattr(errors[name], what)) for name in known])

    # Three terms beat operations alone by far, in the total and in the curve; the bounds leave no room for worse.
    assert mean(full, "total_error") < 0.16 < 0.5 < mean(rate, "total_error")
    assert mean(full, "curve_error") < 0.105 < 0.16 < mean(rate, "curve_error")
    for name in ("espresso-bert-base", "espresso-bert-large"):
        assert full[name].curve_error < 0.035
        assert rate[name].curve_error < 0.035


def test_a_calibration_leaves_the_network_out():
    assert layer_cost(without=("vgg16",)) != layer_cost()
    assert layer_cost("forward").per_flop_s < layer_cost("backward").per_flop_s
    with pytest.raises(InputError, match="unknown direction 'sideways'"):
        layer_cost("sideways")
    with pytest.raises(InputError, match="no published forward times are left"):
        layer_cost("forward", without=("alexnet", "vgg16", "resnet18", "resnet50"))


def test_an_estimated_workload_is_labelled_and_near_what_was_measured():
    measured = builtin_workload("resnet50")
    estimated = estimated_workload("resnet50", 32, without=("resnet50",))
    assert estimated.timing == "flop-estimated"
    assert [(t.name, t.size) for t in estimated.tensors] == [(t.name, t.size) for t in measured.tensors]
    assert estimated.backward_s == pytest.approx(measured.backward_s, rel=0.25)
    # Zhang et al. count everything before backward as forward, the loading of images too.
    assert 0.4 < estimated.forward_s / measured.forward_s < 1
    # ResNet-18 measured by PipeDream at 256 images, estimated without it: within a tenth.
    measured_s = sum(
        float(r["backward_us"]) for r in read_published("layer_times.csv") if r["series"] == "pipedream-resnet18"
    )
    assert estimated_workload("resnet18", 256, without=("resnet18",)).backward_s == pytest.approx(
        measured_s * 1e-6, rel=0.1
    )
    for name in IMAGE_NETWORKS:
        assert estimated_workload(name).size == builtin_workload(name).size
    with pytest.raises(InputError, match="unknown network to estimate 'bert-base'"):
        estimated_workload("bert-base")


def test_the_costs_that_ship_are_those_of_the_calibration():
    forward, backward = layer_cost("forward"), layer_cost("backward")
    assert dataclasses.astuple(BACKWARD) == pytest.approx(dataclasses.astuple(backward), rel=1e-5)
    assert (FORWARD.per_flop_s, FORWARD.per_value_s) == pytest.approx(
        (forward.per_flop_s, forward.per_value_s), rel=1e-5
    )
    assert FORWARD.per_layer_s == 0
    shipped, estimated = builtin_workload("resnet18"), estimated_workload("resnet18", 32)
    assert shipped.compute_s == pytest.approx(estimated.compute_s, rel=1e-5)
    assert shipped.ready_s == pytest.approx(estimated.ready_s, rel=1e-5)


def test_the_table_agrees_with_its_sources():
    folder = reference_layers()
    if folder is None:
        pytest.skip("the reference files are not beside this checkout")
    table = load_table("layer_times")
    with (folder / "espresso_v100_grad_ready.csv").open(encoding="utf-8", newline="") as file:
        gaps = defaultdict(float)
        for row in csv.DictReader(file):
            gaps[row["model"]] += float(row["gap_us_since_prev_tensor_ready"])
    for series, model in (
        ("vgg16", "vgg16"),
        ("resnet101", "resnet101"),
        ("bert-base", "bert"),
        ("bert-large", "bert_large"),
    ):
        assert table[table["series"] == f"espresso-{series}"]["backward_us"].sum() == gaps[model]
    for network in ("alexnet", "vgg16", "resnet50"):
        text = (folder / f"{network}_graph.txt").read_text(encoding="utf-8")
        total = sum(float(ms) for ms in re.findall(r"backward_compute_time=([\d.]+)", text))
        assert table[table["series"] == f"pipedream-{network}"]["backward_us"].sum() == pytest.approx(1000 * total)
