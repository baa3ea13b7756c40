"""A count sketch is linear and unbiased and tells heavy hitters; FetchSGD follows its equations."""

import math

import pytest
import torch

from wirebound.errors import InputError
from wirebound.techniques.federated.fetchsgd import FetchSgd
from wirebound.techniques.federated.sketch import CountSketch


def draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_sketch_of_a_sum_is_the_sum_of_the_sketches():
    sketch = CountSketch(1000, 5, 64, draws(0))
    a, b = torch.randn(2, 1000, generator=draws(1))
    assert torch.allclose(sketch.sketch(a) + sketch.sketch(b), sketch.sketch(a + b), atol=1e-4)
    assert torch.allclose(3 * sketch.sketch(a), sketch.sketch(3 * a), atol=1e-4)


def test_a_row_is_unbiased_with_the_variance_of_its_collisions():
    vector = torch.randn(50, generator=draws(1))
    columns, trials = 10, 4000
    estimates = torch.stack(
        [
            sketch.row_estimates(sketch.sketch(vector))[0]
            for sketch in (CountSketch(50, 1, columns, draws(seed)) for seed in range(trials))
        ]
    ).double()
    # Of the others each is in the same cell with probability 1/columns, with a sign of mean 0.
    variance = (vector.double().square().sum() - vector.double().square()) / columns
    assert ((estimates.mean(0) - vector).abs() < 5 * (variance / trials).sqrt()).all()
    assert torch.allclose(estimates.var(0), variance, rtol=0.2)


def test_heavy_hitters_are_recovered():
    vector = 0.01 * torch.randn(5000, generator=draws(1))
    heavy = torch.tensor([7, 77, 777, 4999])
    vector[heavy] = torch.tensor([10.0, -8.0, 6.0, 5.0])
    sketch = CountSketch(5000, 5, 200, draws(2))
    estimate = sketch.estimate(sketch.sketch(vector))
    assert set(torch.topk(estimate.abs(), 4).indices.tolist()) == set(heavy.tolist())
    assert torch.allclose(estimate[heavy], vector[heavy], atol=0.5)


def test_a_wide_sketch_without_collisions_is_exact():
    vector = torch.randn(3, generator=draws(1))
    sketch = CountSketch(3, 5, 100_000, draws(3))
    assert torch.allclose(sketch.estimate(sketch.sketch(vector)), vector)


def test_fetchsgd_without_collisions_is_topk_with_momentum_and_error_feedback():
    """With a sketch as good as exact, the server's steps are those of the same rule on plain vectors."""
    elements, momentum, rate, count = 20, 0.9, 0.5, 3
    sketch = CountSketch(elements, 5, 200_000, draws(4))
    server = FetchSgd(sketch, count, momentum, rate)
    velocity, error = torch.zeros(elements), torch.zeros(elements)
    for step in range(6):
        mean = torch.randn(elements, generator=draws(10 + step))
        velocity = momentum * velocity + mean
        error = error + rate * velocity
        wanted = torch.zeros(elements)
        places = error.abs().argsort(descending=True)[:count]
        wanted[places] = error[places]
        error = error - wanted
        assert torch.allclose(server.step(sketch.sketch(mean)), wanted, atol=1e-5)


def test_nothing_is_lost_in_the_servers_error():
    """Whatever is not yet applied stays in the sketch of the error: sums of both are the sum of all that came."""
    sketch = CountSketch(300, 5, 60, draws(5))
    server = FetchSgd(sketch, 4, 0.0, 1.0)
    came, applied = torch.zeros(300), torch.zeros(300)
    for step in range(10):
        mean = torch.randn(300, generator=draws(20 + step))
        came += mean
        applied += server.step(sketch.sketch(mean))
    assert torch.allclose(server._error, sketch.sketch(came - applied), atol=1e-3)


@pytest.mark.parametrize("shape", [(0, 5, 5), (5, 0, 5), (5, 5, 0)])
def test_an_empty_sketch_is_refused(shape: tuple[int, int, int]):
    with pytest.raises(InputError, match="must be at least 1"):
        CountSketch(*shape, draws(0))


@pytest.mark.parametrize("momentum", [-0.1, 1.0, math.nan])
def test_a_momentum_that_grows_is_refused(momentum: float):
    with pytest.raises(InputError, match="momentum"):
        FetchSgd(CountSketch(5, 1, 5, draws(0)), 1, momentum, 1.0)
