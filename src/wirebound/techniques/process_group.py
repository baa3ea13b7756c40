"""Process groups whose order is known, a place for processes to meet, and errors in one line."""

import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from wirebound.errors import InputError, WireboundError

#: Backends know either a member of `torch.distributed` or one built directly; both have the same methods.
Group = Any
#: Threads that wait for the next order may wait as long as training pauses; a peer's death still ends their wait.
PATIENT = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ServerGroups:
    """Workers and parameter servers, connected twice: small orders do not wait behind payloads, nor hold them up."""

    payloads: Group
    orders: Group


@dataclass
class Meeting:
    """Where the processes of one job find each other: ranks 0 … `workers` − 1 train, `servers` more ranks serve.

    `store` is a store of `torch.distributed` that all of them share. A worker that waits longer than `timeout_s`
    seconds for the others gives up. `backend` (``gloo`` or ``nccl``) carries all-reduces; parameter servers and orders
    to other workers always use gloo.
    """

    store: Store
    rank: int
    workers: int
    servers: int = 0
    backend: str = "gloo"
    timeout_s: float = 300.0
    _groups_made: dict[str, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.workers < 1 or self.servers < 0:
            raise InputError(f"{self.workers} workers and {self.servers} servers: at least 1 worker is needed")
        if not 0 <= self.rank < self.workers + self.servers:
            raise InputError(f"rank {self.rank} must be at least 0 and less than {self.workers + self.servers}")
        if self.backend not in ("gloo", "nccl"):
            raise InputError(f"unknown backend {self.backend!r}: use gloo or nccl")

    @property
    def is_server(self) -> bool:
        """Whether this process is a parameter server."""
        return self.rank >= self.workers

    def among_workers(self, *, for_orders: bool = False) -> Group:
        """Connect the workers and return their group; all of them call this in the same order.

        A group `for_orders` is gloo's, whatever the backend.
        """
        store = self._store("orders" if for_orders else "workers")
        backend = "gloo" if for_orders else self.backend
        return fifo_group(store, self.rank, self.workers, backend=backend, timeout_s=self.timeout_s)

    def with_servers(self) -> ServerGroups:
        """Connect workers and servers and return their groups; all of them call this in the same order."""
        if not self.servers:
            raise InputError("this technique needs at least 1 parameter server: give servers=1")
        payloads, orders = (
            fifo_group(self._store(kind), self.rank, self.workers + self.servers, timeout_s=self.timeout_s)
            for kind in ("payloads", "server-orders")
        )
        return ServerGroups(payloads, orders)

    def _store(self, kind: str) -> Store:
        self._groups_made[kind] = self._groups_made.get(kind, 0) + 1
        return PrefixStore(f"{kind}-{self._groups_made[kind]}", self.store)


def fifo_group(store: Store, rank: int, size: int, *, backend: str = "gloo", timeout_s: float = 300.0) -> Group:
    """Connect `size` processes and return their group, which runs one collective at a time, first come first served.

    NCCL always does; gloo's default of two threads would let two all-reduces share the link, so it gets one thread.
    Raises `WireboundError` when the processes do not all come, or when this PyTorch lacks the backend.
    """
    if not (dist.is_nccl_available() if backend == "nccl" else dist.is_gloo_available()):
        raise WireboundError(f"this PyTorch has no {backend} backend: install a build that has it")
    with one_line(f"rank {rank} of {size} could not connect to the others"):
        if backend == "nccl":
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = timedelta(seconds=timeout_s)
            return dist.ProcessGroupNCCL(store, rank, size, options)
        options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
        options._devices = [dist.ProcessGroupGloo.create_default_device()]
        options._threads = 1
        options._timeout = timedelta(seconds=timeout_s)
        return dist.ProcessGroupGloo(store, rank, size, options)


@contextlib.contextmanager
def one_line(what: str) -> Any:
    """Turn an error of the communication library into a `WireboundError` of one line that begins with `what`."""
    try:
        yield
    except RuntimeError as error:  # includes DistBackendError and the errors of stores
        raise WireboundError(f"{what}: {' '.join(str(error).split())[:200]}") from error


def finished(work: dist.Work, device: torch.device) -> None:
    """Wait until a transfer is really over, not just queued on the device as NCCL's `wait` leaves it."""
    if device.type != "cuda":
        work.wait()
        return
    beside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(beside):
        work.wait()
        beside.synchronize()


def all_reduce(group: Group, tensor: Tensor) -> dist.Work:
    """Start to sum `tensor` over the group, in place."""
    return group.allreduce([tensor])  # type: ignore[no-any-return]


def broadcast(group: Group, tensor: Tensor, timeout: timedelta | None = None) -> dist.Work:
    """Start to give everyone the `tensor` of rank 0, in place; `timeout` replaces the group's."""
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = 0, 0
    if timeout is not None:
        options.timeout = timeout
    return group.broadcast([tensor], options)  # type: ignore[no-any-return]


def flat_state(model: nn.Module) -> list[tuple[Tensor, list[Tensor]]]:
    """Return parameters and buffers as one flat copy per type and device, each with the tensors that it copies."""
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor.detach())
    return [(torch.cat([tensor.reshape(-1) for tensor in tensors]), tensors) for tensors in kinds.values()]
