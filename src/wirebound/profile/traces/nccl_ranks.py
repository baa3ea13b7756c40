"""How many ranks took part, and in which collective: from busbw ÷ algbw, which headers can only confirm or contradict.

The bus bandwidth of nccl-tests is the algorithm's times 2(n−1)/n for an all-reduce, (n−1)/n for an all-gather, a
reduce-scatter and an all-to-all, and 1 for the others (nccl-tests, doc/PERFORMANCE.md).
"""

from dataclasses import dataclass

#: Printed bandwidths are rounded to this half unit, in GB/s.
_ROUNDING = 0.0051
_MOST_RANKS = 1 << 17
_TWICE, _ONCE = ("all_reduce",), ("all_gather", "reduce_scatter", "all_to_all")


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """What a file tells about its ranks and its collective.

    `pairs` are (algbw, busbw) in GB/s; `counted` the values of bytes ÷ (count × element bytes): 1, or the ranks where
    the count is per rank; `reduces` and `rooted` whether the columns name a reduction and a root; `named` the
    collective by the program's name, or, `named_by_file`, by the file's; `listed` the ranks in the list of devices;
    `gpus` the threads × GPUs of one process.
    """

    pairs: tuple[tuple[float, float], ...]
    counted: tuple[int, ...]
    reduces: bool
    rooted: bool
    named: str | None
    named_by_file: bool
    listed: int | None
    gpus: int | None


def ranks_of_bandwidths(found: Bandwidths) -> tuple[int | None, str | None, list[str], list[str]]:
    """Return ranks, collective, remarks and contradictions; None for what nothing tells."""
    notes: list[str] = []
    contradictions: list[str] = []
    low, high = _ratio(found.pairs)
    if low > high:
        contradictions.append("busbw ÷ algbw differs from row to row: the rows are of several tests or rank counts")
        return found.listed, None, notes, contradictions
    collective = _collective(found, low, high, notes, contradictions)
    possible = _possible_ranks(collective, low, high, found)
    if not possible:
        return found.listed, collective, notes, contradictions
    if found.listed in possible:
        return found.listed, collective, notes, contradictions
    ranks = _roundest(possible, found.gpus)
    span = f"{ranks}" if len(possible) == 1 else f"{ranks} (from {possible[0]} to {possible[-1]} after rounding)"
    if found.listed is not None and found.listed != ranks:
        contradictions.append(f"the header lists {found.listed} ranks, but busbw ÷ algbw is that of {span}")
    elif found.gpus is not None and ranks % found.gpus:
        contradictions.append(
            f"the header names {found.gpus} GPUs a process, but busbw ÷ algbw is that of {span} ranks"
        )
    elif found.gpus is not None and found.gpus != ranks:
        notes.append(
            f"the header names {found.gpus} GPU(s) a process, busbw ÷ algbw is that of {span} ranks: taken for"
            f" {ranks // found.gpus} processes"
        )
    elif found.gpus is None:
        notes.append(f"no header with the ranks: busbw ÷ algbw is that of {span}")
    return ranks, collective, notes, contradictions


def _ratio(pairs: tuple[tuple[float, float], ...]) -> tuple[float, float]:
    """The bounds of busbw ÷ algbw that all rows allow, given that both are rounded; low > high: none."""
    low, high = 0.0, float("inf")
    for algbw, busbw in pairs:
        if algbw >= 0.1 and busbw >= 0.1:
            low = max(low, (busbw - _ROUNDING) / (algbw + _ROUNDING))
            high = min(high, (busbw + _ROUNDING) / (algbw - _ROUNDING))
    return low, high


def _collective(found: Bandwidths, low: float, high: float, notes: list[str], contradictions: list[str]) -> str | None:
    """The collective, by the columns and the ratio; a name confirms it, or decides between those left."""
    if low == 0:  # no row was fast enough to tell
        return None if found.named_by_file or found.named == "unknown" else found.named
    fitting: tuple[str, ...]
    if low > 1 or (high >= 1 and found.reduces and not found.rooted):
        fitting = _TWICE
    elif high < 1:
        fitting = ("reduce_scatter",) if found.reduces else ("all_gather", "all_to_all")
    elif found.reduces:
        fitting = ("reduce",)
    else:
        fitting = ("broadcast",) if found.rooted else ("send_recv", "all_gather", "all_to_all")
    named = None if found.named == "unknown" else found.named
    if named in fitting:
        if found.named_by_file and len(fitting) > 1:
            notes.append(f"columns and busbw ÷ algbw fit {' and '.join(fitting)}: {named} by the file's name")
        return named
    if named is not None and not found.named_by_file:
        contradictions.append(f"the test is named {named}, but busbw ÷ algbw is that of {fitting[0]}")
    if len(fitting) > 1:
        notes.append(f"columns and busbw ÷ algbw fit {' and '.join(fitting)}: taken for {fitting[0]}")
    return fitting[0]


def _possible_ranks(collective: str | None, low: float, high: float, found: Bandwidths) -> list[int]:
    """All rank counts whose ratio lies within the bounds; where counts are per rank these must agree."""
    if collective in _TWICE:
        least, most = _bound(low / 2), _bound(high / 2)
    elif collective in _ONCE:
        least, most = _bound(low), _bound(high)
    else:
        return []
    first, last = max(2, int(least)), int(min(most, _MOST_RANKS))
    ranks = [n for n in range(first, last + 1) if least - 1e-9 <= n <= most + 1e-9]
    per_rank = [count for count in found.counted if count in ranks]
    return per_rank if collective in _ONCE and len(found.counted) == 1 and per_rank else ranks


def _bound(share: float) -> float:
    """n where (n−1)/n is `share`."""
    return 1 / (1 - share) if share < 1 else float("inf")


def _roundest(possible: list[int], gpus: int | None) -> int:
    """The likeliest of several counts: a multiple of the GPUs of a process, with the largest power of two in it."""
    return max(possible, key=lambda n: (gpus is None or n % gpus == 0, n & -n))
