"""Replay a recorded step on a real network: sleep to each ready time, then really exchange the planned message.

The device is a clock here, so that any device's profile runs on this machine without contention for its cores. Runs in
the worker processes; what to replay is an order made by `wirebound.testbed.run`. Times are in seconds since backward
began unless said otherwise.
"""

import heapq
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from wirebound.testbed.exchange import all_gather, all_reduce, push_and_pull, serve
from wirebound.testbed.order_channel import OrderReader, OrderWriter

Order = dict[str, Any]


class Sender:
    """Sends messages one at a time in a thread of its own, and records when each began and ended (clock readings).

    `sent` of a message is set when it has ended. `finished` is called with its number then.
    """

    def __init__(self, send: Callable[[int], None], count: int) -> None:
        self._send = send
        self._waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self.began, self.ended = [0.0] * count, [0.0] * count
        self.sent = [threading.Event() for _ in range(count)]
        self.finished: Callable[[int], None] = lambda message: None
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, message: int) -> None:
        """Hand a message over: it is sent after those before it."""
        self._waiting.put(message)

    def end(self) -> None:
        """Wait until everything is sent, and end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def wait_for(self, message: int) -> None:
        """Wait until a message was sent; raises what went wrong while sending."""
        self.sent[message].wait()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        while (message := self._waiting.get()) is not None:
            self.began[message] = time.perf_counter()
            try:
                self._send(message)
            except BaseException as failure:
                self.failure = failure
                for event in self.sent:
                    event.set()
                return
            self.ended[message] = time.perf_counter()
            self.sent[message].set()
            self.finished(message)


class PrioritySender:
    """Hands the most urgent ready message to a `Sender`, at most `credit` bytes of them at once (ByteScheduler).

    The first rank chooses and tells the others, past the network under test: all ranks must call their collectives in
    the same order. Another rank sends what it is told, once its own gradient is ready.
    """

    def __init__(self, sender: Sender, order: Order, rank: int, ranks: int) -> None:
        self._sender, self._credit = sender, float(order["credit_bytes"] or "inf")
        self._sizes = [message["bytes"] for message in order["messages"]]
        self._urgency = [message["tensors"][-1] for message in order["messages"]]
        self._ready = [threading.Event() for _ in self._sizes]
        self._heap: list[tuple[int, int]] = []
        self._handed, self._unfinished = 0.0, 0
        self._lock = threading.Lock()
        self._chooses = rank == 0
        folder = Path(order["folder"])
        if self._chooses:
            self._writers = [OrderWriter(folder, other) for other in range(1, ranks)]
            sender.finished = self._finish
        else:
            self._reader = OrderReader(folder, rank)
            threading.Thread(target=self._follow, daemon=True).start()

    def put(self, message: int) -> None:
        """A message is ready."""
        if not self._chooses:
            self._ready[message].set()
            return
        with self._lock:
            heapq.heappush(self._heap, (-self._urgency[message], message))
            self._admit()

    def end(self) -> None:
        """Tell the others that nothing follows."""
        if self._chooses:
            for writer in self._writers:
                writer.close()

    def _finish(self, message: int) -> None:
        with self._lock:
            self._handed -= self._sizes[message]
            self._unfinished -= 1
            self._admit()

    def _admit(self) -> None:
        while self._heap:
            message = self._heap[0][1]
            if self._unfinished and self._handed + self._sizes[message] > self._credit:
                return
            heapq.heappop(self._heap)
            self._handed += self._sizes[message]
            self._unfinished += 1
            for writer in self._writers:
                writer.tell(message)
            self._sender.put(message)

    def _follow(self) -> None:
        for message in self._reader:
            self._ready[message].wait()
            self._ready[message].clear()
            self._sender.put(message)


def replay(group: Any, rank: int, order: Order, pace: Callable[[Order], int]) -> Order:
    """Replay `steps` steps and return when each backward pass began, and each message began and ended in it.

    Messages are all-reduced, or gathered where the order says ``gathers``; the last ``servers`` ranks are parameter
    servers and return no times. One step more is replayed, which ends the last one's period; `warm_up` more come first
    and are not returned.
    """
    import torch

    messages, servers = order["messages"], order["servers"]
    times = order["warm_up"] + order["steps"] + 1
    buffers = [torch.zeros(message["bytes"] // 4) for message in messages]
    group.barrier().wait()
    paced = pace(order)
    if rank >= group.size() - servers:
        service = _order_of_service(order, rank, times)  # opens the channel, for which the first rank waits
        group.barrier().wait()
        serve(group, rank, buffers, servers, service, times)
        return {"paced_connections": paced}
    if servers:
        send = push_and_pull(group, buffers, servers, times)
    else:
        send = (all_gather if order.get("gathers") else all_reduce)(group, buffers)
    sender = Sender(send, len(messages))
    outlet: Any = PrioritySender(sender, order, rank, group.size()) if order["priority"] else sender
    group.barrier().wait()
    began, sent = [], []
    now = time.perf_counter()
    for _ in range(times):
        backward = now = _sleep_until(now + _forward_rest_s(order))
        for event in sender.sent:
            event.clear()
        for message, planned in enumerate(messages):
            _sleep_until(backward + planned["ready_s"] + rank * order.get("late_s", 0.0))
            outlet.put(message)
        now = _sleep_until(backward + order["backward_s"])
        now = _forward(order, sender, now) if order["priority"] else _optimize(order, sender)
        began.append(backward)
        sent.append([(sender.began[m] - backward, sender.ended[m] - backward) for m in range(len(messages))])
    sender.end()
    if order["priority"]:
        outlet.end()
    first = order["warm_up"]
    return {"paced_connections": paced, "backward_began": began[first:], "messages": sent[first:]}


def _order_of_service(order: Order, rank: int, times: int) -> Iterable[int]:
    if order["priority"]:
        return OrderReader(Path(order["folder"]), rank)
    return itertools.chain.from_iterable(itertools.repeat(range(len(order["messages"])), times))


def _forward_rest_s(order: Order) -> float:
    """The forward pass, where it waits for everything and so comes in one piece."""
    return 0.0 if order["priority"] else float(order["forward_s"])


def _optimize(order: Order, sender: Sender) -> float:
    for message in range(len(order["messages"])):
        sender.wait_for(message)
    return _sleep_until(time.perf_counter() + order["optimizer_s"])


def _forward(order: Order, sender: Sender, now: float) -> float:
    """The next forward pass, layer by layer: each waits for its own gradient, updates it, and computes."""
    for tensor in range(len(order["forward_gaps_s"]) - 1, -1, -1):
        arrived = now
        for message in order["messages_of"][tensor]:
            sender.wait_for(message)
            arrived = max(arrived, sender.ended[message])
        now = arrived + order["optimizer_gaps_s"][tensor] + order["forward_gaps_s"][tensor]
        _sleep_until(now)
    return now


def _sleep_until(moment: float) -> float:
    """Sleep until the clock shows `moment`; return what it shows then, or `moment` where that has just passed."""
    wait = moment - time.perf_counter()
    if wait > 0:
        time.sleep(wait)
    return moment
