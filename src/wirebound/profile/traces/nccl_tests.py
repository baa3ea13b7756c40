"""The output of nccl-tests (``all_reduce_perf`` and its kin), in the layouts that logs leave of it.

A row has size, count, type, then reduction and root where the test has them, then twice (out of place, in place) time,
algbw, busbw and errors. Lines may carry a prefix (``[1,0]<stdout>:``, ``0:``, ``[0]``, ``>``), log lines may stand
between the parts of a row, and the header may be missing or name fewer ranks than took part.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirebound.profile.traces.nccl_ranks import Bandwidths, ranks_of_bandwidths
from wirebound.profile.traces.source import TextSource
from wirebound.profile.traces.summary import collective_kind

#: Bytes of an element by nccl-tests' name of its type.
_TYPE_BYTES = {"double": 8, "int64": 8, "uint64": 8, "float": 4, "int32": 4, "uint32": 4, "half": 2, "bfloat16": 2}
_TYPE_BYTES |= {"int8": 1, "uint8": 1, "char": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "f8e4m3": 1, "f8e5m2": 1}
_TYPE_BYTES |= {"int": 4, "f32": 4, "f16": 2, "bf16": 2, "f64": 8}

#: No size, time or bandwidth is larger; a number that is has been damaged.
_LARGEST = 1e18

_NUMBER = r"(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_FOUR = rf"({_NUMBER}\s+{_NUMBER}\s+{_NUMBER})(?:\s+(N/A|-?{_NUMBER}|nan|-nan|inf))?"
_HEAD = re.compile(
    rf"(?:^|[\s:>\]])(\d+)\s+(\d+)\s+({'|'.join(_TYPE_BYTES)})\s+(?:(sum|prod|max|min|avg|all|mulsum|none)\b\s*)?"
    r"(?:(-?\d+)(?![\d.]))?"
)
_TIMES = re.compile(rf"\s*{_FOUR}(?:\s+{_FOUR})?\s*$")
_PREFIX = re.compile(r"^\s*(?:>\s*)*(?:\[\d+(?:,\d+)?\](?:<\w+>)?:?|\d+:(?=\s))?\s?")
_LOG = re.compile(r"(?:\[\d+\] )?\S*:\d+:\d+ \[\d+\] NCCL .*|NCCL (?:INFO|WARN|TRACE) .*")
_SETTINGS = re.compile(r"nThreads?\s*:?\s*(\d+)\s+nGpus\s*:?\s*(\d+)")
_RANK = re.compile(r"\bRank\s+(\d+)\b.*\bdevice\b")
_TEST = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|sendrecv|gather|scatter)_perf\b")
_UNITS = re.compile(r"\((us|ms|s)\)\s+\(([KMGT]i?[Bb](?:/s|ps)|[KMGT]bit/s)\)", re.IGNORECASE)
_COLUMNS = re.compile(r"\bsize\s+count\s+.*\btime\b")


@dataclass(frozen=True, slots=True)
class NcclRow:
    """One measurement: `size` in bytes, `time_us`, bandwidths in GB/s (10^9 bytes per second)."""

    size: int
    time_us: float
    algbw_gbs: float
    busbw_gbs: float
    in_place: bool


@dataclass(slots=True)
class NcclTests:
    """One file of nccl-tests. `ranks` and `collective` are None where nothing tells them.

    `contradictions` are the reasons, also among the `warnings`, for which the rows cannot be one fit.
    """

    ranks: int | None = None
    collective: str | None = None
    rows: list[NcclRow] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return what `wirebound import --json` prints."""
        return {
            "format": "nccl-tests",
            "ranks": self.ranks,
            "collective": self.collective,
            "rows": [
                {
                    "bytes": row.size,
                    "time_us": row.time_us,
                    "algbw_gbs": row.algbw_gbs,
                    "busbw_gbs": row.busbw_gbs,
                    "in_place": row.in_place,
                }
                for row in self.rows
            ],
            "warnings": self.warnings,
        }


@dataclass(slots=True)
class _Head:
    """The left half of a row; `rest` collects what follows it."""

    size: int
    count: int
    item: int
    operation: str | None
    root: int | None
    rest: str = ""


