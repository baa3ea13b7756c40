"""What workers and parameter servers say to each other, point to point.

A worker introduces itself with the list of pieces that a server will get. Then, in any sequence: an order (the number
of a piece) and right after it the piece. Each payload has a receive waiting for it under a tag of its own; the order
tells which payload to wait for. The server answers the same way.

Gloo's receiver gives its word that it is ready on the connection that carries its own payloads, behind all of them that
wait there for a slow link, and until then the sender holds back. So every receive, of orders too, is posted a step
before it is needed: no word is ever waited for. Orders have connections of their own.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist

from wirebound.errors import InputError
from wirebound.techniques.process_group import PATIENT, ServerGroups

#: The tag of orders and introductions; the piece with number i travels under `_payload_tag(i)`.
_ORDERS = 0
#: The order that ends a conversation.
GOODBYE = -1
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class Described(NamedTuple):
    """A piece as a worker describes it: its number, the number of its values and their type."""

    number: int
    length: int
    dtype: torch.dtype


class Sending:
    """An order, and the payload that it announces, on their way; keeps both alive until `wait` returns."""

    def __init__(self, groups: ServerGroups, rank: int, order: int, values: Tensor | None = None) -> None:
        self._order = torch.tensor([order])
        self._works: list[dist.Work] = [groups.orders.send([self._order], rank, _ORDERS)]
        if values is not None:
            self._works.append(groups.payloads.send([values], rank, _payload_tag(order)))

    def wait(self) -> None:
        """Return when the system has taken the last byte."""
        for work in self._works:
            work.wait()


class Orders:
    """The orders that come from one rank, for `pieces` pieces and the goodbye; all may be under way at once."""

    def __init__(self, groups: ServerGroups, rank: int, pieces: int) -> None:
        self._group, self._rank = groups.orders, rank
        self._receives: deque[tuple[Tensor, dist.Work]] = deque()
        for _ in range(pieces + 1):
            self._expect()

    def _expect(self) -> None:
        order = torch.zeros(1, dtype=torch.int64)
        self._receives.append((order, self._group.recv([order], self._rank, _ORDERS)))

    def receive(self) -> int:
        """Wait for the next order, however long."""
        order, work = self._receives.popleft()
        work.wait(PATIENT)
        number = int(order.item())
        if number != GOODBYE:  # whoever said it may be gone
            self._expect()
        return number


def expect(groups: ServerGroups, rank: int, index: int, values: Tensor) -> dist.Work:
    """Let the payload of piece `index` come into `values` whenever it is sent."""
    return groups.payloads.recv([values], rank, _payload_tag(index))  # type: ignore[no-any-return]


def introduce(groups: ServerGroups, server: int, pieces: Sequence[Described]) -> None:
    """Tell a server which pieces it will get. Raises `InputError` for types that servers do not know."""
    for piece in pieces:
        if piece.dtype not in _DTYPES:
            raise InputError(f"parameter servers take floating-point gradients, not {piece.dtype}: convert the model")
    Sending(groups, server, len(pieces)).wait()
    if pieces:
        rows = [[piece.number, piece.length, _DTYPES.index(piece.dtype)] for piece in pieces]
        groups.orders.send([torch.tensor(rows)], server, _ORDERS).wait()


def hear_introduction(groups: ServerGroups, worker: int) -> list[Described]:
    """Return the pieces that a worker announces."""
    count = torch.zeros(1, dtype=torch.int64)
    groups.orders.recv([count], worker, _ORDERS).wait(PATIENT)
    rows = torch.zeros(int(count.item()), 3, dtype=torch.int64)
    if len(rows):
        groups.orders.recv([rows], worker, _ORDERS).wait()
    return [Described(index, length, _DTYPES[dtype]) for index, length, dtype in rows.tolist()]


def _payload_tag(index: int) -> int:
    return _ORDERS + 1 + index
