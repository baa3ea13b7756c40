"""What a rank does to time messages with parameter servers: the order ``serve``. Runs in the worker processes.

Messages are pushed and pulled by the very code that trains with servers, one after the other, without compute.
"""

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed import FileStore  # type: ignore[attr-defined]

from wirebound.techniques.arrivals import Arrivals
from wirebound.techniques.layout import Piece, cut, lay_out
from wirebound.techniques.process_group import Meeting
from wirebound.techniques.server import serve
from wirebound.techniques.server_worker import ServerConnections
from wirebound.testbed.scheduling import communicate_promptly, run_promptly

Order = dict[str, Any]


def time_served(rank: int, order: Order, pace: Callable[[Order], int]) -> Order:
    """Push and pull trains of messages and return when the first and the last of each ended, and what was computed.

    ``sizes`` are in bytes, ``counts`` says of how many messages the train of each size is, 2 at least. A first round is
    not told. What this process computed over a train is in seconds.
    """
    workers, servers = order["workers"], order["servers"]
    store = FileStore(order["store"], workers + servers)
    meeting = Meeting(store, rank, workers, servers, timeout_s=order["timeout_s"])
    groups = meeting.with_servers()
    if meeting.is_server:
        run_promptly(os.getpid())  # it does nothing but communicate
        paced = pace(order)
        serve(groups, workers)
        return {"paced_connections": paced}
    names = [str(size) for size in order["sizes"]]
    parameters = {name: nn.Parameter(torch.zeros(int(name) // 4)) for name in names}
    pieces = cut(lay_out(parameters, [[name] for name in names]), float("inf"))
    arrivals = Arrivals(pieces, order["timeout_s"])
    connections = ServerConnections(groups, workers, pieces, arrivals, None)
    prompt = threading.Event()
    told: list[dict[str, tuple[float, float, float]]] = []

    def exchange() -> None:
        prompt.wait()
        told.extend(_trains(pieces, connections, arrivals, order))

    # In a thread of its own, as in training: such threads go before compute.
    sender = arrivals.in_background("sender", exchange)
    communicate_promptly()
    paced = pace(order)
    prompt.set()
    sender.join()
    for piece in pieces:
        arrivals.wait(piece.message, -1)  # raises what went wrong
    connections.close()
    return {"paced_connections": paced, "rounds": told[1:]}


def _trains(
    pieces: list[Piece], connections: ServerConnections, arrivals: Arrivals, order: Order
) -> list[dict[str, tuple[float, float, float]]]:
    shuffle = random.Random(order["seed"])
    sent = [0] * len(pieces)
    rounds = []
    for _ in range(order["rounds"] + 1):
        found = {}
        for piece in shuffle.sample(pieces, len(pieces)):
            time.sleep(order["pause_s"])
            computed_s, ended = time.process_time(), []
            for _ in range(order["counts"][str(piece.size)]):
                connections.push(piece)
                arrivals.wait(piece.message, sent[piece.number])
                sent[piece.number] += 1
                ended.append(time.perf_counter())
            found[str(piece.size)] = (ended[0], ended[-1], time.process_time() - computed_s)
        rounds.append(found)
    return rounds
