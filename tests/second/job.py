"""The plain numbers that the second implementation works on, taken from the package's nouns."""

from dataclasses import dataclass

from wirebound.model import Workload


@dataclass(frozen=True)
class Job:
    """Gradients in the order in which backward makes them ready: bytes, backward seconds, forward seconds."""

    sizes: list[int]
    gaps: list[float]
    forwards: list[float]
    forward_s: float
    optimizer_s: float
    add_table: list[tuple[float, float]]

    @property
    def backward_s(self):
        return sum(self.gaps)

    @property
    def optimizer_shares(self):
        """The optimizer's time of each gradient, by bytes."""
        return [self.optimizer_s * size / sum(self.sizes) for size in self.sizes]


def job_of(workload: Workload) -> Job:
    gaps = [t.gap_s for t in workload.tensors]
    measured = [t.forward_s for t in workload.tensors]
    weights = gaps if None in measured or not any(measured) else measured
    if not any(weights):
        weights = [1.0] * len(gaps)
    forwards = [workload.forward_s * weight / sum(weights) for weight in weights]
    sizes = [t.size for t in workload.tensors]
    return Job(sizes, gaps, forwards, workload.forward_s, workload.optimizer_s, list(workload.vector_add))


def interpolated_add(table, size):
    """Seconds of adding two vectors: linear between the measured sizes, flat outside them; nothing without a table."""
    if not table:
        return 0.0
    below = [row for row in table if row[0] <= size]
    above = [row for row in table if row[0] > size]
    if not below:
        return above[0][1]
    if not above:
        return below[-1][1]
    (x0, y0), (x1, y1) = below[-1], above[0]
    return y0 + (y1 - y0) * (size - x0) / (x1 - x0)
