"""Train a small model with one of the techniques, in processes of its own, and tell how long the steps took."""

import contextlib
import dataclasses
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from wirebound.errors import InputError
from wirebound.model import Compressor
from wirebound.techniques.catalogue import Choices, needs_servers, synchronizer
from wirebound.techniques.data_parallel import TECHNIQUE as DDP
from wirebound.techniques.data_parallel import DataParallel
from wirebound.techniques.job import Job, JobResult, ServerResult, StepTimes, WorkerResult
from wirebound.techniques.launch import started_processes, wait_for
from wirebound.techniques.models import build_model
from wirebound.techniques.process_group import Meeting
from wirebound.techniques.recorder import MessageRecord, Recorder
from wirebound.techniques.server import serve
from wirebound.techniques.synchronizer import Synchronizer, trainable

Batch = tuple[Tensor, Tensor]

#: Batches that a worker has at hand; it goes through them again and again.
_BATCHES = 8


def batches(seed: int, worker: int, batch_size: int, count: int = _BATCHES) -> list[Batch]:
    """Return random images (batch, 3, 32, 32) and labels (batch), the same for the same arguments."""
    random = torch.Generator().manual_seed(1_000_003 * seed + worker)
    return [
        (torch.randn(batch_size, 3, 32, 32, generator=random), torch.randint(10, (batch_size,), generator=random))
        for _ in range(count)
    ]


def ready_order(model: nn.Module, compute_loss: Callable[[], Tensor]) -> list[str]:
    """Return the names of the parameters in the order in which one backward pass makes their gradients ready.

    A parameter without a gradient comes last. Gradients are forgotten afterwards.
    """
    ready: list[str] = []
    parameters = trainable(model)
    hooks = [
        parameter.register_post_accumulate_grad_hook(partial(_note, ready, name))  # type: ignore[no-untyped-call]
        for name, parameter in parameters.items()
    ]
    compute_loss().backward()  # type: ignore[no-untyped-call]
    for hook in hooks:
        hook.remove()
    model.zero_grad()
    return ready + [name for name in parameters if name not in ready]


def _note(ready: list[str], name: str, _: Tensor) -> None:
    ready.append(name)


def train(job: Job, meeting: Meeting, *, on_connected: Callable[[], None] | None = None) -> WorkerResult:
    """Run one worker of a job and return what it has to tell.

    `on_connected` is called when all connections stand, before training: links are slowed down there. On a GPU the
    clock readings are those of the host, which queues work ahead. Raises `WireboundError` when another process dies or
    hangs.
    """
    torch.set_num_threads(job.threads)
    torch.manual_seed(job.seed)
    device = torch.device("cpu")
    if job.backend == "nccl":
        torch.cuda.set_device(meeting.rank % torch.cuda.device_count())
        device = torch.device("cuda", torch.cuda.current_device())
    model = build_model(job.model, job.seed).to(device)
    data = [
        (images.to(device), labels.to(device))
        for images, labels in batches(job.seed, meeting.rank, job.batch_size, _BATCHES * job.accumulation)
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=job.learning_rate, momentum=job.momentum)
    recorder = Recorder()
    steps: list[tuple[StepTimes, float]] = []
    with connected(job, model, optimizer, meeting, lambda: _loss(model, data[0]), recorder) as (forward, sync):
        if on_connected is not None:
            on_connected()
        for number in range(job.warmup + job.steps):
            first = number * job.accumulation % len(data)
            steps.append(_one_step(forward, data[first : first + job.accumulation], optimizer, sync))
    measured = steps[job.warmup :]
    messages = [m._replace(step=m.step - job.warmup) for m in recorder.messages if m.step >= job.warmup]
    return WorkerResult(
        pid=os.getpid(),
        steps=tuple(times for times, _ in measured),
        messages=tuple(sorted(messages, key=lambda message: message.start_s)),
        losses=tuple(loss for _, loss in measured),
        parameters_sha256=parameters_sha256(model),
    )


