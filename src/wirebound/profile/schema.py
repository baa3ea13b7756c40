"""PROFILE.json: what `wirebound profile` and `wirebound import` write and every later step reads.

One versioned document; standard library only. `data/profile.schema.json` is the same contract as a JSON Schema. All
sizes are in bytes and all times in seconds. Fields that are not named here are ignored by the reader, so that a writer
may add some without a new version.
"""

import dataclasses
import json
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirebound.errors import InputError, undecodable
from wirebound.files import parse_json, require_input_name, write_text
from wirebound.model import Tensor, Workload
from wirebound.model.workload import GRADIENT_DTYPES
from wirebound.profile.fields import LARGEST_BATCH, LARGEST_RANKS, LARGEST_SIZE, Fields
from wirebound.profile.observations import (
    CounterSeries,
    HookOverhead,
    PeakMemory,
    RankTiming,
    item_document,
    read_overhead,
    read_peak_memory,
    read_ranks,
    read_series,
)

SCHEMA = "wirebound-profile"
#: A reader of this version takes every minor version: those only add fields. 1 added how a profile was measured:
#: device, clock, loading, memory, ranks, counters, disturbed.
VERSION, MINOR = 1, 1

#: How a profile's compute times were obtained, as in `wirebound.model.Workload.timing`.
TIMINGS = ("measured", "flop-proportional", "flop-estimated")

#: A median may differ by this share, and by what rounding to nanoseconds makes, from that of the times beside it.
_MEDIAN_TOLERANCE, _ROUNDED_S = 0.01, 2e-9

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TensorProfile:
    """One gradient tensor, in the order in which gradients become ready.

    `size` is in bytes (``bytes`` in the document); `registration` is the index in the model's parameter order. `gap_s`
    is the median backward time since the tensor before it became ready, `gap_spread_s` that gap's interquartile range,
    `ready_spread` the interquartile range of ready time ÷ the step's backward time. `forward_s` is the forward time of
    its layer, None where it was not measured. `ready_samples` has ready ÷ backward of each step, each between 0 and 1.
    `shape` is in elements, outputs first, empty where it is not known.
    """

    name: str
    size: int
    registration: int
    gap_s: float
    gap_spread_s: float | None = None
    ready_spread: float | None = None
    forward_s: float | None = None
    ready_samples: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectiveTiming:
    """One collective operation at one size: `size` bytes of buffer per rank (``bytes`` in the document).

    `median_s` and `spread_s` (interquartile range) are over the repetitions, whose times are `times_s` where they were
    kept. `backend` names the library, `rate_Bps` the link speed in bytes per second where one was set on purpose.
    """

    collective: str
    ranks: int
    size: int
    median_s: float
    spread_s: float | None = None
    times_s: tuple[float, ...] = ()
    backend: str | None = None
    rate_Bps: float | None = None  # noqa: N815 - the unit is bytes per second


@dataclass(frozen=True, slots=True)
class BatchTiming:
    """Forward and backward times in seconds of the measured steps at one batch size, in the order of the steps."""

    batch_size: int
    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """One measured or imported job: compute times, gradient tensors, collectives, and what was odd about them.

    `tensors` is empty where only collectives were measured, `collectives` where only compute was; `batch_size` is None
    where it is not known. `steps` counts the measured steps. `forward_samples_s` and `backward_samples_s` have each
    step's forward and backward time. `batch_samples` has a few steps at each of several batch sizes, in rising order,
    where those were measured. `device` is the kind of device that computed, `clock` how it was timed (``cpu-timer``,
    ``cuda-events``). `loading_samples_s` has how long each step's batch took to be loaded and on the device, which the
    step's own times leave out. `ranks` has the medians of every rank, where several profiled their models at the same
    time; the rest is then of rank 0. `disturbed` is true when other work was running: `warnings` has the signs.
    """

    name: str
    source: str
    machine: Mapping[str, Scalar]
    steps: int
    batch_size: int | None = None
    gradient_dtype: str = "fp32"
    timing: str = "measured"
    forward_s: float = 0.0
    optimizer_s: float = 0.0
    tensors: tuple[TensorProfile, ...] = ()
    forward_samples_s: tuple[float, ...] = ()
    backward_samples_s: tuple[float, ...] = ()
    batch_samples: tuple[BatchTiming, ...] = ()
    hook_overhead: HookOverhead | None = None
    collectives: tuple[CollectiveTiming, ...] = ()
    vector_add: tuple[tuple[float, float], ...] = ()
    warnings: tuple[str, ...] = field(default=())
    device: str | None = None
    clock: str | None = None
    loading_samples_s: tuple[float, ...] = ()
    peak_memory: PeakMemory | None = None
    ranks: tuple[RankTiming, ...] = ()
    counters: tuple[CounterSeries, ...] = ()
    disturbed: bool = False

    @property
    def loading_s(self) -> float | None:
        """Median seconds until a step's batch was on the device, None where no data was loaded."""
        return statistics.median(self.loading_samples_s) if self.loading_samples_s else None

    def workload(self) -> Workload:
        """Return the training step without any network; raises `InputError` when the profile has no tensors."""
        if not self.tensors:
            raise InputError(f"profile {self.name!r} has no gradient tensors, only collectives: it is not a workload")
        if self.batch_size is None:
            raise InputError(f"profile {self.name!r} does not give its batch size: add batch_size to the file")
        return Workload(
            name=self.name,
            batch_size=self.batch_size,
            tensors=tuple(Tensor(t.name, t.size, t.gap_s, t.forward_s, t.shape or None) for t in self.tensors),
            forward_s=self.forward_s,
            optimizer_s=self.optimizer_s,
            timing=self.timing,
            vector_add=self.vector_add,
            gradient_dtype=self.gradient_dtype,
            source=self.source,
        )