@dataclass(slots=True)
class _Log:
    """What was found while reading, before it is judged."""

    heads: list[_Head] = field(default_factory=list)
    gpus: set[int] = field(default_factory=set)
    highest_rank: int | None = None
    tests: set[str] = field(default_factory=set)
    units: set[tuple[str, str]] = field(default_factory=set)
    has_columns: bool = False
    orphans: int = 0
    torn: int = 0
    wrong: list[int] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)


def looks_like_nccl_tests(text: str) -> bool:
    """Return whether a piece of a file is nccl-tests output: its header of columns, its settings, or a row."""
    if _COLUMNS.search(text) or _SETTINGS.search(text):
        return True
    return any(match and _TIMES.match(line[match.end() :]) for line in text.splitlines() for match in [_head(line)])


def read_nccl_tests(path: Path) -> NcclTests:
    """Read one file of nccl-tests output; raises `InputError` when it cannot be opened or is no text."""
    source = TextSource(path)
    log = _Log()
    for line in _lines(source):
        _read_line(line, log)
    result = NcclTests()
    result.warnings += source.warnings
    heads = [head for head in log.heads if _add_rows(head, log, result)]
    _judge(heads, log, result, path)
    return result


def _lines(source: TextSource) -> Iterator[str]:
    rest = ""
    while chunk := source.read():
        *whole, rest = (rest + chunk).split("\n")
        yield from whole
    yield rest


def _head(line: str) -> re.Match[str] | None:
    # Only the numbers of a row stand beside each other like this; a line of a log may be long.
    return _HEAD.search(line) if len(line) < 1000 else None


def _read_line(line: str, log: _Log) -> None:
    if match := _SETTINGS.search(line):
        log.gpus.add(int(match[1]) * int(match[2]))
    if match := _RANK.search(line):
        log.highest_rank = max(int(match[1]), log.highest_rank or 0)
    if match := _TEST.search(line):
        log.tests.add(match[1])
    if match := _UNITS.search(line):
        log.units.add((match[1], match[2]))
    log.has_columns = log.has_columns or bool(_COLUMNS.search(line))
    line = _LOG.sub("", line.rstrip("\r"))
    match = _head(line)
    if match:
        operation, root = match[4], None if match[5] is None else int(match[5])
        head = _Head(int(match[1]), int(match[2]), _TYPE_BYTES[match[3]], operation, root, line[match.end() :])
        # The number may have been the first of the times, in a layout without roots.
        if root is not None and (not re.match(r"\s*$|\s+[-\d]", head.rest) or len(head.rest.split()) in (3, 7)):
            head.root, head.rest = None, line[match.start(5) :]
        log.heads.append(head)
        return
    rest = _PREFIX.sub("", line)
    if not _TIMES.match(rest):
        return
    if log.heads and not _TIMES.match(log.heads[-1].rest + " " + rest):
        log.orphans += 1
    elif log.heads:
        log.heads[-1].rest += " " + rest.strip()
    else:
        log.orphans += 1


def _add_rows(head: _Head, log: _Log, result: NcclTests) -> bool:
    match = _TIMES.match(head.rest)
    if match is None:
        log.torn += 1
        return False
    for in_place, columns, errors in ((False, match[1], match[2]), (True, match[3], match[4])):
        if columns is None:
            log.torn += in_place
            continue
        time, algbw, busbw = map(float, columns.split())
        if max(time, algbw, busbw, head.size) > _LARGEST:
            log.torn += 1
            continue
        result.rows.append(NcclRow(head.size, time, algbw, busbw, in_place))
        if errors is not None and _counts_wrong(errors):
            log.wrong.append(head.size)
        if head.size == 0 or time == 0:
            log.empty.append(head.size)
    return True


def _counts_wrong(errors: str) -> bool:
    """Whether the last column counts wrong results (``#wrong``); older tests print the largest error, as 5e-07."""
    return (errors.isdecimal() and int(errors) > 0) or errors.lower().lstrip("-") in ("nan", "inf")


def _at_sizes(sizes: list[int]) -> str:
    distinct = sorted(set(sizes))
    return ", ".join(map(str, distinct[:5])) + (" …" if len(distinct) > 5 else "") + " bytes"


