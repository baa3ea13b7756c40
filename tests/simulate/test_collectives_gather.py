"""All-gather, reduce-scatter, broadcast and the gTop-k tree."""

from fractions import Fraction

import pytest

from wirebound.simulate.gather import all_gather, gtopk_tree, ring_all_gather


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 8, 64, 100])
def test_gathers_and_the_merging_tree(workers):
    size, latency, bandwidth = 600, Fraction(1, 2), Fraction(10)
    rounds = (workers - 1).bit_length()
    carried = (workers - 1) * size / bandwidth
    assert all_gather(600, workers, 0.5, 10.0) == pytest.approx(float(rounds * latency + carried), rel=1e-12)
    assert ring_all_gather(600, workers, 0.5, 10.0) == pytest.approx(
        float((workers - 1) * latency + carried), rel=1e-12
    )
    assert gtopk_tree(600, workers, 0.5, 10.0) == pytest.approx(
        float(2 * rounds * (latency + size / bandwidth)), rel=1e-12
    )
