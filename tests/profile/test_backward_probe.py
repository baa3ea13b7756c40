"""Gradient-ready times: order, sums, a slowed hook, and what is refused."""

import time

import pytest
import torch
from torch import nn
from torch.nn import functional

from wirebound.errors import InputError
from wirebound.profile.backward import profile_backward, profile_batches
from wirebound.profile.models import ResNet20


class Chain(nn.Module):
    """Four layers in a row, registered in forward order: gradients become ready in the opposite order."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in range(4))

    def forward(self, values):
        for layer in self.layers:
            values = torch.tanh(layer(values))
        return values


def profiled(model, compute_loss=None, **options):
    inputs = torch.ones(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    compute_loss = compute_loss or (lambda network: network(inputs).square().sum())
    return profile_backward(model, compute_loss, optimizer, **{"steps": 6, "warmup": 1, **options})


def test_order_sizes_and_sums():
    profile = profiled(Chain())
    assert [tensor.name for tensor in profile.tensors] == [f"layers.{i}.weight" for i in (3, 2, 1, 0)]
    assert [tensor.registration for tensor in profile.tensors] == [3, 2, 1, 0]
    assert {tensor.size for tensor in profile.tensors} == {8 * 8 * 4}
    assert all(tensor.gap_s > 0 for tensor in profile.tensors)
    assert all(len(tensor.ready_samples) == 6 for tensor in profile.tensors)
    assert sum(tensor.forward_s for tensor in profile.tensors) == pytest.approx(profile.forward_s, abs=1e-8)
    # The gaps and the last gradient's share of backward tell the same story.
    backward_s = sorted(profile.backward_samples_s)[2:4]
    last = sorted(profile.tensors[-1].ready_samples)[2:4]
    total = sum(tensor.gap_s for tensor in profile.tensors)
    assert total == pytest.approx(sum(backward_s) / 2 * sum(last) / 2, rel=1e-3)
    assert profile.hook_overhead.pairs == 6
    assert profile.hook_overhead.ratio_low <= profile.hook_overhead.ratio <= profile.hook_overhead.ratio_high


@pytest.mark.parametrize("slow", [0, 1, 2, 3])
def test_a_hook_slowed_by_20_ms_shows_at_its_parameter_and_no_other(slow):
    name = f"layers.{slow}.weight"
    profile = profiled(Chain(), on_ready=lambda ready: time.sleep(0.02) if ready == name else None)
    gaps = {tensor.name: tensor.gap_s for tensor in profile.tensors}
    assert max(gaps, key=gaps.get) == name
    # Per-step normalization leaves a little of the steps' scatter in the gap.
    assert gaps[name] > 0.018
    assert sum(gaps.values()) - gaps[name] < 0.018


def test_the_slowed_hook_counts_as_hook_overhead():
    profile = profiled(Chain(), on_ready=lambda ready: time.sleep(0.005))
    assert profile.hook_overhead.ratio_low > 1


def test_steps_alternate_and_the_time_limit_stops_early():
    profile = profiled(Chain(), steps=50, time_limit_s=0.0)
    assert profile.steps == 6
    assert any("6 of 50 steps" in warning for warning in profile.warnings)


def test_no_hooks_are_left_behind():
    model = Chain()
    profiled(model)
    for parameter in model.parameters():
        assert not parameter._post_accumulate_grad_hooks
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_frozen_and_shared_parameters():
    model = Chain()
    model.layers[1].weight.requires_grad_(False)
    model.layers[3] = model.layers[2]
    profile = profiled(model)
    assert [tensor.name for tensor in profile.tensors] == ["layers.2.weight", "layers.0.weight"]


def test_unused_parameter_is_named():
    model = Chain()
    inputs = torch.ones(4, 8)
    with pytest.raises(InputError, match=r"layers\.0\.weight got no gradient"):
        profiled(model, lambda network: network.layers[1](inputs).sum())


def test_wrong_devices_steps_and_models():
    with pytest.raises(InputError, match="move the model to the CPU"):
        profiled(nn.Linear(8, 8, device="meta"))
    with pytest.raises(InputError, match="steps"):
        profiled(Chain(), steps=0)
    frozen = Chain().requires_grad_(False)
    with pytest.raises(InputError, match="no parameters"):
        profile_backward(frozen, lambda _: None, None)


def test_batches_are_timed_in_turns():
    """A pass that sleeps 4 ms and 1 ms a sample has these at least; the network sees exactly the batches asked for."""
    seen = []

    class Sleepy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, values):
            seen.append(len(values))
            time.sleep(0.004 + 0.001 * len(values))
            return self.layer(values)

    model = Sleepy()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    timings = profile_batches(
        model, lambda network, size: network(torch.ones(size, 8)).sum(), optimizer, [8, 1, 2, 8], steps=4, warmup=1
    )
    assert [timing.batch_size for timing in timings] == [1, 2, 8]
    assert sorted(seen) == sorted([1, 2, 8] * 5)
    assert len({tuple(seen[first : first + 3]) for first in range(0, 15, 3)}) > 1
    for timing in timings:
        assert len(timing.forward_s) == len(timing.backward_s) == 4
        assert min(timing.forward_s) > 0.004 + 0.001 * timing.batch_size
        assert min(timing.backward_s) > 0
    short = profile_batches(
        model, lambda network, size: network(torch.ones(size, 8)).sum(), optimizer, [1], steps=9, time_limit_s=0
    )
    assert len(short[0].forward_s) == 3


@pytest.mark.parametrize(("batches", "named"), [([], "none"), ([4, 0], "4, 0")])
def test_wrong_batches_are_named(batches, named):
    with pytest.raises(InputError, match=named):
        profile_batches(Chain(), None, None, batches)


def test_resnet20_has_the_published_size():
    model = ResNet20()
    # He et al. (2016), table 6: 0.27 M parameters; layer by layer 432+32, 3·2·(2304+32), …, 650.
    stages = (
        432 + 32 + 6 * (2304 + 32) + (4608 + 9216 + 128) + 4 * (9216 + 64) + (18432 + 36864 + 256) + 4 * (36864 + 128)
    )
    assert sum(parameter.numel() for parameter in model.parameters()) == stages + 650 == 269_722
    outputs = model(torch.zeros(2, 3, 32, 32))
    assert outputs.shape == (2, 10)
    functional.cross_entropy(outputs, torch.tensor([0, 1])).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