def _judge(heads: list[_Head], log: _Log, result: NcclTests, path: Path) -> None:
    """Fill in ranks and collective, bring the rows to µs and GB/s, and say what is odd."""
    say = result.warnings.append
    if log.torn:
        say(f"{log.torn} row(s) were torn apart by log lines (NCCL_DEBUG) or otherwise damaged: left out")
    if log.orphans:
        say(f"{log.orphans} line(s) of times without their size were left out: log lines tore them from their row")
    if log.wrong:
        say(
            f"{len(log.wrong)} measurement(s) report wrong results, at {_at_sizes(log.wrong)}: the run was faulty, so"
            " do not trust its times"
        )
    if log.empty:
        say(
            f"{len(log.empty)} measurement(s) of no bytes or of no time, at {_at_sizes(log.empty)}: left out of fits"
            " and profiles"
        )
    if not result.rows:
        say("no complete row was found: nothing to import")
    _convert(log, result)
    named = sorted({collective_kind(test) for test in log.tests})
    listed = None if log.highest_rank is None else log.highest_rank + 1
    evidence = Bandwidths(
        pairs=tuple((row.algbw_gbs, row.busbw_gbs) for row in result.rows),
        counted=tuple({head.size // (head.count * head.item) for head in heads if head.count}),
        reduces=any(head.operation not in (None, "none") for head in heads),
        rooted=any((head.root if head.root is not None else -1) >= 0 for head in heads),
        named=named[0] if len(named) == 1 else collective_kind(path.name) if not named else None,
        named_by_file=not named,
        listed=listed,
        gpus=max(log.gpus, default=None),
    )
    result.ranks, result.collective, notes, contradictions = ranks_of_bandwidths(evidence)
    if len(named) > 1:
        contradictions.append(f"the file has several tests: {', '.join(named)}")
    result.contradictions += contradictions
    result.warnings += contradictions + notes


def _convert(log: _Log, result: NcclTests) -> None:
    """Bring times to µs and bandwidths to GB/s; bytes ÷ time tells what the printed bandwidths really are."""
    say, rows = result.warnings.append, result.rows
    times, bandwidths = {unit for unit, _ in log.units}, {unit for _, unit in log.units}
    if len(times) > 1 or len(bandwidths) > 1:
        result.contradictions.append(f"the headers have several units: {', '.join(sorted(times | bandwidths))}")
        say(result.contradictions[-1])
        return
    micro = {"us": 1.0, "ms": 1e3, "s": 1e6}[next(iter(times), "us")]
    ratios = sorted(
        row.size / (row.time_us * micro * 1e3) / row.algbw_gbs for row in rows if row.algbw_gbs >= 0.2 and row.time_us
    )
    printed = next(iter(bandwidths), "GB/s")
    factor = _unit_factor(printed)
    if ratios:
        middle = ratios[len(ratios) // 2]
        names = {1.0: "GB/s", 2**30 / 1e9: "GiB/s", 1 / 8: "Gbps", factor: printed}
        real = min(names, key=lambda value: abs(middle / value - 1))
        if abs(middle / real - 1) > 0.03:
            result.contradictions.append(
                f"bytes ÷ time is {middle:.3g} times the bandwidths: these contradict the times"
            )
            say(result.contradictions[-1])
        elif abs(real / factor - 1) > 0.01:
            say(f"the header says {printed}, but bytes ÷ time shows {names[real]}: read as that")
            factor = real
        elif factor != 1:
            say(f"bandwidths are in {printed}: converted to GB/s")
        odd = sum(abs(ratio / middle - 1) > 0.06 for ratio in ratios)
        if odd:
            result.contradictions.append(
                f"in {odd} measurement(s) bytes ÷ time is not the bandwidth: the rows are damaged"
            )
            say(result.contradictions[-1])
    if micro != 1 or factor != 1:
        result.rows = [
            NcclRow(r.size, r.time_us * micro, r.algbw_gbs * factor, r.busbw_gbs * factor, r.in_place) for r in rows
        ]


def _unit_factor(unit: str) -> float:
    """GB/s in one of this unit."""
    scale = {"k": 1e-6, "m": 1e-3, "g": 1.0, "t": 1e3}[unit[0].lower()]
    if unit[1] == "i":
        scale = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}[unit[0].lower()] / 1e9
    return scale / 8 if "bit" in unit or "b/" in unit or "bps" in unit else scale
