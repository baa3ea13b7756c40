"""One worker's part of a run: DistributedDataParallel, a compressor's hook, and evaluation on the way.

A run must not hang when it diverges. A worker whose hook refuses a gradient that is not finite sends zeros instead, so
that the others get what they wait for; at the next evaluation all workers learn of it and stop together.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from wirebound.errors import InputError, WireboundError
from wirebound.techniques.compress import powersgd
from wirebound.techniques.compress.compressor import GradientCompressor, compressor_of
from wirebound.techniques.compress.dgc import Dgc
from wirebound.techniques.compress.hook_state import HookState
from wirebound.techniques.compress.hooks import state_and_hook
from wirebound.techniques.learning.data import DataSet
from wirebound.techniques.learning.evaluation import Evaluation, endless_batches, evaluate, shard
from wirebound.techniques.learning.models import learning_model, mean_loss
from wirebound.techniques.learning.runs import Curve, LearningRun, Point

#: All gradients of the small models in one bucket: fewer messages, and PowerSGD on gloo needs it.
_BUCKET_MB = 256
#: `hooks.register` alone knows how to make these.
_BY_HOOKS = ("powersgd", "terngrad-shared")
_NEVER = 2**62


def settings_of(run: LearningRun) -> Any:
    """Return what `hooks.register` takes: the compressor with the run's settings, None without one.

    Raises `InputError` for an unknown compressor or a setting that it does not have.
    """
    chosen = run.compressor
    if chosen is not None and chosen.name == "dgc":
        real: GradientCompressor = Dgc(chosen.parameter, momentum=run.momentum, warm_up_steps=run.warm_up_steps)
    elif chosen is None or (run.error_feedback and chosen.name in _BY_HOOKS):
        return chosen
    else:
        real = compressor_of(chosen)
    if run.error_feedback:
        return real
    if not hasattr(real, "error_feedback"):
        raise InputError(f"{run.label} has no error feedback that could be left out: use error_feedback=True")
    return dataclasses.replace(real, error_feedback=False)  # type: ignore[type-var]


def train(run: LearningRun, data: DataSet) -> Curve:
    """Train this worker's part in the default process group; the same bits for the same run on the same machine.

    All workers of the group call this with the same arguments and get the same points.
    """
    started = time.perf_counter()
    rank, model = dist.get_rank(), learning_model(run.model, data, run.seed)
    share = _test_share(data, rank, run)
    first, _, _ = _agreed(evaluate(model, share), share, 0, _NEVER)
    points = [Point(0, 0.0, first.loss, first.accuracy)]
    parallel = DistributedDataParallel(model, bucket_cap_mb=_BUCKET_MB)
    refusals: list[str] = []
    state = _register(parallel, run, refusals)
    batches = endless_batches(*shard(data, rank, run.workers), run.batch_size, run.seed * run.workers + rank)
    in_compressor = run.compressor is not None and run.compressor.name == "dgc"
    momentum = 0.0 if in_compressor else run.momentum
    optimizer = torch.optim.SGD(parallel.parameters(), lr=run.learning_rate, momentum=momentum)
    diverged_at = _NEVER
    for step in range(1, run.steps + 1):
        optimizer.zero_grad()
        loss = mean_loss(parallel, *next(batches))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if refusals or not math.isfinite(loss.item()):
            diverged_at = min(diverged_at, step)
        if step in run.marks:
            now, sent, diverged_at = _agreed(evaluate(model, share), share, sent_bytes(state, model, step), diverged_at)
            if diverged_at == _NEVER and not math.isfinite(now.loss):
                diverged_at = step
            if diverged_at != _NEVER:
                break
            points.append(Point(step, sent / run.workers, now.loss, now.accuracy))
    seconds = time.perf_counter() - started
    return Curve(run, tuple(points), None if diverged_at == _NEVER else diverged_at, seconds)


def _test_share(data: DataSet, rank: int, run: LearningRun) -> DataSet:
    """Return the data set with this worker's share of the test samples: workers have the same model."""
    chosen = slice(rank, run.test_samples, run.workers)
    return dataclasses.replace(data, test_inputs=data.test_inputs[chosen], test_targets=data.test_targets[chosen])


def _agreed(own: Evaluation, share: DataSet, sent: int, diverged_at: int) -> tuple[Evaluation, int, int]:
    """Return what all workers together know: the whole evaluation, bytes sent in all, the first step that diverged."""
    count = share.test_targets.numel()
    totals = torch.tensor([own.loss * count, own.accuracy * count, count, sent], dtype=torch.float64)
    earliest = torch.tensor(diverged_at)
    dist.all_reduce(totals)
    dist.all_reduce(earliest, op=dist.ReduceOp.MIN)
    loss, right, count, sent = totals.tolist()
    return Evaluation(loss / count, right / count), int(sent), int(earliest)


def sent_bytes(state: Any, model: nn.Module, steps: int) -> int:
    """Return the payload bytes of this worker in `steps` steps: what the hook has counted.

    Without a compressor it is what DDP hands to its all-reduce; for PowerSGD it is computed as torch's hook decides.
    """
    if isinstance(state, HookState):
        return int(state.sent_bytes)
    gradients = [parameter.detach() for parameter in model.parameters()]
    whole = sum(gradient.numel() * gradient.element_size() for gradient in gradients)
    if state is None:
        return steps * whole
    uncompressed = min(steps, int(state.start_powerSGD_iter))
    return uncompressed * whole + (steps - uncompressed) * powersgd.payload_bytes(state, gradients)


def _register(parallel: DistributedDataParallel, run: LearningRun, refusals: list[str]) -> Any:
    chosen = settings_of(run)
    if chosen is None:
        return None
    state, hook = state_and_hook(parallel, chosen, seed=run.seed)
    parallel.register_comm_hook(state, _guarded(hook, refusals))
    return state


def _guarded(hook: Callable[..., Any], refusals: list[str]) -> Callable[..., Any]:
    """Call a hook again with zeros where it refuses the gradients: it does so before it sends anything."""

    def guarded_hook(state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        try:
            return hook(state, bucket)  # type: ignore[no-any-return]
        except WireboundError as refusal:
            refusals.append(str(refusal))
            bucket.buffer().zero_()
            for each in state.states.values() if isinstance(state, HookState) else ():
                _empty(each)
            return hook(state, bucket)  # type: ignore[no-any-return]

    return guarded_hook


def _empty(state: Any) -> None:
    """Set what a compressor remembers to 0, but for its counts of steps, which set the length of payloads."""
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if isinstance(value, torch.Tensor):
            value.zero_()
