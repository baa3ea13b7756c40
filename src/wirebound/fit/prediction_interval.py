"""How wide must the interval of a prediction be? Conformal factors from errors of predictions that were left out.

A prediction p gets the interval p ÷ f to p × f. The factor f comes from errors |ln(predicted ÷ measured)| of cases that
the model was not fitted to. Errors of one group (such as one method on one network) are alike, and so count as one
draw: each of K groups has the weight 1/(K + 1), shared by its errors, and the weight 1/(K + 1) that is left stands for
the group that is predicted and may be worse than all. That is the finite-sample correction of split conformal
prediction (Vovk et al. 2005), for groups as in Dunn, Wasserman and Ramdas (2022). It holds where the predicted group
is drawn as the others were, which nobody can promise of a method that works in another way.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from wirebound.errors import InputError


@dataclass(frozen=True, slots=True)
class IntervalFactor:
    """The interval of a prediction, divided and multiplied by `factor`, for `level` of the cases (0 to 1).

    `promised` is false where the groups are too few for that level, which needs K ≥ level/(1 − level) of them: the
    factor is then that of the largest error seen.
    """

    level: float
    factor: float
    promised: bool

    def holds(self, predicted: float, measured: float) -> bool:
        """Whether the interval of the prediction holds what was measured."""
        return abs(math.log(predicted / measured)) <= math.log(self.factor) * (1 + 1e-12)


def conformal_factor(log_errors: Sequence[float], groups: Sequence[Hashable], level: float) -> IntervalFactor:
    """Return the factor for `level` from the errors ln(predicted ÷ measured) and the group of each.

    Raises `InputError` for unequal lengths, no errors, errors that are not finite, or a level that is not between
    0 and 1.
    """
    if len(log_errors) != len(groups):
        raise InputError(f"{len(log_errors)} errors but {len(groups)} groups: give the group of each error")
    if not log_errors or not all(math.isfinite(error) for error in log_errors):
        raise InputError("an interval needs errors of predictions, all of them finite")
    if not 0 < level < 1:
        raise InputError(f"level {level} must be between 0 and 1, such as 0.9")
    members = Counter(groups)
    weight, largest = 0.0, 0.0
    for error, group in sorted(zip(map(abs, log_errors), groups, strict=True), key=lambda pair: pair[0]):
        weight += 1 / (len(members) + 1) / members[group]
        largest = error
        if weight >= level - 1e-12:
            return IntervalFactor(level, math.exp(error), True)
    return IntervalFactor(level, math.exp(largest), False)
