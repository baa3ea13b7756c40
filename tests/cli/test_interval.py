"""Intervals on the command line: fits, profiles and ranges as uncertain parameters of predict."""

import json
import math

import pytest

from wirebound.model import Cluster, Link, method_named
from wirebound.model.library import builtin_workload
from wirebound.profile.schema import Profile, TensorProfile, save_profile
from wirebound.simulate.step import simulate_step

JOB = ["--workload", "resnet50", "--gpus", "64", "--method", "ddp"]
#: A line of 1e-4 s + 1e-9 s/B among 4 ranks: links of 1e-4/6 s and 1.5e9 B/s.
FIT = {"schema": "wirebound-fit", "version": 1, "collective": "ring-allreduce", "ranks": 4, "flags": [], "verdict": ""}
FIT |= {"link_latency_s": 1e-4 / 6, "link_bandwidth_Bps": 1.5e9, "alpha_s": 1e-4, "beta_s_per_byte": 1e-9}
FIT |= {"bootstrap": {"alpha_s": [0.6e-4, 1.2e-4], "beta_s_per_byte": [2e-9, 0.5e-9]}}


@pytest.fixture
def fit_file(tmp_path):
    def write(**changes):
        path = tmp_path / "fit.json"
        content = {key: value for key, value in (FIT | changes).items() if value is not None}
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return write


def seconds(latency, bandwidth, workload="resnet50"):
    cluster = Cluster(64, Link(bandwidth, latency))
    return simulate_step(builtin_workload(workload), cluster, method_named("ddp")).iteration_s


def test_a_certain_job_has_no_interval(document, wirebound):
    assert document("predict", *JOB, "--bandwidth", "10 Gbps")["interval95"] is None
    assert "interval" not in wirebound("predict", *JOB, "--bandwidth", "10 Gbps")[1]


def test_the_pairs_of_a_fit_are_kept_together(document, wirebound, fit_file):
    fit = fit_file()
    found = document("predict", *JOB, "--network", fit)
    low, high = found["interval95"]["iteration_s"]
    # latency 1e-5 s with 7.5e8 B/s, and 2e-5 s with 3e9 B/s: by hand from the ring of 4
    assert (low, high) == pytest.approx((seconds(2e-5, 3e9), seconds(1e-5, 7.5e8)), rel=1e-12)
    assert low < found["iteration_s"] < high
    factors = found["interval95"]["scaling_factor"]
    assert factors == pytest.approx([found["compute_s"] / high, found["compute_s"] / low])
    covers = "the interval covers network from 2 resamples of its measurements, not the model's own error"
    assert covers in found["assumptions"]
    assert "95 % interval   iteration" in wirebound("predict", *JOB, "--network", fit)[1]


def test_a_fit_without_bootstrap_is_drawn_from_its_intervals(document, fit_file):
    fit = fit_file(bootstrap=None, alpha_ci95=[1e-4, 1e-4], beta_ci95=[0.5e-9, 2e-9])
    found = document("predict", *JOB, "--network", fit)
    bounds = seconds(1e-4 / 6, 3e9), seconds(1e-4 / 6, 7.5e8)
    assert found["interval95"]["iteration_s"] == pytest.approx(bounds, rel=0.02)
    assert any("its intervals of α and β, drawn independently" in phrase for phrase in found["assumptions"])
    empty = fit_file(bootstrap={"alpha_s": [], "beta_s_per_byte": []}, alpha_ci95=[0, None], beta_ci95=[0, None])
    assert document("predict", *JOB, "--network", empty)["interval95"] is None


