"""Workers without a server, each with a model of its own: local SGD and gossip."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wirebound.techniques.consistency.learner import Learner, clock
from wirebound.techniques.consistency.plan import Plan, Step
from wirebound.techniques.process_group import PATIENT, Group, all_reduce, one_line

#: Steps done, when, and the parameters then.
Snapshot = tuple[int, float, Tensor]


def train_by_averaging(plan: Plan, learner: Learner, group: Group, worker: int) -> tuple[list[Step], list[Snapshot]]:
    """Train for the steps of the plan; return them, and the worker's models to be kept.

    Local SGD (Stich 2019) averages all models after every `parameter` steps, gossip (Lian et al. 2017) mixes each with
    its neighbours' after every step. Raises `WireboundError` when another worker is lost.
    """
    steps: list[Step] = []
    snapshots: list[Snapshot] = [(0, clock(), learner.values.clone())]
    exchanges = 0
    mixer = Mixer(group, worker, plan.neighbours, learner.values.numel()) if plan.protocol == "gossip" else None
    for number in range(plan.steps):
        gradient, planned_s, start_s, computed_s = learner.step()
        learner.values = learner.values - plan.learning_rate * gradient
        version = exchanges
        if mixer is not None:
            learner.values = mixer.mix(learner.values)
            exchanges += 1
        elif plan.parameter is not None and (number + 1) % plan.parameter == 0:
            with one_line("lost another worker"):
                all_reduce(group, learner.values).wait(PATIENT)
            learner.values /= plan.workers
            exchanges += 1
        steps.append(Step(worker, number, version, planned_s, start_s, computed_s, clock()))
        if number + 1 >= len(snapshots) * plan.steps / plan.snapshots:
            snapshots.append((number + 1, steps[-1].end_s, learner.values.clone()))
    return steps, snapshots


class Mixer:
    """Exchanges models with the neighbours; the weights 1/(d + 1) make the mixing matrix doubly stochastic.

    So the mean over the workers stays what it is, whatever the graph.
    """

    def __init__(self, group: Group, worker: int, neighbours: Sequence[Sequence[int]], length: int) -> None:
        self._group = group
        self._heard = neighbours[worker]
        self._listeners = [peer for peer, heard in enumerate(neighbours) if worker in heard]
        self._models = [torch.empty(length) for _ in self._heard]

    def mix(self, values: Tensor) -> Tensor:
        """Return the mean of one's own model and those of the neighbours at the same step."""
        with one_line("lost a neighbour"):
            pulls = [self._group.recv([model], peer, 0) for model, peer in zip(self._models, self._heard, strict=True)]
            pushes = [self._group.send([values], peer, 0) for peer in self._listeners]
            for work in [*pulls, *pushes]:
                work.wait(PATIENT)
        return torch.stack([values, *self._models]).mean(dim=0)