def load_profile(path: Path | str) -> Profile:
    """Read a profile; raises `InputError` with one line that names the file and, by its JSON path, the bad field."""
    path = Path(path)
    require_input_name(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such profile, the file does not exist: measure one with 'wirebound profile --out PROFILE.json'"
        ) from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder, not a profile") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not a profile: it is not UTF-8 text") from None
    try:
        document = parse_json(text, str(path))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError: also a whole number of thousands of digits
        if isinstance(error, json.JSONDecodeError):
            place = f"at line {error.lineno}, column {error.colno}"
        else:
            place = undecodable(error)
        raise InputError(f"{path}: is not whole JSON ({place}): is the file cut off or not a profile?") from None
    return profile_from_document(document, where=str(path))


def profile_from_document(document: object, *, where: str = "profile") -> Profile:
    """Check a parsed document and return its profile; `where` begins every message."""
    fields = Fields.of_document(document, where)
    schema = fields.text("schema", default="")
    if schema == "wirebound-fit":
        raise InputError(f"{where}: is a fit, not a profile: give it with --network, and here the PROFILE.json")
    if schema != SCHEMA:
        raise InputError(f"{where}: is not a profile: its field 'schema' must be {SCHEMA!r}")
    version = fields.integer("version", minimum=1)
    if version != VERSION:
        raise InputError(f"{where}: has profile version {version}: this program reads version {VERSION}")
    fields.optional_integer("minor", minimum=0)
    return Profile(
        name=fields.text("name"),
        source=fields.text("source"),
        machine=fields.scalars("machine"),
        steps=fields.integer("steps", minimum=0),
        batch_size=fields.optional_integer("batch_size", minimum=1, maximum=LARGEST_BATCH),
        gradient_dtype=fields.choice("gradient_dtype", tuple(GRADIENT_DTYPES)),
        timing=fields.choice("timing", TIMINGS, default="measured"),
        forward_s=fields.seconds("forward_s"),
        optimizer_s=fields.seconds("optimizer_s"),
        tensors=_tensors(fields.objects("tensors")),
        forward_samples_s=fields.many_seconds("forward_samples_s"),
        backward_samples_s=fields.many_seconds("backward_samples_s"),
        batch_samples=_batch_samples(fields.objects("batch_samples", required=False)),
        hook_overhead=read_overhead(fields.optional_object("hook_overhead")),
        collectives=_collectives(fields.objects("collectives")),
        vector_add=tuple(
            (item.number("bytes", positive=True, maximum=LARGEST_SIZE), item.seconds("seconds"))
            for item in fields.objects("vector_add", required=False)
        ),
        warnings=fields.texts("warnings"),
        device=fields.optional_text("device"),
        clock=fields.optional_text("clock"),
        loading_samples_s=fields.many_seconds("loading_samples_s"),
        peak_memory=read_peak_memory(fields.optional_object("peak_memory")),
        ranks=read_ranks(fields.objects("ranks", required=False)),
        counters=tuple(read_series(item) for item in fields.objects("counters", required=False)),
        disturbed=fields.flag("disturbed", default=False),
    )


def _tensors(items: list[Fields]) -> tuple[TensorProfile, ...]:
    found: dict[tuple[str, int | str], Fields] = {}
    tensors = []
    for item in items:
        tensor = _tensor(item)
        for name, value in (("registration", tensor.registration), ("name", tensor.name)):
            first = found.setdefault((name, value), item)
            if first is not item:
                raise InputError(
                    f"{item.where}: field {item.path}.{name} is {value!r:.60}, which {first.path} has already: no two"
                    " tensors have the same"
                )
        tensors.append(tensor)
    return tuple(tensors)


def _tensor(fields: Fields) -> TensorProfile:
    return TensorProfile(
        name=fields.text("name"),
        size=fields.integer("bytes", minimum=1, maximum=LARGEST_SIZE),
        registration=fields.integer("registration", minimum=0),
        gap_s=fields.seconds("gap_s"),
        gap_spread_s=fields.optional_seconds("gap_spread_s"),
        ready_spread=fields.optional_number("ready_spread"),
        forward_s=fields.optional_seconds("forward_s"),
        ready_samples=fields.numbers("ready_samples", maximum=1.0),
        shape=fields.integers("shape", minimum=1),
    )


