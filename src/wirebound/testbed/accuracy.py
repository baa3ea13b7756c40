"""How far predictions were off, and whether they put techniques in the right order."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wirebound.profile.spread import median
from wirebound.testbed.ordering import pairs_in_order


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Absolute errors, predicted ÷ measured − 1, and `right` of `pairs` in the right order."""

    cases: int
    median_error: float
    p90_error: float
    mean_error: float
    pairs: int
    right: int

    @property
    def right_share(self) -> float | None:
        """The share of pairs that were predicted in the right order, None where no two differ."""
        return self.right / self.pairs if self.pairs else None


def accuracy_of(groups: Sequence[Hashable], predicted_s: Sequence[float], measured_s: Sequence[float]) -> Accuracy:
    """Return the accuracy of cases; those of one group differ in their technique alone, and are compared in pairs.

    Pairs count whose measured times differ by more than a tenth of the shorter one (see `ordering`).
    """
    errors = [abs(p / m - 1) for p, m in zip(predicted_s, measured_s, strict=True)]
    pairs = right = 0
    for group in dict.fromkeys(groups):
        mine = [index for index, other in enumerate(groups) if other == group]
        found, of = pairs_in_order([predicted_s[index] for index in mine], [measured_s[index] for index in mine])
        right, pairs = right + found, pairs + of
    return Accuracy(len(errors), median(errors), percentile(errors, 0.9), sum(errors) / len(errors), pairs, right)


def accuracy_of_cases(cases: Sequence[Mapping[str, Any]]) -> Accuracy:
    """Return the accuracy of the cases of results documents of training runs."""
    return accuracy_of(
        [(case["model"], case["batch_size"], case["ranks"], case["rate_Bps"]) for case in cases],
        [case["predicted_s"] for case in cases],
        [case["measured_s"] for case in cases],
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of `values` lies, linearly interpolated as by `numpy.percentile`."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