def test_a_latency_that_is_given_replaces_the_fitted_one(document, fit_file):
    found = document("predict", *JOB, "--network", fit_file(), "--latency", "50 us")
    bounds = seconds(5e-5, 3e9), seconds(5e-5, 7.5e8)
    assert found["interval95"]["iteration_s"] == pytest.approx(bounds, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        (["--bandwidth", "8 Gbps..12 Gbps"], [(0, 12 - 0.1), (0, 8 + 0.1)]),
        (["--bandwidth", "10 Gbps", "--latency", "10 us..50 us"], [(11e-6, 10), (49e-6, 10)]),
    ],
)
def test_ranges(document, options, ends):
    found = document("predict", *JOB, *options, "--samples", "400")
    expected = [seconds(latency, gbps * 125e6) for latency, gbps in ends]
    assert found["interval95"]["iteration_s"] == pytest.approx(expected, rel=2e-3)
    middle = seconds(0 if "..12" in options[1] else 30e-6, 1.25e9)
    assert found["iteration_s"] == pytest.approx(middle, rel=1e-12)


def test_the_samples_are_the_same_again_and_others_with_another_seed(document):
    job = ["predict", *JOB, "--bandwidth", "8 Gbps..12 Gbps", "--samples", "20"]
    first = document(*job)["interval95"]
    assert document(*job)["interval95"] == first
    assert document(*job, "--seed", "1")["interval95"] != first


def test_the_steps_of_a_profile_make_an_interval(document, tmp_path):
    path = tmp_path / "mine.json"
    tensors = (TensorProfile("fc", 1000, 0, 1.0),)
    steps = {"backward_samples_s": (0.8, 1.0, 1.6), "steps": 3}
    save_profile(Profile("mine", "made", {}, batch_size=4, forward_s=1.0, tensors=tensors, **steps), path)
    job = ["--workload", path, "--gpus", "2", "--bandwidth", "1 kB/s", "--method", "bsp-a2a", "--samples", "300"]
    found = document("predict", *job)
    # 2 s of compute and 1 s of communication; the compute is 0.8, 1 or 1.6 times that
    assert found["iteration_s"] == pytest.approx(3.0)
    assert found["interval95"]["iteration_s"] == pytest.approx([2.6, 4.2])
    assert found["interval95"]["scaling_factor"] == pytest.approx([1.6 / 2.6, 3.2 / 4.2])


def test_commands_without_intervals_say_that_they_use_the_middle(document, wirebound):
    ranges = ["--bandwidth", "8 Gbps..12 Gbps", "--latency", "10 us..30 us"]
    question = ["need", *JOB, "--target", "0.9", "--solve", "compression"]
    code, out, err = wirebound(*question, *ranges, "--json")
    assert (code, err.splitlines()) == (
        0,
        [f"--{name} is a range: its middle is used" for name in ("bandwidth", "latency")],
    )
    certain = document(*question, "--bandwidth", "10 Gbps", "--latency", "20 us")
    assert json.loads(out)["value"] == certain["value"]
    code, _, err = wirebound("messages", *JOB, *ranges)
    assert (code, len(err.splitlines())) == (0, 2)


MISTAKES = [
    (["--bandwidth", "12 Gbps..8 Gbps"], "--bandwidth '12 Gbps..8 Gbps': the first value of a range must not exceed"),
    (["--bandwidth", "8..12 Gbps"], "--bandwidth: bandwidth '8' has no unit"),
    (["--bandwidth", "8 Gbps...10 Gbps"], "--bandwidth '8 Gbps...10 Gbps' is not a range: write two values"),
    (["--bandwidth", "8 Gbps..1e30 Gbps"], "bandwidth '1e30 Gbps' must be between 1 kbps and 1e12 Gbps"),
    (["--bandwidth", "8 Gbps.."], "--bandwidth '8 Gbps..' is not a range: write two values"),
    (["--bandwidth", "0 Gbps..8 Gbps"], "must be greater than zero"),
    (["--bandwidth", "1 Gbps..2 Gbps..3 Gbps"], "'1 Gbps..2 Gbps..3 Gbps' is not a range: write two values"),
    (["--bandwidth", "1 Gbps", "--latency", "2 us..1 us"], "--latency '2 us..1 us'"),
    (["--bandwidth", "1e-315 Gbps..1e-312 Gbps"], "must be between 1 kbps and"),
    (["--bandwidth", "1 Gbps", "--samples", "9"], "--samples 9 must be between 10 and 100,000"),
    (["--bandwidth", "1 Gbps", "--seed", "-1"], "--seed -1 must be between 0 and"),
]


