"""The ready curve and the samples of single steps: medians, shares and sums that can be worked out by hand."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from wirebound.errors import InputError
from wirebound.fit.compute import ready_curve, workload_samples
from wirebound.profile.schema import Profile, TensorProfile, load_profile

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "profile_cpu_2core.json"


def test_ready_curve_by_hand():
    samples = [[0.1, 0.2, 0.3], [0.5, 0.5, 0.5], [0.9, 1.0, 0.8]]
    curve = ready_curve(samples, [600, 300, 100], [0.2, 0.1, 0.4])
    assert curve.median == pytest.approx((0.2, 0.5, 0.9))
    assert curve.lower == pytest.approx((0.15, 0.5, 0.85))
    assert curve.upper == pytest.approx((0.25, 0.5, 0.95))
    assert curve.bytes_share == pytest.approx((0.6, 0.9, 1.0))
    assert curve.half_bytes_at == pytest.approx(0.2)
    assert curve.backward_s == pytest.approx(0.2)
    assert curve.backward_spread == pytest.approx((0.3 - 0.15) / 0.2)
    assert curve.ready_spread == pytest.approx(0.1)
    assert curve.ready_s() == pytest.approx((0.04, 0.1, 0.18))
    assert curve.ready_s(1.0) == pytest.approx(curve.median)


def test_a_common_slowdown_of_single_steps_leaves_no_trace():
    rng = np.random.default_rng(1)
    true = np.cumsum(rng.dirichlet(np.ones(20)))
    backward_s = 0.05 * rng.lognormal(0, 0.3, 40)
    ready_s = true[:, None] * backward_s
    curve = ready_curve((ready_s / backward_s).tolist(), [1] * 20, backward_s.tolist())
    assert curve.median == pytest.approx(true.tolist())
    assert curve.ready_spread < 1e-12
    assert curve.backward_spread > 0.1


@pytest.mark.parametrize(
    ("samples", "sizes", "backward", "part"),
    [
        ([], [], [0.1], "no samples"),
        ([[0.5]], [1], [], "no samples"),
        ([[0.5]], [1, 2], [0.1], "1 tensors"),
        ([[0.5, 0.6], [0.5]], [1, 2], [0.1, 0.1], "tensor 1 has 1"),
    ],
)
def test_wrong_shapes_are_named(samples, sizes, backward, part):
    with pytest.raises(InputError, match=part):
        ready_curve(samples, sizes, backward)


TWO_STEPS = Profile(
    name="three",
    source="made up",
    machine={},
    steps=2,
    batch_size=4,
    forward_s=0.1,
    optimizer_s=0.05,  # 0.02 of the optimizer itself, and a tenth of the median backward time
    tensors=(
        TensorProfile("c", 4, 2, 0.06, forward_s=0.02, ready_samples=(0.2, 0.3)),
        TensorProfile("b", 8, 1, 0.09, forward_s=0.03, ready_samples=(0.5, 0.2)),
        TensorProfile("a", 12, 0, 0.12, forward_s=0.05, ready_samples=(0.9, 0.9)),
    ),
    forward_samples_s=(0.08, 0.12),
    backward_samples_s=(0.2, 0.4),
)


def test_samples_of_single_steps_by_hand():
    first, second = workload_samples(TWO_STEPS)
    assert [tensor.name for tensor in first.tensors] == ["c", "b", "a"]
    assert first.ready_s == pytest.approx((0.04, 0.1, 0.18))
    assert first.forward_s == 0.08
    assert first.optimizer_s == pytest.approx(0.02 + 0.1 * 0.2)
    # In the second step b overtook c.
    assert [tensor.name for tensor in second.tensors] == ["b", "c", "a"]
    assert second.ready_s == pytest.approx((0.08, 0.12, 0.36))
    assert second.compute_s == pytest.approx(0.12 + 0.4 + 0.02)
    assert {sample.size for sample in (first, second)} == {24}
    older = workload_samples(dataclasses.replace(TWO_STEPS, forward_samples_s=()))
    assert [sample.forward_s for sample in older] == [0.1, 0.1]


def test_samples_of_the_recorded_profile_agree_with_its_medians():
    profile = load_profile(RECORDED)
    workload, samples = profile.workload(), workload_samples(profile)
    assert len(samples) == profile.steps
    backward = [sample.backward_s for sample in samples]
    assert np.median(backward) == pytest.approx(workload.backward_s, rel=0.01)
    assert np.std(backward) > 0
    assert np.median([sample.compute_s for sample in samples]) == pytest.approx(workload.compute_s, rel=0.01)
    # Each step's own sum: forward, backward and what is left of the optimizer.
    own = workload.optimizer_s - (1 - np.median(profile.tensors[-1].ready_samples)) * np.median(
        profile.backward_samples_s
    )
    for sample, backward_s in zip(samples, profile.backward_samples_s, strict=True):
        assert sample.compute_s == pytest.approx(workload.forward_s + backward_s + own)
        assert sorted(t.name for t in sample.tensors) == sorted(t.name for t in workload.tensors)


def test_profiles_without_samples_give_none():
    with pytest.raises(InputError, match="no samples of single steps"):
        workload_samples(dataclasses.replace(TWO_STEPS, backward_samples_s=()))
    with pytest.raises(InputError, match="1 forward times but 2 steps"):
        workload_samples(dataclasses.replace(TWO_STEPS, forward_samples_s=(0.1,)))
    bare = dataclasses.replace(TWO_STEPS.tensors[1], ready_samples=())
    partly = dataclasses.replace(TWO_STEPS, tensors=(TWO_STEPS.tensors[0], bare, TWO_STEPS.tensors[2]))
    with pytest.raises(InputError, match="tensor 1 has 0 ready times"):
        workload_samples(partly)
