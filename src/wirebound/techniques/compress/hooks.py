"""Compressors as communication hooks of DistributedDataParallel, on gloo and NCCL: a hook for each way of travel.

A hook encodes the gradients of a bucket parameter by parameter, starts one collective and returns a future; decoding
follows in the future's callback, so that communication overlaps with the rest of backward. Its result is the mean over
the workers (the majority's signs for a vote), the same bits on all of them: they decode the same payloads in the same
order. A gradient that is infinite or not a number raises an error that names the parameter, before anything is sent.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]

from wirebound.model import Compressor
from wirebound.techniques.compress import powersgd
from wirebound.techniques.compress.compressor import GradientCompressor, compressor_of
from wirebound.techniques.compress.gtopk_tree import exchange
from wirebound.techniques.compress.hook_state import HookState
from wirebound.techniques.compress.payload import Payload, from_bytes, to_bytes
from wirebound.techniques.compress.terngrad import TernGradShared
from wirebound.techniques.recorder import Recorder


def register(model: Any, compressor: Compressor | GradientCompressor, group: Any = None, *, seed: int = 0) -> Any:
    """Register a compressor with a DDP `model`; returns the hook's state, to save and load.

    `compressor` is the name and parameter of one, or a compressor of this package with settings of its own. The state
    is a `HookState`, for PowerSGD torch's own (saved by `powersgd.state_dict`). Raises `InputError` for an unknown
    name.
    """
    state, hook = state_and_hook(model, compressor, group, seed=seed)
    model.register_comm_hook(state, hook)
    return state


def state_and_hook(
    model: Any, compressor: Compressor | GradientCompressor, group: Any = None, *, seed: int = 0
) -> tuple[Any, Callable[..., Any]]:
    """Return what `register` would register, for a caller who puts a hook of their own around it."""
    if isinstance(compressor, Compressor):
        if compressor.name == "powersgd":
            state = powersgd.new_state(int(compressor.parameter), group, seed=seed)
            return state, powersgd.hook
        if compressor.name == "terngrad-shared":
            compressor = TernGradShared(dist.get_world_size(group))
        else:
            compressor = compressor_of(compressor)
    state = HookState(compressor, model.module.named_parameters(), group, seed=seed)
    return state, hook_for(compressor)


def hook_for(compressor: GradientCompressor) -> Callable[..., Any]:
    """Return the hook that brings the workers' payloads together as this compressor needs."""
    if isinstance(compressor, TernGradShared):
        return terngrad_shared_hook
    hooks = {
        "all-reduce": all_reduce_hook,
        "all-gather": all_gather_hook,
        "vote": vote_hook,
        "gtopk-tree": gtopk_hook,
    }
    return hooks[compressor.travels]


def all_reduce_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Sum one buffer of values. Each is divided by the number of workers first, so that no sum leaves fp16's range."""
    payloads = state.encoded(bucket)
    values = torch.cat([payload.buffers[0] for payload in payloads]).div_(state.workers)
    state.sent_bytes += values.numel() * values.element_size()

    def decode(future: Any) -> Tensor:
        parts = torch.split(values, [payload.buffers[0].numel() for payload in payloads])
        pairs = zip(bucket.parameters(), bucket.gradients(), strict=True)
        for payload, part, (parameter, gradient) in zip(payloads, parts, pairs, strict=True):
            gradient.copy_(state.compressor.decode(Payload((part,), payload.known), gradient.shape))
            state.arrived(parameter, gradient)
        return bucket.buffer()

    return _then(state, bucket, dist.all_reduce(values, group=state.group, async_op=True), decode)