@contextlib.contextmanager
def connected(
    job: Job,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    meeting: Meeting,
    compute_loss: Callable[[], Tensor],
    recorder: Recorder,
) -> Iterator[tuple[nn.Module, Synchronizer | DataParallel]]:
    """Connect a worker; yield the module to call, and what averages its gradients.

    `compute_loss` runs one forward pass of `model`, to find out in which order gradients become ready.
    """
    if job.technique == DDP:
        options = dict(job.choices)
        if options.get("compressor") is not None:
            options["compressor"] = Compressor(**options["compressor"])
        with DataParallel(model, meeting, recorder=recorder, seed=job.seed, **options) as parallel:
            yield parallel.module, parallel
        return
    choices = Choices(**job.choices)
    if choices.order is None:
        choices = dataclasses.replace(choices, order=ready_order(model, compute_loss))
    with synchronizer(job.technique, model, optimizer, meeting, choices, recorder) as sync:
        yield model, sync


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    images, labels = batch
    return functional.cross_entropy(model(images), labels)


def _one_step(
    model: nn.Module,
    micro_batches: Sequence[Batch],
    optimizer: torch.optim.Optimizer,
    sync: Synchronizer | DataParallel,
) -> tuple[StepTimes, float]:
    """Train one step on the mean loss of its micro-batches; only the last one's backward pass communicates."""
    start_s = Recorder.clock()
    total = 0.0
    for number, batch in enumerate(micro_batches, start=1):
        last = number == len(micro_batches)
        loss = _loss(model, batch) / len(micro_batches)
        forward_end_s = Recorder.clock()
        with contextlib.nullcontext() if last else sync.no_sync():
            loss.backward()  # type: ignore[no-untyped-call]
        backward_end_s = Recorder.clock()
        total += loss.item()
    sync.step(optimizer)
    return StepTimes(start_s, forward_end_s, backward_end_s, Recorder.clock()), total


def parameters_sha256(model: nn.Module) -> str:
    """Return a hash of all bits of the parameters: equal on two workers only if not one bit differs."""
    state = hashlib.sha256()
    for parameter in model.parameters():
        state.update(parameter.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def run_rank(job: Job, meeting: Meeting, *, on_connected: Callable[[], None] | None = None) -> dict[str, Any]:
    """Train or serve, as the rank says, and return the fields of a `WorkerResult` or `ServerResult`."""
    if not meeting.is_server:
        return dataclasses.asdict(train(job, meeting, on_connected=on_connected))
    torch.set_num_threads(1)
    groups = meeting.with_servers()
    if on_connected is not None:
        on_connected()
    return {"pid": os.getpid(), **serve(groups, meeting.workers)._asdict()}


def run_job(job: Job, *, time_limit_s: float = 600.0, environment: Mapping[str, str] | None = None) -> JobResult:
    """Start the workers and servers of a job on this machine and return what they tell.

    Raises `InputError` for a job that makes no sense, `WireboundError` with one line when a process fails or
    `time_limit_s` passes; however it ends, no process is left behind. They meet in a file, and gloo chooses free ports.
    """
    with_servers = job.technique != DDP and needs_servers(job.technique)
    if with_servers != (job.servers > 0):
        wanted = "at least 1 parameter server" if with_servers else "no parameter server (servers=0)"
        raise InputError(f"{job.technique} with servers = {job.servers}: it needs {wanted}")
    build_model(job.model)
    names = [f"worker {rank}" for rank in range(job.workers)] + [f"server {rank}" for rank in range(job.servers)]
    with tempfile.TemporaryDirectory(prefix="wirebound-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        orders = folder / "orders.json"
        orders.write_text(json.dumps(dataclasses.asdict(job)), encoding="utf-8")
        command = [sys.executable, "-m", "wirebound.techniques.worker", str(orders)]
        commands = {name: [*command, str(rank)] for rank, name in enumerate(names)}
        with started_processes(commands, folder, environment, threads=job.threads) as started:
            wait_for(started, time_limit_s)
        told = [json.loads((folder / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(len(names))]
    workers = tuple(_worker_result(fields) for fields in told[: job.workers])
    return JobResult(workers, tuple(ServerResult(**fields) for fields in told[job.workers :]))


def _worker_result(fields: dict[str, Any]) -> WorkerResult:
    messages = tuple(MessageRecord._make([*message[:-1], tuple(message[-1])]) for message in fields["messages"])
    steps = tuple(StepTimes(*step) for step in fields["steps"])
    return WorkerResult(**fields | {"messages": messages, "steps": steps, "losses": tuple(fields["losses"])})
