"""Traces of several ranks of one job: what of a collective's time was waiting for the last rank."""

import dataclasses
from collections.abc import Sequence

from wirebound.errors import InputError
from wirebound.profile.traces.kineto import KinetoTrace
from wirebound.profile.traces.steps import whole_steps
from wirebound.profile.traces.summary import Collective, TraceSummary

#: The step's number, kind, bytes and position among its like: the same operation on every rank.
_Key = tuple[str, str, int | None, int]


def in_rank_order(traces: Sequence[KinetoTrace]) -> list[KinetoTrace]:
    """Return the traces by rank; raises `InputError` when two are of the same rank or of jobs of different size."""
    known: dict[int, KinetoTrace] = {}
    for trace in traces:
        if trace.rank is not None and (first := known.setdefault(trace.rank, trace)) is not trace:
            raise InputError(f"{first.path} and {trace.path} are both of rank {trace.rank}: give one file of each rank")
    sizes = sorted({trace.world_size for trace in traces if trace.world_size is not None})
    if len(sizes) > 1:
        raise InputError(f"the traces are of jobs of {' and '.join(map(str, sizes))} ranks: give those of one job")
    return sorted(traces, key=lambda trace: -1 if trace.rank is None else trace.rank)


def without_waiting(summaries: Sequence[TraceSummary], traces: Sequence[KinetoTrace]) -> list[TraceSummary]:
    """Return each trace's summary with the transfer time of each collective that all ranks have.

    Transfer is the earliest end minus the latest start over the ranks: only then do all take part. Where the clocks of
    the ranks' machines differ so much that this is not positive, the shortest duration is taken instead, for the last
    rank waits least.
    """
    by_rank = [_keyed(trace) for trace in traces]
    shared = [key for key in by_rank[0] if all(key in other for other in by_rank[1:])]
    transfers, remarks = _transfers(shared, by_rank, [trace.base_us - traces[0].base_us for trace in traces])
    world = traces[0].world_size
    if world is not None and len(traces) < world:
        remarks.append(f"{len(traces)} of {world} ranks given: waiting for the others still counts as transfer")
    lonely = max(map(len, by_rank)) - len(shared)
    if lonely:
        remarks.append(f"{lonely} collective(s) are not in the traces of all ranks")
    return [_with_transfers(summary, own, transfers, remarks) for summary, own in zip(summaries, by_rank, strict=True)]


def _transfers(
    shared: Sequence[_Key], by_rank: Sequence[dict[_Key, Collective]], offsets: Sequence[float]
) -> tuple[dict[_Key, float], list[str]]:
    transfers: dict[_Key, float] = {}
    shortest: dict[_Key, float] = {}
    for key in shared:
        same = [by_key[key] for by_key in by_rank]
        start = max(c.start_us + offset for c, offset in zip(same, offsets, strict=True))
        end = min(c.end_us + offset for c, offset in zip(same, offsets, strict=True))
        transfers[key] = end - start
        shortest[key] = min(c.duration_us or 0.0 for c in same)
    backward = sum(time <= 0 for time in transfers.values())
    if not backward:
        return transfers, []
    return shortest, [
        f"the clocks of the ranks differ: {backward} collective(s) would have ended on one rank before they began on"
        " another; the shortest duration over the ranks is taken for the transfer"
    ]


def _with_transfers(
    summary: TraceSummary, own: dict[_Key, Collective], transfers: dict[_Key, float], remarks: list[str]
) -> TraceSummary:
    keys = {(c.start_us, c.stream): key for key, c in own.items()}
    collectives = []
    for collective in summary.collectives:
        key = keys.get((collective.start_us, collective.stream))
        transfer_us = None if key is None else transfers.get(key)
        collectives.append(dataclasses.replace(collective, transfer_us=transfer_us))
    return dataclasses.replace(summary, collectives=tuple(collectives), warnings=(*summary.warnings, *remarks))


def waiting_us(summary: TraceSummary) -> float:
    """Return how long this rank's collectives waited for the last rank, in µs, over those whose transfer is known."""
    return sum(
        c.duration_us - c.transfer_us
        for c in summary.collectives
        if c.transfer_us is not None and c.duration_us is not None
    )


def _keyed(trace: KinetoTrace) -> dict[_Key, Collective]:
    """The collectives that took time, each under its step and its position among those of its kind and size there."""
    steps = whole_steps(trace)
    counts: dict[tuple[str, str, int | None], int] = {}
    keyed = {}
    for collective in trace.collectives:
        if collective.duration_us is None or collective.kind == "send_recv":
            continue
        asked = collective.start_us if collective.launch_us is None else collective.launch_us
        step = next((number for number, first, last in steps if first <= asked < last), None)
        if step is None and steps:
            continue
        place = (step or "", collective.kind, collective.size)
        keyed[(*place, counts.get(place, 0))] = collective
        counts[place] = counts.get(place, 0) + 1
    return keyed
