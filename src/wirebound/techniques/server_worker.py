"""The workers' side of parameter servers, and the two techniques that use them first come, first served."""

import queue
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch import distributed as dist

from wirebound.errors import InputError
from wirebound.techniques.arrivals import Arrivals
from wirebound.techniques.layout import Message, Piece
from wirebound.techniques.process_group import Group, ServerGroups, one_line
from wirebound.techniques.recorder import Kind, MessageRecord, Recorder
from wirebound.techniques.server_protocol import GOODBYE, Described, Orders, Sending, expect, introduce
from wirebound.techniques.synchronizer import Synchronizer, backward_order


def server_shares(sizes: Sequence[int], servers: int) -> list[int]:
    """Return which server gets each piece: the one with the fewest bytes so far, the first of several such."""
    loads = [0] * servers
    chosen = []
    for size in sizes:
        server = loads.index(min(loads))
        loads[server] += size
        chosen.append(server)
    return chosen


class ServerConnections:
    """Pushes pieces to the servers and pulls their averages, which end up where the gradients were.

    `groups` have the workers, then the servers. Two threads per server: one waits for pushes to end, one for averages.
    Gradients on a GPU pass through pinned memory.
    """

    def __init__(
        self,
        groups: ServerGroups,
        workers: int,
        pieces: Sequence[Piece],
        arrivals: Arrivals,
        recorder: Recorder | None,
    ) -> None:
        size = groups.payloads.size()
        if size <= workers:
            raise InputError(f"{workers} workers in a group of {size}: parameter servers are missing")
        self._groups, self._workers = groups, workers
        self._arrivals, self._recorder = arrivals, recorder
        self._host = [_host_copy(piece.values) for piece in pieces]
        servers = range(size - workers)
        self._server_of = server_shares([piece.size for piece in pieces], len(servers))
        self._pulls: dict[int, _Departure] = {}
        self._pushes: list[queue.SimpleQueue[tuple[Sending, _Departure] | None]] = [
            queue.SimpleQueue() for _ in servers
        ]
        self._answers: list[Orders] = []
        with one_line("a parameter server could not be reached"):
            for server in servers:
                mine = [piece for piece in pieces if self._server_of[piece.number] == server]
                described = [Described(piece.number, piece.values.numel(), piece.values.dtype) for piece in mine]
                introduce(groups, workers + server, described)
                self._answers.append(Orders(groups, workers + server, len(mine)))
            self._receives = [self._expect(piece.number) for piece in pieces]
        threads = [(f"push-{server}", partial(self._end_pushes, server)) for server in servers]
        threads += [(f"pull-{server}", partial(self._end_pulls, server)) for server in servers]
        self._threads = [arrivals.in_background(name, body) for name, body in threads]

    def push(self, piece: Piece, pushed: Callable[[Piece], None] | None = None) -> None:
        """Start to push a piece; `pushed` is called when the system has taken its last byte."""
        server, host = self._server_of[piece.number], self._host[piece.number]
        if host is not piece.values:
            host.copy_(piece.values)
        departure = _Departure(piece, piece.message.step, piece.message.ready_s, Recorder.clock(), pushed)
        self._pulls[piece.number] = departure
        with one_line(f"lost parameter server {server}"):
            sending = Sending(self._groups, self._workers + server, piece.number, host)
        self._pushes[server].put((sending, departure))

    def close(self) -> None:
        """Say goodbye to every server and wait for its answer."""
        for server, pushes in enumerate(self._pushes):
            pushes.put(None)
            with one_line(f"lost parameter server {server}"):
                Sending(self._groups, self._workers + server, GOODBYE).wait()
        for thread in self._threads:
            thread.join()

    def _expect(self, index: int) -> dist.Work:
        """Expect an average in the memory that is sent from: the server answers only after the last byte."""
        return expect(self._groups, self._workers + self._server_of[index], index, self._host[index])

    def _end_pushes(self, server: int) -> None:
        before = 0.0
        while (push := self._pushes[server].get()) is not None:
            sending, departure = push
            with one_line(f"lost parameter server {server}"):
                sending.wait()
            start_s, before = max(departure.start_s, before), Recorder.clock()
            self._record("push", departure, start_s)
            if departure.pushed is not None:
                departure.pushed(departure.piece)

    def _end_pulls(self, server: int) -> None:
        with one_line(f"lost parameter server {server}"):
            while (index := self._answers[server].receive()) != GOODBYE:
                start_s = Recorder.clock()
                departure = self._pulls.pop(index)
                self._receives[index].wait()
                self._receives[index] = self._expect(index)
                if self._host[index] is not departure.piece.values:
                    departure.piece.values.copy_(self._host[index])
                self._record("pull", departure, start_s)
                self._arrivals.arrived(departure.piece)

    def _record(self, kind: Kind, departure: "_Departure", start_s: float) -> None:
        if self._recorder is not None:
            piece, end_s = departure.piece, self._recorder.clock()
            self._recorder.add(
                MessageRecord(kind, departure.step, piece.size, departure.ready_s, start_s, end_s, piece.names)
            )


