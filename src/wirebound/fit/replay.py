"""Does the engine, given a traced step's own compute and transfer times, take as long as that step really took?"""

from collections.abc import Sequence
from dataclasses import dataclass

from wirebound.model import Workload
from wirebound.simulate.messages import PlannedMessage
from wirebound.simulate.step import fifo_transfers

#: A prediction further off than this is a reason to doubt later answers.
TOLERANCE = 0.2


@dataclass(frozen=True, slots=True)
class Replay:
    """One step in seconds: as the engine has it, and as it was traced."""

    predicted_s: float
    traced_s: float

    @property
    def error(self) -> float:
        """Predicted ÷ traced − 1."""
        return self.predicted_s / self.traced_s - 1

    @property
    def warning(self) -> str | None:
        """What to store with the workload where the two differ by more than `TOLERANCE`, None where they agree."""
        if abs(self.error) <= TOLERANCE:
            return None
        return (
            f"replayed by the engine, the traced step takes {self.predicted_s * 1e3:.4g} ms, but it took"
            f" {self.traced_s * 1e3:.4g} ms ({self.error:+.0%}): predictions for this workload may be as far off"
        )


def replay_step(workload: Workload, messages: Sequence[tuple[float, float]], traced_s: float) -> Replay:
    """Replay a step whose messages were ready and lasted as traced: (seconds since backward began, seconds).

    Messages go one at a time in the order in which they became ready (`simulate.step.fifo_transfers`); the step is
    forward, then backward or the last transfer's end, whichever is later, then optimizer.
    """
    ordered = sorted(messages)
    # Each message's cost is its own traced time, so that its position stands for its size here.
    planned = [PlannedMessage(float(index), ready_s, ()) for index, (ready_s, _) in enumerate(ordered)]
    sent = fifo_transfers(planned, lambda position: ordered[int(position)][1])
    last_end_s = sent[-1].end_s if sent else 0.0
    predicted_s = workload.forward_s + max(workload.backward_s, last_end_s) + workload.optimizer_s
    return Replay(predicted_s, traced_s)
