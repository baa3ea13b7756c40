"""What a rank of the testbed does to train: the orders ``train``, ``profile`` and ``serve``.

Runs in the worker processes; `wirebound.testbed.training_run` gives the orders.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed import FileStore, HashStore  # type: ignore[attr-defined]
from torch.nn import functional

from wirebound.techniques.job import Job
from wirebound.techniques.models import build_model
from wirebound.techniques.process_group import Meeting
from wirebound.techniques.recorder import Recorder
from wirebound.techniques.synchronizer import trainable
from wirebound.techniques.training import batches, connected, run_rank
from wirebound.testbed.scheduling import communicate_promptly, compute_before_others, run_promptly
from wirebound.testbed.served_worker import time_served

Order = dict[str, Any]


def obey(group: Any, rank: int, order: Order, pace: Callable[[Order], int]) -> Order:
    """Carry out one order and return its answer."""
    group.barrier().wait()
    if order["do"] == "prepare":
        return {"prompt": compute_before_others() and communicate_promptly()}
    if order["do"] == "train":
        return _train(rank, order, pace)
    if order["do"] == "serve":
        return time_served(rank, order, pace)
    return _profile(group, rank, order)


def _train(rank: int, order: Order, pace: Callable[[Order], int]) -> Order:
    job = Job(**order["job"])
    ranks = job.workers + job.servers
    if rank >= ranks:
        return {}
    store = FileStore(order["store"], ranks)
    meeting = Meeting(store, rank, job.workers, job.servers, timeout_s=job.timeout_s)
    paced: list[int] = []

    def on_connected() -> None:
        if meeting.is_server:  # a machine of its own, which has nothing else to do
            run_promptly(os.getpid())
        else:
            communicate_promptly()
        paced.append(pace(order))

    answer = run_rank(job, meeting, on_connected=on_connected)
    return answer | {"paced_connections": paced[0]}


def _profile(group: Any, rank: int, order: Order) -> Order:
    """Train steps that send nothing, all ranks at once, and tell when what was done (seconds of the shared clock).

    Every rank is in a group of its own: the technique does all its work, but has nobody to talk to. The ranks wait for
    each other before each step and before each update, as they do when they communicate.
    """
    job = Job(**order["job"])
    torch.set_num_threads(job.threads)
    model = build_model(job.model, job.seed)
    data = batches(job.seed, rank, job.batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=job.learning_rate, momentum=job.momentum)
    alone = Meeting(HashStore(), 0, 1)

    def first_loss() -> torch.Tensor:
        return functional.cross_entropy(model(data[0][0]), data[0][1])

    recorder = Recorder()
    steps = []
    with (
        _noted(model) as (forward_s, ready_s),
        connected(job, model, optimizer, alone, first_loss, recorder) as (forward, sync),
    ):
        communicate_promptly()
        for number in range(job.warmup + job.steps):
            images, labels = data[number % len(data)]
            group.barrier().wait()
            began_s = Recorder.clock()
            loss = functional.cross_entropy(forward(images), labels)
            forward_end_s = Recorder.clock()
            loss.backward()  # type: ignore[no-untyped-call]
            backward_end_s = Recorder.clock()
            loss.item()
            group.barrier().wait()
            update_s = Recorder.clock()
            sync.step(optimizer)
            step = {
                "began_s": began_s,
                "forward_end_s": forward_end_s,
                "backward_end_s": backward_end_s,
                "update_s": update_s,
                "end_s": Recorder.clock(),
                "forward_starts_s": dict(forward_s),
                "ready_s": dict(ready_s),
            }
            if number >= job.warmup:
                steps.append(step)
    shapes = {name: list(parameter.shape) for name, parameter in trainable(model).items()}
    messages = [message for message in recorder.messages if message.step >= job.warmup]
    return {"shapes": shapes, "steps": steps, "messages": messages}


@contextlib.contextmanager
def _noted(model: nn.Module) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    """Note of each parameter when its module begins its forward pass, and when its gradient is ready."""
    begins: dict[str, float] = {}
    ready: dict[str, float] = {}

    def begin(names: list[str], *_: object) -> None:
        begins.update(dict.fromkeys(names, Recorder.clock()))

    def note(name: str, _: torch.Tensor) -> None:
        ready[name] = Recorder.clock()

    hooks: list[Any] = []
    for path, module in model.named_modules():
        names = [".".join(filter(None, [path, name])) for name, _ in module.named_parameters(recurse=False)]
        if names:
            hooks.append(module.register_forward_pre_hook(partial(begin, names)))
    for name, parameter in trainable(model).items():
        hooks.append(parameter.register_post_accumulate_grad_hook(partial(note, name)))  # type: ignore[no-untyped-call]
    yield begins, ready
    for hook in hooks:
        hook.remove()
