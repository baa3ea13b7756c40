"""How one message is exchanged for real: all-reduced, gathered, or pushed to parameter servers and pulled. Gloo.

With servers every receive is posted a step before it is needed. Gloo's receiver gives its word that it is ready on the
connection that carries its own payloads, behind all of them that wait there for a slow link, and until then the sender
holds back: so no word is ever waited for.
"""

from collections.abc import Callable, Iterable
from typing import Any


def all_reduce(group: Any, buffers: list[Any]) -> Callable[[int], None]:
    """Return the function that all-reduces the buffer of a message, and returns when that is done."""

    def send(message: int) -> None:
        group.allreduce([buffers[message]]).wait()

    return send


def all_gather(group: Any, buffers: list[Any]) -> Callable[[int], None]:
    """Return the function that gathers everybody's buffer of a message, and returns when all are there."""
    gathered = [buffer.new_empty(group.size() * buffer.numel()) for buffer in buffers]

    def send(message: int) -> None:
        group._allgather_base(gathered[message], buffers[message]).wait()

    return send


def push_and_pull(group: Any, buffers: list[Any], servers: int, times: int) -> Callable[[int], None]:
    """Return a worker's function: push each server its share of the message, then pull the sum of all workers'.

    The last `servers` ranks of the group are servers; a tensor of fewer elements than servers uses fewer of them. Each
    message is exchanged `times` times.
    """
    workers = group.size() - servers
    shares = [list(enumerate(buffer.chunk(servers), start=workers)) for buffer in buffers]
    # A sum comes into the memory that is sent from: the servers answer only after the last byte.
    pulls = [
        _Receives(group, [(share, server) for server, share in of_message], message, times)
        for message, of_message in enumerate(shares)
    ]

    def send(message: int) -> None:
        for work in [group.send([share], server, message) for server, share in shares[message]]:
            work.wait()
        pulls[message].wait()
        pulls[message].post()

    return send


def serve(group: Any, rank: int, buffers: list[Any], servers: int, order: Iterable[int], times: int) -> None:
    """Be a server: of each message in `order` receive every worker's share, add them up, and send the sum to each.

    Each message comes `times` times.
    """
    import torch

    workers = group.size() - servers
    shares, pushes = {}, {}
    for message, buffer in enumerate(buffers):
        own = buffer.chunk(servers)[rank - workers : rank - workers + 1]
        if own:
            shares[message] = [torch.empty_like(own[0]) for _ in range(workers)]
            senders = [(share, worker) for worker, share in enumerate(shares[message])]
            pushes[message] = _Receives(group, senders, message, times)
    for message in order:
        if message not in shares:
            continue
        pushes[message].wait()
        total = torch.stack(shares[message]).sum(0)
        pushes[message].post()
        for work in [group.send([total], worker, message) for worker in range(workers)]:
            work.wait()


class _Receives:
    """The receives of one message, from several ranks, each time it comes; all of the last time's have come at the end.

    None may be left over: it would take the first message of the next run for its own.
    """

    def __init__(self, group: Any, senders: list[tuple[Any, int]], message: int, times: int) -> None:
        self._group, self._senders, self._message, self._left = group, senders, message, times
        self.post()

    def post(self) -> None:
        """Expect the message once more, unless that was the last time."""
        self._left -= 1
        if self._left >= 0:
            self._works = [self._group.recv([into], rank, self._message) for into, rank in self._senders]

    def wait(self) -> None:
        """Return when the message has come from everybody."""
        for work in self._works:
            work.wait()
