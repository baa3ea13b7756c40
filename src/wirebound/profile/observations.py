"""Parts of a profile that tell how it was measured: overhead, memory, the ranks of a run, counters over time.

Standard library only; `wirebound.profile.schema` has the whole document. Sizes are in bytes, times in seconds.
"""

import dataclasses
from dataclasses import dataclass
from itertools import pairwise

from wirebound.errors import InputError
from wirebound.profile.fields import Fields

#: What a peak of memory counts: the tensors allocated on a GPU, or all of a process that is resident.
MEMORY_KINDS = ("cuda-allocated", "process-resident")


@dataclass(frozen=True, slots=True)
class HookOverhead:
    """What watching costs: step time with hooks ÷ without, the median over `pairs` neighbouring steps.

    `ratio_low` and `ratio_high` bound the median with at least `confidence` probability (order statistics). For
    counters it is the time of the same communication with them on ÷ off.
    """

    ratio: float
    ratio_low: float
    ratio_high: float
    confidence: float
    pairs: int


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """The most memory during training, `size` bytes of a `kind` (``bytes`` in the document), and how many before it."""

    kind: str
    size: int
    before: int | None = None


@dataclass(frozen=True, slots=True)
class RankTiming:
    """One rank's medians when every rank of a job profiled its own model at the same time."""

    rank: int
    forward_s: float
    backward_s: float
    optimizer_s: float
    steps: int
    loading_s: float | None = None
    peak_bytes: int | None = None
    disturbed: bool = False

    @property
    def step_s(self) -> float:
        """Seconds of the rank's step, loading left out."""
        return self.forward_s + self.backward_s + self.optimizer_s


@dataclass(frozen=True, slots=True)
class CounterSeries:
    """Counters of one rank, read about every `interval_s` seconds while `phase` went on; all of them only grow.

    `time_s` counts from the first reading. `sent_bytes` is what went out since then by `link_counter` (``tcp``: the
    connections of this process; ``interfaces``: all network interfaces of the machine; None: nothing here counts it).
    `cpu_s` is the processor time of this process, the reader's own left out, `waiting_s` the time that its threads
    waited for a core. `rate_Bps` is the link's speed where it is known. Communication went on between each
    `communication_start_s` and its `communication_end_s`. `overhead` compares times with the counters on and off.
    """

    phase: str
    rank: int
    interval_s: float
    time_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    sent_bytes: tuple[int, ...] = ()
    waiting_s: tuple[float, ...] = ()
    link_counter: str | None = None
    rate_Bps: float | None = None  # noqa: N815 - the unit is bytes per second
    communication_start_s: tuple[float, ...] = ()
    communication_end_s: tuple[float, ...] = ()
    overhead: HookOverhead | None = None


def read_overhead(fields: Fields | None) -> HookOverhead | None:
    """Return the overhead that an object of the document describes."""
    if fields is None:
        return None
    return HookOverhead(
        ratio=fields.number("ratio", positive=True),
        ratio_low=fields.number("ratio_low", positive=True),
        ratio_high=fields.number("ratio_high", positive=True),
        confidence=fields.number("confidence", maximum=1.0),
        pairs=fields.integer("pairs", minimum=1),
    )


def read_peak_memory(fields: Fields | None) -> PeakMemory | None:
    """Return the peak of memory that an object of the document describes."""
    if fields is None:
        return None
    return PeakMemory(
        kind=fields.choice("kind", MEMORY_KINDS),
        size=fields.integer("bytes", minimum=1),
        before=fields.optional_integer("before", minimum=0),
    )


def read_ranks(items: list[Fields]) -> tuple[RankTiming, ...]:
    """Return the timings of all ranks; their numbers must be 0, 1, 2, …"""
    ranks = tuple(
        RankTiming(
            rank=item.integer("rank", minimum=0),
            forward_s=item.seconds("forward_s"),
            backward_s=item.seconds("backward_s"),
            optimizer_s=item.seconds("optimizer_s"),
            steps=item.integer("steps", minimum=1),
            loading_s=item.optional_seconds("loading_s"),
            peak_bytes=item.optional_integer("peak_bytes", minimum=1),
            disturbed=item.flag("disturbed", default=False),
        )
        for item in items
    )
    for index, (item, timing) in enumerate(zip(items, ranks, strict=True)):
        if timing.rank != index:
            raise InputError(f"{item.where}: field {item.path}.rank is {timing.rank}: it must be {index}")
    return ranks


def read_series(fields: Fields) -> CounterSeries:
    """Return one series of counters; every column that it has must be as long as ``time_s``, and never fall."""
    series = CounterSeries(
        phase=fields.text("phase"),
        rank=fields.integer("rank", minimum=0),
        interval_s=fields.seconds("interval_s", positive=True),
        time_s=fields.many_seconds("time_s"),
        cpu_s=fields.many_seconds("cpu_s"),
        sent_bytes=fields.integers("sent_bytes", minimum=0),
        waiting_s=fields.many_seconds("waiting_s"),
        link_counter=fields.optional_text("link_counter"),
        rate_Bps=fields.optional_number("rate_Bps", positive=True),
        communication_start_s=fields.many_seconds("communication_start_s"),
        communication_end_s=fields.many_seconds("communication_end_s"),
        overhead=read_overhead(fields.optional_object("overhead")),
    )
    count = len(series.time_s)
    if count < 2:
        raise InputError(f"{fields.where}: field {fields.path}.time_s has {count} readings: a series needs 2 at least")
    for name in ("time_s", "cpu_s", "sent_bytes", "waiting_s"):
        column = getattr(series, name)
        if len(column) not in ((count,) if name in ("time_s", "cpu_s") else (0, count)):
            raise InputError(f"{fields.where}: field {fields.path}.{name} has {len(column)} values, time_s has {count}")
        if any(after < before for before, after in pairwise(column)):
            raise InputError(f"{fields.where}: field {fields.path}.{name} falls: it must only grow")
    spans = list(zip(series.communication_start_s, series.communication_end_s, strict=False))
    if len(series.communication_start_s) != len(series.communication_end_s) or any(a > b for a, b in spans):
        raise InputError(f"{fields.where}: field {fields.path}.communication_end_s must have one end after each start")
    return series


def item_document(item: object) -> dict[str, object]:
    """Return one part as the object that the document has: what was not measured is left out."""
    assert dataclasses.is_dataclass(item)
    values = ((f.name, getattr(item, f.name)) for f in dataclasses.fields(item))
    return {
        "bytes" if name == "size" else name: (
            list(value)
            if isinstance(value, tuple)
            else dataclasses.asdict(value)
            if dataclasses.is_dataclass(value) and not isinstance(value, type)
            else value
        )
        for name, value in values
        if value is not None and value != () and value is not False
    }
