"""Compute time over the batch: known lines under noise, floors, held-out errors, and what predict makes of them."""

import dataclasses
import json

import numpy as np
import pytest
import scipy.optimize

from wirebound.cli import main as cli
from wirebound.errors import InputError
from wirebound.fit.batches import fit_batch_scaling, fit_batch_times, scaling_errors
from wirebound.model.library import builtin_workload
from wirebound.profile.schema import BatchTiming, Profile, TensorProfile, save_profile

BATCHES = [1, 2, 4, 8, 16, 32]
FORWARD_S, BACKWARD_S = (0.004, 0.001), (0.002, 0.0025)


def samples(noise=0.0, steps=8):
    rng = np.random.default_rng(0)

    def times(line, batch):
        return tuple(((line[0] + line[1] * batch) * np.exp(noise * rng.laplace(size=steps))).tolist())

    return tuple(BatchTiming(b, times(FORWARD_S, b), times(BACKWARD_S, b)) for b in BATCHES)


def test_exact_lines_are_found():
    scaling = fit_batch_scaling(samples())
    for fit, (fixed_s, per_sample_s) in ((scaling.forward, FORWARD_S), (scaling.backward, BACKWARD_S)):
        assert fit.fixed_s == pytest.approx(fixed_s, rel=1e-6)
        assert fit.per_sample_s == pytest.approx(per_sample_s, rel=1e-6)
        assert fit.batches == tuple(BATCHES)
        assert fit.flags == ()
        assert "all 6 batch sizes" in fit.verdict
        assert fit.curves.best == "affine"
    assert scaling.doubts is None


def test_noisy_lines_lie_in_their_intervals_and_agree_with_plain_least_squares():
    scaling = fit_batch_scaling(samples(noise=0.01))
    for fit, (fixed_s, per_sample_s) in ((scaling.forward, FORWARD_S), (scaling.backward, BACKWARD_S)):
        assert fit.fixed_ci95[0] <= fixed_s <= fit.fixed_ci95[1]
        assert fit.per_sample_ci95[0] <= per_sample_s <= fit.per_sample_ci95[1]
        # No residual comes near the scale of the robust loss, so least squares on relative errors says the same.
        batches, times = np.array(fit.batches), np.array(fit.times_s)
        design = np.column_stack([np.ones(len(batches)), batches]) / times[:, None]
        plain, _ = scipy.optimize.nnls(design, np.ones(len(batches)))
        assert [fit.fixed_s, fit.per_sample_s] == pytest.approx(plain, rel=0.02)


def test_small_batches_that_do_not_fill_the_device_are_seen():
    batches = [1, 2, 4, 8, 16, 32, 64, 128]
    times = [max(0.02, 0.001 + 0.001 * batch) * (1 + 0.002 * (-1) ** batch) for batch in batches]
    fit = fit_batch_times(batches, times)
    assert fit.curves.best == "floor"
    assert fit.curves.fit.parameters["floor_s"] == pytest.approx(0.02, rel=0.01)
    assert fit.curves.fit.time_s(64) == pytest.approx(0.065, rel=0.02)
    assert "flat-small-batches" in fit.flags
    assert "batches up to 16 all take the same time" in fit.verdict


def test_a_batch_that_no_line_describes_is_named():
    fit = fit_batch_times(BATCHES, [0.01 + 0.001 * b * (2 if b == 8 else 1) for b in BATCHES])
    assert "large-residuals" in fit.flags
    assert "at the batches 8" in fit.verdict


@pytest.mark.parametrize(
    ("batches", "times", "flag"),
    [
        ([1, 8, 64], [0.1, 0.8, 6.4], "too-few-batches"),
        ([4, 5, 6, 7, 8], [0.4, 0.5, 0.6, 0.7, 0.8], "narrow-range"),
        ([1, 2, 4, 8, 16], [0.1, 0.13, 0.08, 0.12, 0.1], "per-sample-unresolved"),
    ],
)
def test_doubts_are_flagged(batches, times, flag):
    assert flag in fit_batch_times(batches, times).flags


def test_proportional_times_are_called_so():
    fit = fit_batch_times(BATCHES, [0.001 * batch for batch in BATCHES])
    assert fit.fixed_s == pytest.approx(0, abs=1e-8)
    assert "in proportion" in fit.verdict


def test_errors_of_scaling_in_proportion_by_hand():
    times = [0.004 + 0.001 * batch for batch in BATCHES]
    errors = scaling_errors(BATCHES, times, base=32)
    assert [error.batch for error in errors] == [1, 2, 4, 8, 16]
    # 36 ms at 32: in proportion 1.125 ms a sample, against 5 ms measured at batch 1, and 18 against 20 at 16.
    assert errors[0].proportional == pytest.approx(1.125 / 5 - 1)
    assert errors[-1].proportional == pytest.approx(18 / 20 - 1)
    assert all(abs(error.line) < 1e-6 for error in errors)


