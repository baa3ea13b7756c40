"""torch's DistributedDataParallel behind the same calls as the seven techniques, with a compressor if one is named."""

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from wirebound.errors import InputError
from wirebound.model import Compressor
from wirebound.techniques.compress.hooks import state_and_hook
from wirebound.techniques.process_group import Meeting, fifo_group, one_line
from wirebound.techniques.recorder import MessageRecord, Recorder

TECHNIQUE = "ddp"
_BACKEND = "wirebound_fifo"


class DataParallel:
    """Averages the gradients of `model` in DDP's buckets, which close at `bucket_cap_bytes`. Use as a context manager.

    The forward pass is `module`'s. Buckets are all-reduced one at a time, first come, first served, unless a
    `compressor` encodes them. A message's record starts when its bucket is handed over, so after it was encoded, and
    ends when its average is there, so after it was decoded. Raises `InputError` for an unknown compressor, or for a
    process that is in a default process group already.
    """

    def __init__(
        self,
        model: nn.Module,
        meeting: Meeting,
        *,
        bucket_cap_bytes: float = 25 * 2**20,
        compressor: Compressor | None = None,
        recorder: Recorder | None = None,
        seed: int = 0,
    ) -> None:
        if dist.is_initialized():
            raise InputError("this process is in a process group already: leave it with destroy_process_group first")
        _join(meeting, fifo=compressor is None or compressor.name != "powersgd")
        self.steps = 0
        self._recorder = recorder
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        with one_line("the workers could not exchange their first parameters"):
            # As the seven techniques do it: batch statistics stay each worker's own.
            self.module = DistributedDataParallel(
                model, bucket_cap_mb=bucket_cap_bytes / 2**20, broadcast_buffers=False
            )
        self._average: Callable[..., Any] = _mean
        self._state: Any = None
        if compressor is not None:
            self._state, self._average = state_and_hook(self.module, compressor, seed=seed)
        self.module.register_comm_hook(None, self._hook)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Let gradients add up without sending them."""
        return self.module.no_sync()

    def step(self, optimizer: Optimizer) -> None:
        """Let the optimizer step and forget the gradients: the averages are there when backward ends."""
        optimizer.step()
        optimizer.zero_grad()
        self.steps += 1

    def close(self) -> None:
        """Part from the other processes, which close as well."""
        with one_line("the workers could not part"):
            dist.barrier()
        dist.destroy_process_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:  # after an error the others may be gone: nothing to wait for
            self.close()

    def _hook(self, _: None, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        ready_s = Recorder.clock()
        names = tuple(self._names[id(parameter)] for parameter in bucket.parameters())
        size = bucket.buffer().numel() * bucket.buffer().element_size()
        step = self.steps
        future: torch.futures.Future[Tensor] = self._average(self._state, bucket)
        start_s = Recorder.clock()
        if self._recorder is None:
            return future
        # A transfer that was over at once was decoded before the future came back.
        began_s = getattr(self._state, "decoding_began_s", {}).get(bucket.index(), 0.0)
        if ready_s < began_s < start_s:
            start_s = began_s
        recorder = self._recorder

        def finished(done: Any) -> Any:
            recorder.add(MessageRecord("all-reduce", step, size, ready_s, start_s, Recorder.clock(), names))
            value = done.value()
            return value[0] if isinstance(value, list) else value

        return future.then(finished)


def _mean(_: None, bucket: GradBucket) -> Any:
    buffer: Tensor = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(buffer, async_op=True).get_future()


def _join(meeting: Meeting, *, fifo: bool) -> None:
    """Make the default group; with `fifo` one collective at a time, where torch's own gloo group would send two.

    PowerSGD's hook waits for its second all-reduce within the end of the first, which takes a second thread.
    """
    backend = meeting.backend
    if backend == "gloo" and fifo:
        backend = _BACKEND
        if backend not in dist.Backend.backend_list:
            dist.Backend.register_backend(backend, _fifo_backend, devices=["cpu"])
    with one_line("the workers could not connect to each other"):
        dist.init_process_group(
            backend,
            store=meeting.store,
            rank=meeting.rank,
            world_size=meeting.workers,
            timeout=timedelta(seconds=meeting.timeout_s),
        )


def _fifo_backend(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    return fifo_group(store, rank, size, timeout_s=timeout.total_seconds())