def _batch_samples(items: list[Fields]) -> tuple[BatchTiming, ...]:
    samples: list[BatchTiming] = []
    for item in items:
        batch_size = item.integer("batch_size", minimum=1, maximum=LARGEST_BATCH)
        if samples and batch_size <= samples[-1].batch_size:
            raise InputError(
                f"{item.where}: field {item.path}.batch_size is {batch_size}, but {samples[-1].batch_size} comes before"
                " it: they must rise"
            )
        forward_s, backward_s = (item.many_seconds(name, positive=True) for name in ("forward_s", "backward_s"))
        for name, times in (("forward_s", forward_s), ("backward_s", backward_s)):
            if not times:
                raise InputError(f"{item.where}: field {item.path}.{name} must have the time of one step at least")
        samples.append(BatchTiming(batch_size, forward_s, backward_s))
    return tuple(samples)


def _collectives(items: list[Fields]) -> tuple[CollectiveTiming, ...]:
    found: dict[tuple[object, ...], Fields] = {}
    timings = []
    for item in items:
        timing = _collective(item)
        first = found.setdefault((timing.collective, timing.ranks, timing.size, timing.backend, timing.rate_Bps), item)
        if first is not item:
            raise InputError(
                f"{item.where}: {item.path} has the {timing.collective!r:.60} of {timing.ranks} ranks at {timing.size}"
                f" bytes, which {first.path} has already: keep one of them"
            )
        if timing.times_s:
            middle = statistics.median(timing.times_s)
            if abs(timing.median_s - middle) > _MEDIAN_TOLERANCE * middle + _ROUNDED_S:
                raise InputError(
                    f"{item.where}: field {item.path}.median_s is {timing.median_s:g}, but the median of its times_s is"
                    f" {middle:g}: measure it again, or leave times_s out"
                )
        timings.append(timing)
    return tuple(timings)


def _collective(fields: Fields) -> CollectiveTiming:
    return CollectiveTiming(
        collective=fields.text("collective"),
        ranks=fields.integer("ranks", minimum=1, maximum=LARGEST_RANKS),
        size=fields.integer("bytes", minimum=1, maximum=LARGEST_SIZE),
        median_s=fields.seconds("median_s", positive=True),
        spread_s=fields.optional_seconds("spread_s"),
        times_s=fields.many_seconds("times_s", positive=True),
        backend=fields.optional_text("backend"),
        rate_Bps=fields.optional_number("rate_Bps", positive=True),
    )


#: Lists of objects; those of the second kind are left out where there are none.
_LISTS, _OPTIONAL_LISTS = ("tensors", "collectives"), ("batch_samples", "ranks", "counters")
#: Fields that are left out where nothing was measured.
_OPTIONAL = ("forward_samples_s", "backward_samples_s", "loading_samples_s", "device", "clock", "disturbed")


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return the profile as the document that `save_profile` writes; fields that were not measured are left out."""
    document: dict[str, Any] = {"schema": SCHEMA, "version": VERSION, "minor": MINOR}
    for name, value in ((f.name, getattr(profile, f.name)) for f in dataclasses.fields(profile)):
        if name in _LISTS or (name in _OPTIONAL_LISTS and value):
            document[name] = [item_document(item) for item in value]
        elif name == "vector_add":
            if value:
                document[name] = [{"bytes": size, "seconds": seconds} for size, seconds in value]
        elif name == "hook_overhead":
            document[name] = None if value is None else dataclasses.asdict(value)
        elif name == "peak_memory":
            if value is not None:
                document[name] = item_document(value)
        elif name == "machine":
            document[name] = dict(value)
        elif name not in (*_OPTIONAL, *_OPTIONAL_LISTS) or value:
            document[name] = list(value) if isinstance(value, tuple) else value
    return document


def save_profile(profile: Profile, path: Path | str) -> None:
    """Write a profile as JSON; an older file at `path` is replaced only once the new one is whole.

    Raises `InputError` when the profile itself breaks the schema (a NaN, a negative time) or its folder is missing.
    """
    document = profile_document(profile)
    profile_from_document(document, where=f"profile {profile.name!r}")
    write_json(document, path)


def write_json(document: Mapping[str, Any], path: Path | str) -> None:
    """Write one JSON document, whole or not at all; raises `InputError` when the folder is missing."""
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    # A list of numbers on one line; no string can match, for JSON writes a newline inside one as \n.
    text = re.sub(r"\[\n([-+.,eE\d\s]+?)\n\s*\]", lambda match: "[" + " ".join(match[1].split()) + "]", text)
    write_text(Path(path), text)
