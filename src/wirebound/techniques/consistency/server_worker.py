"""A worker that pushes its gradients to a server and goes on when it gets parameters back."""

import torch

from wirebound.techniques.consistency.learner import Learner, clock
from wirebound.techniques.consistency.plan import Step
from wirebound.techniques.consistency.server import STOP
from wirebound.techniques.process_group import PATIENT, Group, one_line


def train_with_server(learner: Learner, group: Group, worker: int, server: int) -> list[Step]:
    """Train until the server, rank `server` of `group`, sends the worker home; return its steps.

    Raises `WireboundError` when the server is lost.
    """
    steps: list[Step] = []
    version, pulled = 0.0, torch.empty(learner.values.numel() + 1)
    while version != STOP:
        read = int(version)
        gradient, planned_s, start_s, computed_s = learner.step()
        with one_line("lost the parameter server"):
            pull = group.recv([pulled], server, 0)
            group.send([gradient], server, 0).wait()
            pull.wait(PATIENT)
        learner.values, version = pulled[:-1].clone(), pulled[-1].item()
        steps.append(Step(worker, len(steps), read, planned_s, start_s, computed_s, clock()))
    return steps
