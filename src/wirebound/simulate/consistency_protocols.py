"""Consistency protocols: when a worker may begin its next step, and how old what it then reads is.

To add a protocol, write the function that makes its `Rule` and register it in `PROTOCOLS`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from wirebound.errors import InputError, unknown_name
from wirebound.simulate.consistency_graphs import GRAPHS, degree_of, diameter, neighbours

Parameter = int | str | None
Peers = tuple[tuple[int, ...], ...]


def _always(clock: int) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """What a protocol asks for before a worker's step k, counted from 0; a worker's clock is the steps it has done.

    Step k begins once all others (with `peers`: those that the worker listens to) have reached the clock `needed(k)`,
    0 for no condition. It ends with an exchange where `exchanges(k)`. `age(k, slowest)` is how many clocks old the
    model may be that step k reads, `slowest` being the least clock of all workers: k minus the number of steps of
    every worker that are in it for certain. With `shared_model` updates go into one model as they arrive, one by one.
    All begins anew every `cycle` steps.
    """

    needed: Callable[[int], int]
    age: Callable[[int, int], int]
    peers: Peers | None = None
    exchanges: Callable[[int], bool] = _always
    shared_model: bool = False
    cycle: int = 1


def bulk_synchronous(parameter: Parameter, workers: int) -> Rule:
    """BSP (Valiant 1990): nobody begins step k before everybody has done k steps."""
    return Rule(needed=lambda clock: clock, age=lambda clock, slowest: 0)


def stale_synchronous(parameter: Parameter, workers: int) -> Rule:
    """SSP (Cipar et al. 2013, Ho et al. 2013): step k begins once everybody has done k − s steps."""
    assert isinstance(parameter, int)
    bound = parameter
    return Rule(lambda clock: max(0, clock - bound), lambda clock, slowest: clock - slowest, shared_model=True)


def asynchronous(parameter: Parameter, workers: int) -> Rule:
    """ASP (Recht et al. 2011, Dean et al. 2012): nobody waits for anybody."""
    return Rule(lambda clock: 0, lambda clock, slowest: clock - slowest, shared_model=True)


def local_sgd(parameter: Parameter, workers: int) -> Rule:
    """Local SGD (Stich 2019): all average their models after every H steps, and go on alone in between."""
    assert isinstance(parameter, int)
    period = parameter
    return Rule(
        needed=lambda clock: clock if clock % period == 0 else 0,
        age=lambda clock, slowest: clock % period,
        exchanges=lambda clock: (clock + 1) % period == 0,
        cycle=period,
    )


def gossip(parameter: Parameter, workers: int) -> Rule:
    """D-PSGD (Lian et al. 2017): a worker averages with its neighbours after every step, so waits only for them.

    What a worker at distance r did is in the model r − 1 steps later than under BSP.
    """
    assert parameter is not None
    if degree_of(parameter, workers) == workers - 1:
        return bulk_synchronous(None, workers)
    peers = neighbours(parameter, workers)
    oldest = diameter(peers) - 1
    return Rule(lambda clock: clock, lambda clock, slowest: min(clock, oldest), peers=peers)


@dataclass(frozen=True, slots=True)
class Protocol:
    """A registered protocol: its rule, how its parameter is read from text, and an example with a good parameter."""

    rule: Callable[[Parameter, int], Rule]
    read: Callable[[str], Parameter]
    example: str
    default: Parameter = None


def _nothing(text: str) -> Parameter:
    raise InputError("takes no parameter")


def _staleness(text: str) -> Parameter:
    return _whole(text, 0, "the clocks that a worker may be ahead of the slowest")


def _period(text: str) -> Parameter:
    return _whole(text, 1, "the steps from one average to the next")


def _graph(text: str) -> Parameter:
    if not text.isdecimal():
        if text not in GRAPHS:
            raise unknown_name("graph", text, [*GRAPHS, "an even degree"])
        return text
    degree = _whole(text, 2, "the number of neighbours")
    if degree % 2:
        raise InputError(f"a degree of {degree} must be even, as many neighbours on either side of a ring")
    return degree


def _whole(text: str, least: int, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) >= least):
        raise InputError(f"{text!r} must be a whole number from {least} to 999,999,999: {what}")
    return int(text)


#: Name → protocol, from strict to loose, then the two that average models.
PROTOCOLS = {
    "bsp": Protocol(bulk_synchronous, _nothing, "bsp"),
    "ssp": Protocol(stale_synchronous, _staleness, "ssp:3"),
    "asp": Protocol(asynchronous, _nothing, "asp"),
    "local-sgd": Protocol(local_sgd, _period, "local-sgd:8"),
    "gossip": Protocol(gossip, _graph, "gossip:ring", default="ring"),
}


@dataclass(frozen=True, slots=True)
class Consistency:
    """A protocol and its parameter: the bound of ``ssp``, the period of ``local-sgd``, the graph of ``gossip``.

    Made by `consistency_named`, which checks both.
    """

    name: str
    parameter: Parameter = None

    def __str__(self) -> str:
        return self.name if self.parameter is None else f"{self.name}:{self.parameter}"

    def rule(self, workers: int) -> Rule:
        """The rule among this many workers."""
        return PROTOCOLS[self.name].rule(self.parameter, workers)

    def degree(self, workers: int) -> int | None:
        """The neighbours that a worker exchanges with, None where it exchanges with all."""
        return degree_of(self.parameter, workers) if self.name == "gossip" and self.parameter is not None else None


def consistency_named(spec: str) -> Consistency:
    """Return the protocol that a text names.

    ``bsp``, ``ssp:3`` (staleness bound), ``asp``, ``local-sgd:8`` (steps between averages), ``gossip`` (on a ring),
    ``gossip:torus`` (or another of `GRAPHS`), ``gossip:4`` (the two nearest on either side of a ring). Raises
    `InputError` for an unknown name, and for a parameter that is missing, not wanted or out of range.
    """
    name, colon, text = spec.partition(":")
    if name not in PROTOCOLS:
        raise unknown_name("consistency protocol", name, [protocol.example for protocol in PROTOCOLS.values()])
    protocol = PROTOCOLS[name]
    if not colon:
        if protocol.default is None and protocol.example != name:
            raise InputError(f"consistency {spec!r} needs a number: write {protocol.example}")
        return Consistency(name, protocol.default)
    try:
        return Consistency(name, protocol.read(text))
    except InputError as error:
        raise InputError(f"consistency {spec!r}: {error}; write it like {protocol.example}") from None