def terngrad_shared_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Agree on the largest scales, waiting for it, then sum words of ternary fields."""
    compressor = state.compressor
    names = [state.name_of(parameter) for parameter in bucket.parameters()]
    gradients = bucket.gradients()
    scales = torch.cat([state.scale_of(name, gradient) for name, gradient in zip(names, gradients, strict=True)])
    dist.all_reduce(scales, op=dist.ReduceOp.MAX, group=state.group)
    payloads = [
        state.encode(name, gradient, scale=scale)
        for name, gradient, scale in zip(names, gradients, scales, strict=True)
    ]
    words = torch.cat([payload.buffers[1] for payload in payloads])
    state.sent_bytes += scales.numel() * scales.element_size() + words.numel() * words.element_size()

    def decode(future: Any) -> Tensor:
        parts = torch.split(words, [payload.buffers[1].numel() for payload in payloads])
        for payload, part, gradient in zip(payloads, parts, bucket.gradients(), strict=True):
            total = compressor.decode(Payload((payload.buffers[0], part)), gradient.shape)
            gradient.copy_(total / state.workers)
        return bucket.buffer()

    return _then(state, bucket, dist.all_reduce(words, group=state.group, async_op=True), decode)


def all_gather_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Gather everybody's payloads, decode and average them in the order of the workers."""
    payloads = state.encoded(bucket)

    def decode(gathered: list[list[Payload]]) -> None:
        for number, (parameter, gradient) in enumerate(zip(bucket.parameters(), bucket.gradients(), strict=True)):
            total = torch.zeros(gradient.shape, device=gradient.device)
            for theirs in gathered:
                total += state.compressor.decode(theirs[number], gradient.shape) / state.workers
            gradient.copy_(total)
            state.arrived(parameter, gradient)

    return _gathered(state, bucket, payloads, decode)


def vote_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Gather everybody's signs and count: each worker is the server that the papers have, and sends it nothing back."""
    steps = [state.states[state.name_of(parameter)].step for parameter in bucket.parameters()]
    payloads = state.encoded(bucket)
    compressor: Any = state.compressor

    def decode(gathered: list[list[Payload]]) -> None:
        for number, gradient in enumerate(bucket.gradients()):
            votes = [theirs[number] for theirs in gathered]
            majority = compressor.vote(votes, gradient.shape, steps[number])
            gradient.copy_(compressor.decode(majority, gradient.shape))

    return _gathered(state, bucket, payloads, decode)


def gtopk_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Merge in the tree, waiting for it: each hop needs the one before."""
    payloads = state.encoded(bucket)
    states = [state.states[state.name_of(parameter)] for parameter in bucket.parameters()]
    finals, sent = exchange(payloads, [each.residual for each in states], state.group)
    state.sent_bytes += sent
    for final, gradient in zip(finals, bucket.gradients(), strict=True):
        gradient.copy_(state.compressor.decode(final, gradient.shape) / state.workers)
    return _done(bucket)


def _gathered(
    state: HookState, bucket: GradBucket, payloads: list[Payload], decode: Callable[[list[list[Payload]]], None]
) -> torch.futures.Future[Tensor]:
    """Start an all-gather of one message of bytes; `decode` takes the payloads of each worker, in their order."""
    message = to_bytes(payloads)
    state.sent_bytes += message.numel()
    if message.numel() == 0:
        return _done(bucket)
    gathered = message.new_empty(state.workers * message.numel())

    def received(future: Any) -> Tensor:
        decode([from_bytes(part, payloads) for part in torch.split(gathered, message.numel())])
        return bucket.buffer()

    # Newer versions of torch have another name for it.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    return _then(state, bucket, gather(gathered, message, group=state.group, async_op=True), received)


def _then(
    state: HookState, bucket: GradBucket, work: Any, decode: Callable[[Any], Tensor]
) -> torch.futures.Future[Tensor]:
    index = bucket.index()

    def timed(future: Any) -> Tensor:
        state.decoding_began_s[index] = Recorder.clock()
        return decode(future)

    future: torch.futures.Future[Tensor] = work.get_future().then(timed)
    return future


def _done(bucket: GradBucket) -> torch.futures.Future[Tensor]:
    future: torch.futures.Future[Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
