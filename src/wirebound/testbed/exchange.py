"""How one message is exchanged for real: all-reduced, gathered, or pushed to parameter servers and pulled. Gloo."""

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


def push_and_pull(group: Any, buffers: list[Any], servers: int) -> Callable[[int], None]:
    """Return a worker's function: push each server its share of the message, then pull the sum of all workers'.

    The last `servers` ranks of the group are servers; a tensor of fewer elements than servers uses fewer of them.
    """
    workers = group.size() - servers

    def send(message: int) -> None:
        shares = list(enumerate(buffers[message].chunk(servers)))
        for work in [group.send([share], workers + server, message) for server, share in shares]:
            work.wait()
        for work in [group.recv([share], workers + server, message) for server, share in shares]:
            work.wait()

    return send


def serve(group: Any, rank: int, buffers: list[Any], servers: int, order: Iterable[int]) -> None:
    """Be a server: of each message in `order` receive every worker's share, add them up, and send the sum to each."""
    import torch

    workers = group.size() - servers
    shares = {}
    for message, buffer in enumerate(buffers):
        own = buffer.chunk(servers)[rank - workers : rank - workers + 1]
        if own:
            shares[message] = [torch.empty_like(own[0]) for _ in range(workers)]
    for message in order:
        if message not in shares:
            continue
        received = shares[message]
        for work in [group.recv([share], worker, message) for worker, share in enumerate(received)]:
            work.wait()
        for share in received[1:]:
            received[0].add_(share)
        for work in [group.send([received[0]], worker, message) for worker in range(workers)]:
            work.wait()
