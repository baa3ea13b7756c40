"""The reductions by name, such as ``quantize:2``, ``lowrank:4`` or ``dropout:0.75+quantize:2``.

Up to three parts are joined by ``+``, one of a kind: what is trained (``dropout:SHARE`` of units kept), where the
change may lie (``mask:SHARE``, ``lowrank:RANK``), and how it is encoded (``quantize:BITS``, ``rotated:BITS``,
``qsgd:LEVELS``, ``subsample:SHARE``, ``topk:SHARE``, ``topk-feedback:SHARE``). ``sketch:SHARE``, with a table of that
share of the model's elements, stands alone: the server works inside the sketch. ``none`` sends everything.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from wirebound.errors import InputError, unknown_name
from wirebound.techniques.compress.gradient import checked_share
from wirebound.techniques.compress.topk import TopK
from wirebound.techniques.federated.coders import Coder, Dense, Largest, LevelsOfNorm, Subsample
from wirebound.techniques.federated.flat import FlatModel
from wirebound.techniques.federated.quantize import Quantize
from wirebound.techniques.federated.subspace import LowRank, RandomMask, Subspace

SubspaceMaker = Callable[[FlatModel, torch.Generator], Subspace]

_CODERS: dict[str, Callable[[float], Coder]] = {
    "quantize": lambda bits: Quantize(_whole("quantize", bits)),
    "rotated": lambda bits: Quantize(_whole("rotated", bits), rotated=True),
    "qsgd": lambda levels: LevelsOfNorm(_whole("qsgd", levels)),
    "subsample": Subsample,
    "topk": lambda share: Largest(TopK(share), feedback=False),
    "topk-feedback": lambda share: Largest(TopK(share), feedback=True),
}


def _mask(share: float) -> SubspaceMaker:
    checked_share(share)
    return lambda model, random: RandomMask(len(model.weights), share, random)


def _low_rank(value: float) -> SubspaceMaker:
    rank = _whole("lowrank", value)
    return lambda model, random: LowRank(model.shapes, rank, random)


_SUBSPACES: dict[str, Callable[[float], SubspaceMaker]] = {"mask": _mask, "lowrank": _low_rank}
NAMES = ("none", "dropout", *_SUBSPACES, *_CODERS, "sketch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """What makes a client's upload smaller. `coder` is made anew for each run, as it may remember clients."""

    name: str
    units_share: float | None = None
    subspace: SubspaceMaker | None = None
    coder: Callable[[], Coder] = Dense
    sketch_share: float | None = None


def reduction_named(name: str) -> Reduction:
    """Return a reduction by its name; raises `InputError` for one that is unknown, damaged, or has two of a kind."""
    units_share: float | None = None
    subspace: SubspaceMaker | None = None
    coder: Callable[[], Coder] | None = None
    sketch_share: float | None = None
    parts = name.split("+")
    for part in parts:
        kind, _, text = part.partition(":")
        if kind not in NAMES:
            raise unknown_name("reduction", kind, NAMES)
        taken = {"dropout": units_share, "sketch": sketch_share}.get(kind, subspace if kind in _SUBSPACES else coder)
        if taken is not None or (kind in ("none", "sketch") and len(parts) > 1):
            raise InputError(
                f"reduction {name!r}: {part} does not go with the other parts; see their kinds and leave one"
            )
        if kind == "none":
            if text:
                raise InputError(f"reduction {name!r}: none has no number after it")
            continue
        value = _number(name, part, text)
        if kind == "dropout":
            checked_share(value)
            units_share = value
        elif kind == "sketch":
            checked_share(value)
            sketch_share = value
        elif kind in _SUBSPACES:
            subspace = _SUBSPACES[kind](value)
        else:
            make = _CODERS[kind]
            make(value)  # a number out of range is reported now
            coder = lambda make=make, value=value: make(value)  # noqa: E731
    return Reduction(
        name=name,
        units_share=units_share,
        subspace=subspace,
        coder=coder or Dense,
        sketch_share=sketch_share,
    )


def _number(name: str, part: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"reduction {name!r}: {part!r} needs a number, such as {part.partition(':')[0]}:0.5") from None


def _whole(kind: str, value: float) -> int:
    if not value.is_integer():
        raise InputError(f"{kind}:{value:g} needs a whole number")
    return int(value)
