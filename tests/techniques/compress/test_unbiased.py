"""Random compressors are right on average, with the variance that their rule implies.

Each test sums, over the elements, the squared deviation of the mean of N draws from the true value, in units of its
variance: a χ² variable with as many degrees of freedom. It is held between its 10⁻⁶ and 1 − 10⁻⁶ quantiles, so that a
right program would fail for 2 of a million seeds; the seeds are fixed.
"""

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from wirebound.techniques.compress import random
from wirebound.techniques.compress.qsgd import Qsgd
from wirebound.techniques.compress.randomk import RandomK
from wirebound.techniques.compress.terngrad import CLIP, TernGrad, TernGradShared, clip_limit

from .cases import gaussian, new_state, sent

DRAWS = 600
TAIL = 1e-6


def assert_mean_and_variance(decoded, expected, variance):
    deviation = torch.stack(decoded).double().mean(0) - expected
    certain = variance <= 0
    assert (deviation[certain].abs() <= 1e-5 * expected[certain].abs()).all()
    statistic = (deviation[~certain] ** 2 * len(decoded) / variance[~certain]).sum()
    freedom = int((~certain).sum())
    assert freedom > 100
    assert chi2.ppf(TAIL, freedom) < float(statistic) < chi2.ppf(1 - TAIL, freedom)


@pytest.mark.parametrize(("levels", "bucket"), [(1, 512), (4, 64), (16, 100)])
def test_qsgd(levels, bucket):
    gradient = gaussian((1000,))
    compressor = Qsgd(levels, bucket)
    decoded = sent(compressor, [gradient] * DRAWS, new_state(compressor))
    values = gradient.double()
    norms = torch.cat([part.norm().expand(len(part)) for part in values.split(bucket)])
    position = levels * values.abs() / norms
    fraction = position - position.floor()
    assert_mean_and_variance(decoded, values, (norms / levels) ** 2 * fraction * (1 - fraction))


@pytest.mark.parametrize("compressor", [TernGrad(), TernGradShared(1)], ids=["own", "shared"])
def test_terngrad(compressor):
    gradient = gaussian((1000,), 1)
    decoded = sent(compressor, [gradient] * DRAWS, new_state(compressor))
    limit = CLIP * gradient.double().std(correction=0)
    values = gradient.double().clamp(-limit, limit)
    assert (values != gradient).any()
    assert_mean_and_variance(decoded, values, values.abs() * values.abs().max() - values**2)


def test_terngrad_clips_at_two_and_a_half_deviations_whatever_the_unit():
    values = gaussian((10_000,), 2)
    limit = CLIP * values.numpy().std()
    for exponent in (-100, 0, 100):
        assert float(clip_limit(values * 2.0**exponent)) == pytest.approx(limit * 2.0**exponent, rel=1e-5)
    assert float(clip_limit(torch.full((5,), -3.0))) == 3.0  # no deviation, no outliers
    assert float(clip_limit(torch.tensor([1.0, -1.0, 1.0]))) == 1.0


def test_random_k_chooses_every_place_equally_often():
    elements, share, steps = 200, 0.1, 1500
    compressor = RandomK(share)
    state = new_state(compressor)
    counts = torch.zeros(elements)
    for _ in range(steps):
        places = compressor.encode(torch.zeros(elements), state).known[0]
        assert len(set(places.tolist())) == 20
        counts[places] += 1
    # Draws without replacement: variance of one step's indicator is share·(1 − share), with d − 1 degrees of freedom.
    statistic = float(((counts - steps * share) ** 2).sum() / (steps * share * (1 - share))) * (elements - 1) / elements
    assert chi2.ppf(TAIL, elements - 1) < statistic < chi2.ppf(1 - TAIL, elements - 1)


@pytest.mark.parametrize(("count", "below"), [(0, 5), (5, 5), (4, 5), (1, 1), (3, 1000), (700, 1000), (0, 0)])
def test_distinct_places(count, below):
    places = random.distinct(count, below, (1, 2, 3, 4), torch.device("cpu"))
    assert len(places) == count == len(torch.unique(places))
    assert (places.diff() > 0).all()
    assert ((places >= 0) & (places < below)).all()


def hexadecimal(text):
    return tuple(torch.tensor([int(word, 16)]) for word in text.split())


@pytest.mark.parametrize(
    ("rounds", "counter", "key", "output"),
    [
        (7, "00000000 00000000 00000000 00000000", "00000000 00000000", "5f6fb709 0d893f64 4f121f81 4f730a48"),
        (7, "ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "5207ddc2 45165e59 4d8ee751 8c52f662"),
        (7, "243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "4dfccaba 190a87f0 c47362ba b6b5242a"),
        (10, "00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (10, "ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (10, "243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_gives_the_published_words(rounds, counter, key, output):
    """Known answers of Random123 (tests/kat_vectors of its authors, D. E. Shaw Research)."""
    first, second = (int(word, 16) for word in key.split())
    found = random.philox(hexadecimal(counter), (first, second), rounds)
    assert [int(word) for word in found] == [int(word, 16) for word in output.split()]


def test_uniform_numbers_are_uniform_and_differ_between_workers_steps_and_tensors():
    device, count = torch.device("cpu"), 200_000
    streams = [(1, 0, 0, 0), (2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1)]
    numbers = [random.uniform(count, stream, device) for stream in streams]
    for values in numbers:
        assert float(values.min()) >= 0
        assert float(values.max()) < 1
        hits = np.bincount((values.numpy() * 256).astype(int), minlength=256)
        statistic = ((hits - count / 256) ** 2 / (count / 256)).sum()
        assert chi2.ppf(TAIL, 255) < statistic < chi2.ppf(1 - TAIL, 255)
    correlation = np.corrcoef(np.stack([values.numpy() for values in numbers]))
    off_diagonal = correlation[~np.eye(len(streams), dtype=bool)]
    assert np.abs(off_diagonal).max() < 5 / count**0.5  # five standard deviations
