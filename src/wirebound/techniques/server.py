"""A parameter server: a process of its own that averages what the workers push and lets them pull the result.

It averages gradients and leaves the optimizer to the workers. So every technique trains with the same optimizer code,
any optimizer and learning-rate schedule works unchanged, and the traffic is the same: a gradient is as large as its
parameter. BytePS does likewise; servers that hold the parameters (MXNet) must run the optimizer for all.
"""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist

from wirebound.errors import InputError
from wirebound.techniques.process_group import ServerGroups, one_line
from wirebound.techniques.server_protocol import (
    GOODBYE,
    Described,
    Orders,
    Sending,
    expect,
    hear_introduction,
)


class Served(NamedTuple):
    """What a server did for one conversation: averages computed, bytes of gradients received and sent."""

    averages: int
    received_bytes: int
    sent_bytes: int


@dataclass
class _Slot:
    """One piece on the server: a buffer and a waiting receive for each worker, how many have come, their average."""

    received: list[Tensor]
    receives: list[dist.Work]
    average: Tensor
    count: int = 0


def serve(groups: ServerGroups, workers: int) -> Served:
    """Serve ranks 0 … `workers` − 1 of `groups` from their introduction to their goodbye.

    Raises `InputError` when the workers announce different messages, `WireboundError` when one of them goes without
    goodbye.
    """
    return _Server(groups, workers).run()


class _Server:
    """Two threads per worker: one receives its pieces, one sends it the averages."""

    def __init__(self, groups: ServerGroups, workers: int) -> None:
        self._groups, self._workers = groups, workers
        self._counting = threading.Lock()
        self._averages = self._bytes = 0
        self._answers: list[queue.SimpleQueue[int]] = [queue.SimpleQueue() for _ in range(workers)]
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._slots: dict[int, _Slot] = {}
        self._threads: list[threading.Thread] = []

    def run(self) -> Served:
        with one_line("a worker left before it had introduced itself"):
            descriptions = [hear_introduction(self._groups, worker) for worker in range(self._workers)]
        for worker, pieces in enumerate(descriptions):
            if pieces != descriptions[0]:
                raise InputError(f"worker {worker} announced other messages than worker 0: give all the same groups")
        self._slots = {piece.number: self._slot(piece) for piece in descriptions[0]}
        for worker, pieces in enumerate(descriptions):
            orders = Orders(self._groups, worker, len(pieces))
            self._start(f"from-worker-{worker}", partial(self._receive, worker, orders))
            self._start(f"to-worker-{worker}", partial(self._answer, worker))
        for _ in range(2 * self._workers):
            if (error := self._ended.get()) is not None:
                raise error
        for thread in self._threads:  # they still let go of their receives, which must not meet the end of the process
            thread.join()
        return Served(self._averages, self._bytes * self._workers, self._bytes * self._workers)

    def _slot(self, piece: Described) -> _Slot:
        received = [torch.empty(piece.length, dtype=piece.dtype) for _ in range(self._workers)]
        receives = [expect(self._groups, worker, piece.number, values) for worker, values in enumerate(received)]
        return _Slot(received, receives, torch.empty(piece.length, dtype=piece.dtype))

    def _start(self, name: str, body: Callable[[], None]) -> None:
        def run() -> None:
            try:
                body()
                self._ended.put(None)
            except BaseException as error:
                self._ended.put(error)

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _receive(self, worker: int, orders: Orders) -> None:
        with one_line(f"lost worker {worker}"):
            while (index := orders.receive()) != GOODBYE:
                slot = self._slots[index]
                slot.receives[worker].wait()
                with self._counting:
                    slot.count += 1
                    complete = slot.count == self._workers
                if complete:
                    self._average(index, slot)
            self._answers[worker].put(GOODBYE)

    def _average(self, index: int, slot: _Slot) -> None:
        """Sum in the order of the workers, not of arrival, so that two runs give the same bits."""
        slot.average.copy_(slot.received[0])
        for values in slot.received[1:]:
            slot.average += values
        slot.average /= self._workers
        # No worker pushes this piece again before it has its average: the buffers are free for the next step.
        slot.count = 0
        slot.receives = [expect(self._groups, worker, index, values) for worker, values in enumerate(slot.received)]
        with self._counting:
            self._averages += 1
            self._bytes += slot.average.numel() * slot.average.element_size()
        for answers in self._answers:
            answers.put(index)

    def _answer(self, worker: int) -> None:
        with one_line(f"lost worker {worker}"):
            while (index := self._answers[worker].get()) != GOODBYE:
                Sending(self._groups, worker, index, self._slots[index].average).wait()
            Sending(self._groups, worker, GOODBYE).wait()
