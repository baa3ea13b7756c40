"""The 95 % intervals hold the truth in about 95 % of cases, under noise that the fit does not assume."""

import pytest

from wirebound.errors import InputError
from wirebound.fit.coverage import NOISES, interval_coverage


@pytest.mark.parametrize("noise", list(NOISES))
def test_intervals_hold_the_truth(noise):
    found = interval_coverage(noise, trials=100, resamples=300, seed=5)
    assert 0.90 <= found.pooled <= 0.99, found


def test_unknown_noise_is_named():
    with pytest.raises(InputError, match="noise"):
        interval_coverage("pink")
