"""Random numbers that depend on a seed and on what they are for, not on what was drawn before."""

import numpy as np
import torch

# What random numbers are for; each purpose has numbers of its own.
SPLIT, SAMPLE, BATCHES, PLACES, CODE, TABLE = range(6)


def generator(seed: int, purpose: int, *place: int) -> torch.Generator:
    """Return torch's random numbers for a purpose and a place, such as a round and a client."""
    return torch.Generator().manual_seed(number(seed, purpose, *place))


def number(seed: int, purpose: int, *place: int) -> int:
    """Return an integer from 0 to 2^63 − 1 for a purpose and a place."""
    return int(np.random.SeedSequence((seed, purpose, *place)).generate_state(1, np.uint64)[0] >> 1)