@pytest.mark.parametrize(("options", "complaint"), MISTAKES, ids=[complaint for _, complaint in MISTAKES])
def test_mistakes_are_one_line(wirebound, options, complaint):
    code, out, err = wirebound("predict", *JOB, *options)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert complaint in err


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"bootstrap": 3}, "bootstrap.alpha_s = None must be a list of numbers"),
        ({"bootstrap": {"alpha_s": [1e-4], "beta_s_per_byte": []}}, "bootstrap has 1 values of alpha_s and 0 of beta"),
        ({"bootstrap": {"alpha_s": [-1.0], "beta_s_per_byte": [1e-9]}}, "bootstrap.alpha_s has -1.0: it must be"),
        ({"bootstrap": {"alpha_s": [True], "beta_s_per_byte": [1e-9]}}, "bootstrap.alpha_s has True"),
        ({"bootstrap": {"alpha_s": ["x"], "beta_s_per_byte": [1e-9]}}, "bootstrap.alpha_s has 'x'"),
        ({"bootstrap": {"alpha_s": [1e-4], "beta_s_per_byte": [math.nan]}}, "bootstrap.beta_s_per_byte has nan"),
        ({"bootstrap": {"alpha_s": [1e-4], "beta_s_per_byte": [math.inf]}}, "bootstrap.beta_s_per_byte has inf"),
        ({"bootstrap": {"alpha_s": [1e30], "beta_s_per_byte": [1e-9]}}, "bootstrap.alpha_s has 1e+30"),
        (
            {"bootstrap": {"alpha_s": [1e7], "beta_s_per_byte": [1e-9]}},
            "has 10000000.0: it must be between 0 and 1e+06",
        ),
        ({"alpha_s": math.nan}, "alpha_s = nan must be between 0 and 1e+06"),
        ({"alpha_s": -1}, "alpha_s = -1 must be between 0 and 1e+06"),
        ({"beta_s_per_byte": "x"}, "beta_s_per_byte = 'x' must be between 0 and 1e+06"),
        ({"link_latency_s": 1e5}, "link_latency_s = 100000 contradicts 2 resamples of its measurements: make it again"),
        ({"link_latency_s": 8 / 6 * 1e-4}, "link_latency_s = 0.000133333 contradicts 2 resamples"),
        ({"link_bandwidth_Bps": 1.5e9 * 8}, "link_bandwidth_Bps = 1.2e+10 contradicts 2 resamples"),
        ({"link_bandwidth_Bps": 1.5e9 / 8}, "link_bandwidth_Bps = 1.875e+08 contradicts 2 resamples"),
        ({"ranks": 1}, "ranks = 1 must be between 2 and"),
        ({"ranks": "four"}, "ranks = 'four' must be"),
        (
            {"bootstrap": None, "alpha_ci95": [2e-4, 3e-4], "beta_ci95": [1e-9, 1e-9]},
            "alpha_ci95 must be two numbers, around alpha_s = 0.0001",
        ),
        ({"bootstrap": None, "alpha_ci95": [0.0, 1e-3]}, "beta_ci95 = None must be a list"),
        ({"bootstrap": None, "alpha_ci95": [0.0], "beta_ci95": [0, 1]}, "alpha_ci95 must be two numbers"),
    ],
)
def test_a_damaged_fit_is_named(wirebound, fit_file, changes, complaint):
    code, out, err = wirebound("predict", *JOB, "--network", fit_file(**changes))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "fit.json: " in err
    assert complaint in err
    assert "wirebound fit PROFILE.json" in err
