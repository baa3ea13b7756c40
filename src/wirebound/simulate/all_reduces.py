"""Which all-reduce a name means: plain names, names with parameters, and a library's choice among several.

==================================  ============================================================================
``ring`` and others                 the algorithms of `collectives.ALL_REDUCES`, between nodes
``flat-ring``                       one ring over all accelerators, which ignores that they share nodes
``blueconnect``, ``…:4x2``          BlueConnect between nodes in these stages, by default one for each prime factor
``byteps``, ``…:4``                 BytePS with so many extra servers, by default as many as nodes
``in-network``, ``…:512x256@20us``  a switch that adds, with so many slots of so many bytes; a slot is taken for 20 µs,
                                    by default twice the link's latency
``auto``, ``auto:nccl``             for each message the fastest of what the library offers
==================================  ============================================================================
"""

import math
from collections.abc import Callable
from functools import partial

from wirebound.errors import InputError, unknown_name
from wirebound.simulate.byteps import byteps_all_reduce, byteps_sent_bytes
from wirebound.simulate.collectives import ALL_REDUCES, AllReduce, ring_sent_bytes
from wirebound.simulate.hierarchical import blueconnect_additions, blueconnect_all_reduce
from wirebound.simulate.in_network import (
    DEFAULT_SLOT_BYTES,
    DEFAULT_SLOTS,
    in_network_all_reduce,
    in_network_sent_bytes,
)
from wirebound.units import bounded_duration

#: The ring over all accelerators; it is no exchange between nodes, so `cost` knows how to price it.
FLAT_RING = "flat-ring"

#: What each library chooses from, the first of equals winning; "" is all of these.
LIBRARIES = {
    "": ("ring", "recursive-doubling", "halving-doubling", "pipelined-tree"),
    "nccl": ("ring", "pipelined-tree"),
    "gloo": ("ring", "halving-doubling"),
    "mpi": ("ring", "recursive-doubling", "halving-doubling"),
}

_LARGEST = 1_000_000_000


def candidates(name: str) -> tuple[str, ...]:
    """Return the names that `name` chooses from: several for ``auto``, else only itself.

    Raises `InputError` with the closest name for an unknown one, and for parameters that cannot be read.
    """
    if name == FLAT_RING:
        return (name,)
    if name != "auto" and not name.startswith("auto:"):
        all_reduce_named(name)
        return (name,)
    library = name.removeprefix("auto").removeprefix(":")
    if library not in LIBRARIES:
        raise unknown_name("library of collective 'auto'", library, filter(None, LIBRARIES))
    return LIBRARIES[library]


def all_reduce_named(name: str) -> AllReduce:
    """Return the all-reduce between nodes that `name` means, with its parameters filled in.

    Raises `InputError` with the closest name for an unknown one, and for parameters that cannot be read.
    """
    if name in ALL_REDUCES:
        return ALL_REDUCES[name]
    family, _, parameters = name.partition(":")
    if family in FAMILIES:
        return FAMILIES[family](name, parameters)
    if family in (*ALL_REDUCES, FLAT_RING):
        raise InputError(f"collective {name!r}: {family} takes no parameters: leave {':' + parameters!r} out")
    raise unknown_name("collective", name, COLLECTIVES)


def _no_additions(size: float, workers: int) -> list[tuple[int, float]]:
    """Vector additions of a worker whose vectors are added elsewhere: none."""
    return [(0, size)]


def _byteps(name: str, parameters: str) -> AllReduce:
    servers = _whole(name, parameters, "byteps:4", least=0) if parameters else _LARGEST
    return AllReduce(
        partial(byteps_all_reduce, servers=servers), partial(byteps_sent_bytes, servers=servers), _no_additions
    )


def switch_slots(name: str) -> tuple[int, int, float | None]:
    """Return the slots, the bytes of each and the seconds for which one is taken, of a name such as ``in-network``.

    None stands for twice the link's latency. Raises `InputError` for parameters that cannot be read.
    """
    example = f"in-network:{DEFAULT_SLOTS}x{DEFAULT_SLOT_BYTES}@20us"
    pool, at, duration = name.partition(":")[2].partition("@")
    slots, slot_bytes = DEFAULT_SLOTS, DEFAULT_SLOT_BYTES
    if pool:
        numbers = pool.split("x")
        if len(numbers) != 2:
            raise InputError(f"collective {name!r}: {pool!r} is not slots x bytes: write {example}")
        slots, slot_bytes = (_whole(name, number, example, least=1) for number in numbers)
    round_trip: float | None = None
    if at:
        try:
            round_trip = bounded_duration(duration)
        except InputError as error:
            raise InputError(f"collective {name!r}: {error}") from None
    return slots, slot_bytes, round_trip


def _in_network(name: str, parameters: str) -> AllReduce:
    slots, slot_bytes, round_trip = switch_slots(name)

    def seconds(size: float, workers: int, latency: float, bandwidth: float) -> float:
        trip = 2 * latency if round_trip is None else round_trip
        return in_network_all_reduce(size, workers, latency, bandwidth, slots, slot_bytes, trip)

    return AllReduce(seconds, in_network_sent_bytes, _no_additions)


def prime_factors(number: int) -> list[int]:
    """Return the prime factors of a whole number, ascending; none for 1."""
    factors, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return [*factors, number] if number > 1 else factors


def _blueconnect(name: str, parameters: str) -> AllReduce:
    given = [_whole(name, part, "blueconnect:4x2", least=1) for part in parameters.split("x")] if parameters else []

    def factors(workers: int) -> list[int]:
        if given and math.prod(given) != workers:
            raise InputError(
                f"collective {name!r} is for {math.prod(given)} nodes, not for {workers}: change its stages, or leave"
                " them out"
            )
        return given or prime_factors(workers)

    def seconds(size: float, workers: int, latency: float, bandwidth: float) -> float:
        stages = factors(workers)
        return blueconnect_all_reduce(size, stages, [latency] * len(stages), [bandwidth] * len(stages))

    return AllReduce(seconds, ring_sent_bytes, lambda size, workers: blueconnect_additions(size, factors(workers)))


def _whole(name: str, text: str, example: str, *, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and least <= int(text) <= _LARGEST):
        raise InputError(
            f"collective {name!r}: {text!r} is not a whole number from {least} to {_LARGEST:,}: write {example}"
        )
    return int(text)


#: All-reduces with parameters of their own: from the whole name and what follows its colon to the algorithm.
FAMILIES: dict[str, Callable[[str, str], AllReduce]] = {
    "blueconnect": _blueconnect,
    "byteps": _byteps,
    "in-network": _in_network,
}

#: All names that `Method.collective` may have, without parameters.
COLLECTIVES = (*ALL_REDUCES, FLAT_RING, *FAMILIES, "auto")