def test_wrong_batches_are_named():
    with pytest.raises(InputError, match="batch 0 must be at least 1"):
        fit_batch_times([0, 1], [0.1, 0.2])
    with pytest.raises(InputError, match="at least two sizes"):
        fit_batch_times([4, 4], [0.1, 0.2])
    with pytest.raises(InputError, match="batch 3 was not measured"):
        scaling_errors(BATCHES, [0.1] * 6, base=3)
    with pytest.raises(InputError, match="three at least"):
        scaling_errors([1, 2], [0.1, 0.2], base=1)


def test_a_workload_follows_the_lines_and_comes_back():
    workload = dataclasses.replace(builtin_workload("resnet50"), optimizer_s=0.003)
    fitted = fit_batch_scaling(samples()).applied_to(workload)
    assert fitted.compute_s == workload.compute_s
    small = fitted.with_batch(4)
    line = {name: a + b * 4 for name, (a, b) in (("forward", FORWARD_S), ("backward", BACKWARD_S))}
    base = {name: a + b * 32 for name, (a, b) in (("forward", FORWARD_S), ("backward", BACKWARD_S))}
    assert small.forward_s == pytest.approx(workload.forward_s * line["forward"] / base["forward"], rel=1e-6)
    assert small.backward_s == pytest.approx(workload.backward_s * line["backward"] / base["backward"], rel=1e-6)
    assert small.optimizer_s == 0.003
    assert small.fixed_forward == pytest.approx(FORWARD_S[0] / line["forward"], rel=1e-6)
    # Two changes of the batch are one: the lines go along.
    again = small.with_batch(256).with_batch(32)
    assert again.forward_s == pytest.approx(workload.forward_s)
    assert again.ready_s == pytest.approx(workload.ready_s)
    assert workload.with_batch(64).forward_s == 2 * workload.forward_s


def test_shares_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"fixed_backward = 1\.5 must be a share"):
        dataclasses.replace(builtin_workload("vgg16"), fixed_backward=1.5)
    with pytest.raises(InputError, match="batch size 0 must be at least 1"):
        dataclasses.replace(builtin_workload("vgg16"), optimizer_s=1.0).with_batch(0)


def predicted(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        cli([*arguments, "--json"])
    captured = capsys.readouterr()
    assert ended.value.code == 0, captured.err
    return json.loads(captured.out)


def test_predict_and_need_use_the_line_where_batches_were_measured(tmp_path, capsys):
    profile = Profile(
        name="two",
        source="made up",
        machine={},
        steps=1,
        batch_size=32,
        forward_s=0.04,
        tensors=(TensorProfile("a", 8_000_000, 1, 0.05), TensorProfile("b", 8_000_000, 0, 0.03)),
        batch_samples=samples(),
    )
    file = tmp_path / "p.json"
    save_profile(profile, file)
    job = ("--workload", str(file), "--method", "wfbp-a2a", "--bandwidth", "10 Gbps")
    small = predicted(capsys, "predict", *job, "--gpus", "2", "--batch", "4")
    # Forward 40 ms × 8/36 (lines 4 + b and 2 + 2.5·b ms), backward 80 ms × 12/82.
    assert small["compute_s"] == pytest.approx(0.04 * 8 / 36 + 0.08 * 12 / 82, rel=1e-6)
    [rule] = [text for text in small["assumptions"] if "batch" in text]
    assert "lines fitted to measured batches of 1 to 32" in rule
    outside = predicted(capsys, "predict", *job, "--gpus", "2", "--batch", "64")
    assert any("64 lies outside" in text for text in outside["assumptions"])
    own = predicted(capsys, "predict", *job, "--gpus", "2")
    assert own["compute_s"] == pytest.approx(0.12)
    assert not any("batch" in text for text in own["assumptions"])
    need = predicted(capsys, "need", *job, "--gpus", "8", "--target", "0.9", "--solve", "batch")
    at = predicted(capsys, "predict", *job, "--gpus", "8", "--batch", str(need["value"]))
    assert at["scaling_factor"] == pytest.approx(need["scaling_factor"])
    save_profile(dataclasses.replace(profile, batch_samples=()), file)
    proportional = predicted(capsys, "predict", *job, "--gpus", "2", "--batch", "4")
    assert proportional["compute_s"] == pytest.approx(0.015)
    assert "compute time in proportion to the batch" in proportional["assumptions"]