class _Departure(NamedTuple):
    """A piece on its way: its step, when it was ready, when its push started, whom to tell when that ends."""

    piece: Piece
    step: int
    ready_s: float
    start_s: float
    pushed: Callable[[Piece], None] | None


def _host_copy(values: Tensor) -> Tensor:
    return values if values.device.type == "cpu" else torch.empty_like(values, device="cpu", pin_memory=True)


def broadcast_among_workers(group: Group, workers: int, tensor: Tensor) -> None:
    """Give ranks 1 … `workers` − 1 the tensor of rank 0, in place, without the servers."""
    host = tensor.cpu()
    with one_line("the workers could not exchange their first parameters"):
        if group.rank() == 0:
            for work in [group.send([host], worker, 0) for worker in range(1, workers)]:
                work.wait()
        else:
            group.recv([host], 0, 0).wait()
            tensor.copy_(host)


class ParameterServers(Synchronizer):
    """Pushes each message to parameter servers and pulls its average, in the agreed order.

    `connections` have `workers` workers, then the servers, which run `server.serve` at the same time. A message is cut
    into pieces of `partition_bytes`, which are dealt out to the servers by size. One message at a time is pushed, then
    pulled; `pipelined`, the next is pushed while earlier ones are pulled. After `timeout_s` seconds of waiting the
    worker gives up. The other arguments are those of `Synchronizer`.
    """

    def __init__(
        self,
        model: nn.Module,
        connections: ServerGroups,
        workers: int,
        groups: Sequence[Sequence[str]] | None = None,
        *,
        partition_bytes: float = float("inf"),
        pipelined: bool = False,
        unused_parameters: bool = False,
        recorder: Recorder | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        self._group, self._workers = connections.payloads, workers
        super().__init__(
            model, groups, partition_bytes=partition_bytes, unused_parameters=unused_parameters, recorder=recorder
        )
        self._pipelined = pipelined
        self._arrivals = Arrivals(self.pieces, timeout_s)
        self._servers = ServerConnections(connections, workers, self.pieces, self._arrivals, recorder)
        self._waiting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._sender = self._arrivals.in_background("sender", self._send_in_turn)

    def _broadcast(self, tensor: Tensor) -> None:
        broadcast_among_workers(self._group, self._workers, tensor)

    def _send(self, message: Message) -> None:
        for full in self._full_in_order():
            self._waiting.put(full)

    def _send_in_turn(self) -> None:
        while (message := self._waiting.get()) is not None:
            step = message.step  # the training thread may begin the next as soon as this one has arrived
            for piece in self._pieces_of[message]:
                self._servers.push(piece)
            if not self._pipelined:
                self._arrivals.wait(message, step)

    def _wait(self) -> None:
        for message in self.messages:
            self._arrivals.wait(message, self.steps)

    def close(self) -> None:
        super().close()
        self._waiting.put(None)
        self._sender.join()
        self._servers.close()


def bsp_ps(model: nn.Module, connections: ServerGroups, workers: int, **options: object) -> ParameterServers:
    """Bulk-synchronous: all gradients in one message, which is full when backward ends. Options: `ParameterServers`."""
    return ParameterServers(model, connections, workers, [backward_order(model)], **options)  # type: ignore[arg-type]


def wfbp_ps(
    model: nn.Module,
    connections: ServerGroups,
    workers: int,
    order: Sequence[str] | None = None,
    **options: object,
) -> ParameterServers:
    """Wait-free backpropagation: one message per tensor, as in `allreduce.wfbp`. Options: `ParameterServers`."""
    order = backward_order(model) if order is None else order
    return ParameterServers(model, connections, workers, [[name] for name in order], **options)  # type: ignore[arg-type]
