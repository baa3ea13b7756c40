"""ByteScheduler over all-reduce: worker 0 decides the order of the partitions, the others follow."""

import queue
import threading
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.optim import Optimizer

from wirebound.techniques.layout import Message, Piece
from wirebound.techniques.priority import ByteScheduler
from wirebound.techniques.process_group import PATIENT, Group, all_reduce, broadcast, finished, one_line
from wirebound.techniques.recorder import MessageRecord, Recorder

#: The order that ends the conversation.
_END = -1


class _Departure(NamedTuple):
    """A piece on its way, its step, when it was ready, when it was handed over."""

    piece: Piece
    work: dist.Work
    step: int
    ready_s: float
    handed_over_s: float


class PriorityAllReduce(ByteScheduler):
    """All-reduces in the order of worker 0's queue: all workers must sum the same partition at the same time.

    Worker 0 announces each partition on the group `orders` (`Meeting.among_workers(for_orders=True)`) before it hands
    it to `group`; the others wait until they have its gradient too. While partitions are under way the next are
    announced already, so that with a credit of several partitions announcements cost no time. The other arguments are
    those of `ByteScheduler`.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        group: Group,
        orders: Group,
        priority: Sequence[str] | None = None,
        **options: object,
    ) -> None:
        self._group, self._orders = group, orders
        self._leads = group.rank() == 0
        super().__init__(model, optimizer, priority, **options)  # type: ignore[arg-type]
        self._ready = [threading.Semaphore(0) for _ in self.pieces]  # of those who follow
        self._under_way: queue.SimpleQueue[_Departure | None] = queue.SimpleQueue()
        self._threads = [
            self._arrivals.in_background("orders", self._lead if self._leads else self._follow),
            self._arrivals.in_background("completion", self._complete),
        ]

    def close(self) -> None:
        super().close()
        for thread in self._threads:
            thread.join()
        with one_line("the workers could not part"):
            self._group.barrier().wait()

    def _broadcast(self, tensor: Tensor) -> None:
        with one_line("the workers could not exchange their first parameters"):
            broadcast(self._group, tensor).wait()

    def _offer(self, piece: Piece, urgency: int) -> None:
        if self._leads:
            self._queue.put(urgency, piece)
        else:
            self._ready[piece.number].release()

    def _average(self, message: Message) -> None:
        message.buffer /= self._group.size()

    def _lead(self) -> None:
        while (piece := self._queue.take()) is not None:
            broadcast(
                self._orders, torch.tensor([piece.number]), PATIENT
            )  # not waited for: the others may be computing
            self._hand_over(piece)
        with one_line("lost another worker"):
            broadcast(self._orders, torch.tensor([_END]), PATIENT).wait()
        self._under_way.put(None)

    def _follow(self) -> None:
        order = torch.zeros(1, dtype=torch.int64)
        while True:
            with one_line("lost another worker"):
                broadcast(self._orders, order, PATIENT).wait()
            index = int(order.item())
            if index == _END:
                break
            self._ready[index].acquire()
            self._hand_over(self.pieces[index])
        self._under_way.put(None)

    def _hand_over(self, piece: Piece) -> None:
        with one_line(f"the all-reduce of {piece.names[0]} failed"):
            work = all_reduce(self._group, piece.values)
        self._under_way.put(_Departure(piece, work, piece.message.step, piece.message.ready_s, Recorder.clock()))

    def _complete(self) -> None:
        before = 0.0
        while (departure := self._under_way.get()) is not None:
            piece = departure.piece
            with one_line(f"the all-reduce of {piece.message.names[0]} failed"):
                finished(departure.work, piece.values.device)
            start_s, before = max(departure.handed_over_s, before), Recorder.clock()
            if self._recorder is not None:
                record = MessageRecord(
                    "all-reduce", departure.step, piece.size, departure.ready_s, start_s, before, piece.names
                )
                self._recorder.add(record)
            if self._leads:
                self._queue.give_back(piece)
            self._arrivals.arrived(piece)
