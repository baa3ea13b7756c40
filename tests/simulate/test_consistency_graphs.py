"""Gossip graphs: against matrices made by shifting arrays, their powers and their eigenvalues."""

import math

import numpy as np
import pytest

from wirebound.errors import InputError
from wirebound.simulate.consistency_graphs import (
    GRAPHS,
    degree_of,
    diameter,
    mixing_iterations,
    neighbours,
    spectral_gap,
)

from .protocols import listens

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 32, 49]
CASES = [*GRAPHS, 2, 4, 6, 50]


@pytest.mark.parametrize("graph", CASES)
@pytest.mark.parametrize("workers", SIZES)
def test_neighbours_degree_and_diameter(graph, workers):
    expected = listens(graph, workers)
    found = np.zeros((workers, workers), dtype=bool)
    peers = neighbours(graph, workers)
    for worker, heard in enumerate(peers):
        assert len(set(heard)) == len(heard) == degree_of(graph, workers)
        found[worker, list(heard)] = True
    assert (found == expected).all()
    reach, steps = np.eye(workers), 0
    while not reach.all():
        reach = np.sign(reach @ (expected + np.eye(workers)))
        steps += 1
    assert diameter(peers) == steps


@pytest.mark.parametrize("graph", CASES)
@pytest.mark.parametrize("workers", SIZES)
def test_spectral_gap_is_that_of_the_mixing_matrix(graph, workers):
    matrix = listens(graph, workers) + np.eye(workers)
    matrix /= matrix.sum(axis=1, keepdims=True)
    assert matrix.sum(axis=0) == pytest.approx(np.ones(workers))  # doubly stochastic
    # All that is left of the vectors that sum to 0.
    disagreement = matrix - np.ones((workers, workers)) / workers
    expected = 1 - max(abs(np.linalg.eigvals(disagreement)))
    assert spectral_gap(graph, workers) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("workers", [4, 5, 8, 33, 64])
def test_ring_in_closed_form(workers):
    assert spectral_gap("ring", workers) == pytest.approx(2 / 3 * (1 - math.cos(2 * math.pi / workers)))


@pytest.mark.parametrize("workers", [4, 6, 8, 10, 48, 64, 1000])
def test_exponential_graph_in_closed_form(workers):
    # Ying et al. 2021, proposition 1
    assert spectral_gap("exponential", workers) == pytest.approx(2 / (1 + math.ceil(math.log2(workers))))


def test_mixing_takes_as_long_as_the_slowest_mode():
    workers = 16
    wave = np.cos(2 * np.pi * np.arange(workers) / workers)
    matrix = (listens("ring", workers) + np.eye(workers)) / 3
    iterations = mixing_iterations(spectral_gap("ring", workers), reduction=10)
    steps = round(iterations)
    left = np.abs(np.linalg.matrix_power(matrix, steps) @ wave).max()
    assert left == pytest.approx(10 ** (-steps / iterations), rel=1e-9)
    assert mixing_iterations(1.0) == 1


def test_unknown_graph():
    with pytest.raises(InputError, match="did you mean 'torus'"):
        spectral_gap("toruss", 8)
