"""Is the faster one of two predicted? The order of techniques matters more than their times."""

import itertools
from collections.abc import Sequence

from wirebound.errors import InputError

#: Two that are closer to each other than this share are as fast as each other.
APART = 0.1


def pairs_in_order(predicted: Sequence[float], measured: Sequence[float], *, apart: float = APART) -> tuple[int, int]:
    """Return how many pairs are predicted in the right order, and how many there are.

    Of each pair, the slower takes more than 1 + `apart` times as long as the faster, measured. Times are of the same
    job in the same conditions, all in the same unit. Raises `InputError` for lists of different lengths or times that
    are not greater than zero.
    """
    if len(predicted) != len(measured):
        raise InputError(f"{len(predicted)} predicted times and {len(measured)} measured ones: give one for each")
    for times in (predicted, measured):
        if not all(time > 0 for time in times):
            raise InputError(f"time {min(times)} must be greater than zero")
    right = pairs = 0
    for one, other in itertools.combinations(range(len(measured)), 2):
        if max(measured[one], measured[other]) > (1 + apart) * min(measured[one], measured[other]):
            pairs += 1
            # Equal predictions tell no order.
            right += (predicted[one] - predicted[other]) * (measured[one] - measured[other]) > 0
    return right, pairs
