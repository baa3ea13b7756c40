"""What the tests of consistency protocols share."""

import numpy as np

from wirebound.simulate.consistency_graphs import torus_sides

#: Every protocol, some with several parameters.
EVERY = ["bsp", "ssp:0", "ssp:3", "asp", "local-sgd:1", "local-sgd:7", "gossip", "gossip:4", "gossip:complete"]
EVERY += ["gossip:torus", "gossip:exponential"]


def listens(graph, workers):
    """Row i is true where worker i listens, by rolling identity matrices; without itself."""
    identity = np.eye(workers, dtype=bool)

    def from_offset(offset):
        return np.roll(identity, offset, axis=1)  # row i has its one at i + offset

    if graph == "torus":
        a, b = torus_sides(workers)
        grid = np.eye(workers, dtype=bool).reshape(workers, a, b)
        shifted = [np.roll(grid, shift, axis) for axis in (1, 2) for shift in (1, -1)]
        matrix = np.any(shifted, axis=0).reshape(workers, workers)
    elif graph == "exponential":
        places = [2**m for m in range(20) if 2**m < workers]
        matrix = np.any([identity & False, *(from_offset(-place) for place in places)], axis=0)
    elif graph == "complete":
        matrix = np.ones((workers, workers), dtype=bool)
    else:
        reach = 1 if graph == "ring" else graph // 2
        matrix = np.any([from_offset(m) for m in range(-reach, reach + 1)], axis=0)
    return matrix & ~identity
