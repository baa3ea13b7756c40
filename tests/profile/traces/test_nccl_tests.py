"""Output of nccl-tests in the layouts that logs leave of it, written here from a known α and β."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.profile.traces.nccl_profile import nccl_profile, samples
from wirebound.profile.traces.nccl_ranks import Bandwidths, ranks_of_bandwidths
from wirebound.profile.traces.nccl_tests import read_nccl_tests

ALPHA_US, GBS = 50.0, 20.0
SIZES = [2**power for power in range(10, 31, 2)]
BUS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n, "broadcast": lambda n: 1.0}


def time_us(size):
    return ALPHA_US + size / (GBS * 1e3)


def output(ranks=8, collective="all_reduce", *, new=True, header=True, unit="GB/s", scale=1.0, prefix="", error=None):
    """Text of one run; `scale` multiplies the bandwidths, for other units."""
    lines = []
    if header:
        lines += [f"# nThread 1 nGpus {ranks} minBytes 8 maxBytes 1073741824 step: 4(factor) warmup iters: 5 iters: 20"]
        lines += [
            f"#   Rank {rank:2} Pid  12{rank} on  somehost device {rank:2} [0x1a] Some GPU" for rank in range(ranks)
        ]
    lines += ["#       size         count      type   redop    root" + 2 * "     time   algbw   busbw #wrong"]
    lines += ["#        (B)    (elements)                         " + 2 * f"       (us)  ({unit})  ({unit})       "]
    error = error if error is not None else "0" if new else "5e-07"
    for size in SIZES:
        count = size // 4 // (ranks if collective == "all_gather" else 1)
        columns = "sum" if collective == "all_reduce" else "none" if new else ""
        root = "" if not new and collective != "broadcast" else "0" if collective == "broadcast" else "-1"
        alg = scale * size / time_us(size) / 1e3
        half = f"{time_us(size):9.6g} {alg:8.2f} {alg * BUS[collective](ranks):8.2f} {error:>6}"
        lines.append(f"{size:12} {count:12}     float {columns:>7} {root:>6} {half} {half}")
    lines += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 12.3", ""]
    return "\n".join(prefix + line for line in lines)


def read(tmp_path, text, name="log.txt"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_nccl_tests(path)


@pytest.mark.parametrize("prefix", ["", "> ", "0: ", "[1,0]<stdout>:", "    ", "[0] "])
@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("collective", sorted(BUS))
def test_layouts(collective, new, prefix, tmp_path):
    tests = read(tmp_path, output(8, collective, new=new, prefix=prefix))
    assert (tests.collective, tests.ranks) == (collective, 8)
    assert [(row.size, row.in_place) for row in tests.rows] == [(s, p) for s in SIZES for p in (False, True)]
    assert [row.time_us for row in tests.rows[::2]] == pytest.approx([time_us(size) for size in SIZES], rel=1e-5)
    assert tests.contradictions == []


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128])
def test_ranks_without_a_header(ranks, tmp_path):
    tests = read(tmp_path, output(ranks, header=False))
    assert (tests.collective, tests.ranks) == ("all_reduce", ranks)
    assert any("no header with the ranks" in line for line in tests.warnings)


@given(st.integers(2, 4096), st.floats(50, 500), st.sampled_from(["all_reduce", "all_gather"]))
def test_the_true_count_is_always_possible(ranks, algbw, collective):
    pairs = tuple((round(a, 2), round(a * BUS[collective](ranks), 2)) for a in (algbw, algbw / 3, algbw / 10))
    found = Bandwidths(pairs, (), collective == "all_reduce", False, None, False, ranks, None)
    assert ranks_of_bandwidths(found)[0] == ranks
    assert ranks_of_bandwidths(found)[3] == []


def test_headers_that_lie(tmp_path):
    lying = output(16).replace("nGpus 16", "nGpus 8").splitlines()
    tests = read(tmp_path, "\n".join(line for line in lying if not any(f"Rank {r:2} " in line for r in range(8, 16))))
    assert tests.ranks == 16
    assert tests.contradictions == ["the header lists 8 ranks, but busbw ÷ algbw is that of 16"]
    assert tests.contradictions[0] in tests.warnings
    with pytest.raises(InputError, match="the header lists 8 ranks"):
        samples(tests, tmp_path / "log.txt")
    one_each = "\n".join(line for line in output(16).replace("nGpus 16", "nGpus 1").splitlines() if "Rank" not in line)
    tests = read(tmp_path, one_each)
    assert (tests.ranks, tests.contradictions) == (16, [])
    assert any("taken for 16 processes" in line for line in tests.warnings)
    tests = read(tmp_path, one_each.replace("nGpus 1 ", "nGpus 3 "))
    assert "the header names 3 GPUs a process" in tests.contradictions[0]


@pytest.mark.parametrize(
    ("unit", "scale", "says"),
    [
        ("Gbps", 8.0, "bandwidths are in Gbps: converted"),
        ("GB/s", 8.0, "the header says GB/s, but bytes ÷ time shows Gbps"),
        ("GB/s", 1e9 / 2**30, "the header says GB/s, but bytes ÷ time shows GiB/s"),
        ("GiB/s", 1e9 / 2**30, "bandwidths are in GiB/s: converted"),
        ("MB/s", 1000.0, "bandwidths are in MB/s: converted"),
    ],
)
def test_units_of_bandwidth(unit, scale, says, tmp_path):
    tests = read(tmp_path, output(unit=unit, scale=scale))
    assert tests.rows[-1].algbw_gbs == pytest.approx(SIZES[-1] / time_us(SIZES[-1]) / 1e3, rel=1e-3)
    assert any(says in line for line in tests.warnings)
    assert tests.contradictions == []


def test_times_in_other_units(tmp_path):
    text = output().replace("(us)", "(ms)")
    tests = read(tmp_path, text)
    assert "contradict the times" in tests.contradictions[0]


def test_rows_split_by_log_lines(tmp_path):
    lines = output().splitlines()
    index = next(i for i, line in enumerate(lines) if line.lstrip().startswith("65536 "))
    log = "[0] host0:1000:1000 [0] NCCL INFO 65536 Bytes -> Algo 0 proto 0 time 25.874907"
    row = lines[index].split()
    head, first, second = "   ".join(row[:5]), "   ".join(row[5:9]), "   ".join(row[9:])
    lines[index : index + 1] = ["[0]  " + head + log, log, f"[0]   {first}{log}", log, f"   {second}"]
    tests = read(tmp_path, "\n".join(lines))
    assert [row.size for row in tests.rows[::2]] == SIZES
    assert not [line for line in tests.warnings if "torn" in line]
    del lines[index + 4]
    tests = read(tmp_path, "\n".join(lines))
    assert len(tests.rows) == 2 * len(SIZES) - 1
    assert any("1 row(s) were torn" in line for line in tests.warnings)
    tests = read(tmp_path, "\n".join([*lines[:index], *lines[index + 2 :]]))
    assert any("left out: log lines tore them" in line for line in tests.warnings)


def test_errors_and_wrong_results(tmp_path):
    assert len(read(tmp_path, output(error="N/A")).rows) == 2 * len(SIZES)
    warnings = read(tmp_path, output(error="12")).warnings
    assert any(f"{2 * len(SIZES)} measurement(s) report wrong results, at {SIZES[0]}, " in line for line in warnings)
    lines = output().splitlines()
    index = next(i for i, line in enumerate(lines) if line.lstrip().startswith("65536 "))
    lines[index] = lines[index][: lines[index].rindex("0")] + "3"
    warnings = read(tmp_path, "\n".join(lines)).warnings
    assert any("1 measurement(s) report wrong results, at 65536 bytes" in line for line in warnings)


@pytest.mark.parametrize(("size", "time"), [(0, 12.5), (65536, 0)])
def test_rows_of_no_bytes_or_no_time_are_told(size, time, tmp_path):
    half = f"{time:9} {0:8.2f} {0:8.2f} {0:>6}"
    row = f"{size:12} {size // 4:12}     float     sum     -1 {half} {half}"
    tests = read(tmp_path, output() + row + "\n")
    assert any(f"2 measurement(s) of no bytes or of no time, at {size} bytes" in line for line in tests.warnings)
    profile = nccl_profile(tests, tmp_path / "log.txt")
    assert [c.size for c in profile.collectives] == SIZES
    assert any("of no bytes or of no time" in line for line in profile.warnings)


def test_several_tests_in_one_file(tmp_path):
    tests = read(tmp_path, output(8) + output(16))
    assert any("differs from row to row" in line for line in tests.contradictions)
    tests = read(tmp_path, "$ all_reduce_perf -b 8\n" + output(8) + "$ all_gather_perf\n" + output(8, "all_gather"))
    assert any("several tests: all_gather, all_reduce" in line for line in tests.contradictions)


def test_a_name_that_contradicts(tmp_path):
    tests = read(tmp_path, "$ all_gather_perf -g 8\n" + output(8))
    assert tests.contradictions == ["the test is named all_gather, but busbw ÷ algbw is that of all_reduce"]


def test_damaged_rows(tmp_path):
    lines = output().splitlines()
    index = next(i for i, line in enumerate(lines) if line.lstrip().startswith("16777216 "))
    lines[index] = lines[index].replace("16777216 ", "26777216 ", 1)
    tests = read(tmp_path, "\n".join(lines))
    assert "in 2 measurement(s) bytes ÷ time is not the bandwidth" in tests.contradictions[0]


def test_profile(tmp_path):
    profile = nccl_profile(read(tmp_path, output()), tmp_path / "log.txt")
    assert {(c.collective, c.ranks, c.backend) for c in profile.collectives} == {("ring-allreduce", 8, "nccl")}
    assert [c.size for c in profile.collectives] == SIZES
    assert profile.collectives[0].median_s == pytest.approx(time_us(1024) / 1e6, rel=1e-5)
    slow = output(header=False).splitlines()[:4]  # rows too small for a bandwidth tell no ranks
    with pytest.raises(InputError, match="tells no number of ranks"):
        nccl_profile(read(tmp_path, "\n".join(slow)), tmp_path / "log.txt")
