"""What workers and parameter servers say to each other, point to point.

A worker introduces itself with the list of pieces that a server will get. Then, in any sequence: an order (the number
of a piece) and right after it the piece. Each payload has a receive waiting for it under a tag of its own, so an order
costs no round trip; it tells which payload to wait for. The server answers the same way.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist

from wirebound.errors import InputError
from wirebound.techniques.process_group import PATIENT, Group

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

    def __init__(self, group: Group, rank: int, order: int, values: Tensor | None = None) -> None:
        self._order = torch.tensor([order])
        self._works: list[dist.Work] = [group.send([self._order], rank, _ORDERS)]
        if values is not None:
            self._works.append(group.send([values], rank, _payload_tag(order)))

    def wait(self) -> None:
        """Return when the system has taken the last byte."""
        for work in self._works:
            work.wait()


def receive_order(group: Group, rank: int) -> int:
    """Wait for an order, however long."""
    order = torch.zeros(1, dtype=torch.int64)
    group.recv([order], rank, _ORDERS).wait(PATIENT)
    return int(order.item())


def expect(group: Group, rank: int, index: int, values: Tensor) -> dist.Work:
    """Let the payload of piece `index` come into `values` whenever it is sent."""
    return group.recv([values], rank, _payload_tag(index))  # type: ignore[no-any-return]


def introduce(group: Group, server: int, pieces: Sequence[Described]) -> None:
    """Tell a server which pieces it will get. Raises `InputError` for types that servers do not know."""
    for piece in pieces:
        if piece.dtype not in _DTYPES:
            raise InputError(f"parameter servers take floating-point gradients, not {piece.dtype}: convert the model")
    Sending(group, server, len(pieces)).wait()
    if pieces:
        rows = [[piece.number, piece.length, _DTYPES.index(piece.dtype)] for piece in pieces]
        group.send([torch.tensor(rows)], server, _ORDERS).wait()


def hear_introduction(group: Group, worker: int) -> list[Described]:
    """Return the pieces that a worker announces."""
    rows = torch.zeros(receive_order(group, worker), 3, dtype=torch.int64)
    if len(rows):
        group.recv([rows], worker, _ORDERS).wait()
    return [Described(index, length, _DTYPES[dtype]) for index, length, dtype in rows.tolist()]


def _payload_tag(index: int) -> int:
    return _ORDERS + 1 + index
