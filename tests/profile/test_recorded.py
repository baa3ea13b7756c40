"""What data/recorded holds: files that load, name no owner, and agree with physics where physics is known."""

import csv
import json
import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from wirebound.errors import InputError
from wirebound.fit.communication import fit_communication, link_parameters
from wirebound.fit.compute import ready_curve
from wirebound.fit.contention import fit_byte_contention, fit_contention
from wirebound.profile import contention, record_utilization
from wirebound.profile.record import COLUMNS, SETTINGS, describe_rows
from wirebound.profile.record_utilization import RATE_MBPS, load_utilization
from wirebound.profile.schema import load_profile
from wirebound.profile.utilization import usage_between, usage_of_communication
from wirebound.study.data import load_table

RECORDED = Path(__file__).parents[2] / "data" / "recorded"
#: A host name, a user's folder, an address: nothing of the kind belongs into a record.
PRIVATE = re.compile(r"/home|/root|/tmp|/Users|\\Users|\d+\.\d+\.\d+\.\d+|hostname")


@pytest.fixture(scope="module")
def profile():
    return load_profile(RECORDED / "profile_cpu_2core.json")


@pytest.fixture(scope="module")
def samples():
    """Times by (ranks, rate in Mbit/s or None), each by size in bytes."""
    series = defaultdict(lambda: defaultdict(list))
    with (RECORDED / "allreduce_samples.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        assert tuple(rows.fieldnames) == COLUMNS
        for row in rows:
            rate = int(row["rate_mbps"]) if row["rate_mbps"] else None
            series[int(row["rank_count"]), rate][int(row["bytes"])].append(float(row["seconds"]))
    return series


def test_profile(profile):
    workload = profile.workload()
    assert workload.size == 269_722 * 4
    assert len(workload.tensors) == 59
    assert workload.tensors[-1].name == "conv.weight"
    assert profile.machine["cores"] == 2
    assert profile.steps >= 6
    assert {timing.ranks for timing in profile.collectives} == {2}
    curve = ready_curve(
        [tensor.ready_samples for tensor in profile.tensors],
        [t.size for t in profile.tensors],
        profile.backward_samples_s,
    )
    assert curve.ready_s()[-1] == pytest.approx(workload.backward_s, rel=1e-3)
    assert 0.99 < curve.median[-1] <= 1


def test_samples_are_complete(samples):
    assert set(samples) == {(setting.ranks, setting.rate_mbps) for setting in SETTINGS}
    for setting in SETTINGS:
        times = samples[setting.ranks, setting.rate_mbps]
        assert tuple(times) == setting.sizes
        assert all(len(values) >= 3 and min(values) > 0 for values in times.values())


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("rate_mbps", [100, 1000])
def test_paced_links_reach_their_rate_but_not_more(samples, ranks, rate_mbps):
    """A paced link's large messages give back the rate that was set: the whole chain from socket to fit."""
    large = {size: times for size, times in samples[ranks, rate_mbps].items() if size >= 2**20}
    points = [(size, time) for size, times in large.items() for time in times]
    fit = fit_communication([size for size, _ in points], [time for _, time in points])
    link = link_parameters(fit, "ring-allreduce", ranks)
    assert 0.85 < link.bandwidth / (rate_mbps * 125_000) < 1.15


def test_records_name_no_owner():
    for file in RECORDED.glob("*.json"):
        if file.name.startswith(("profile", "allreduce", "codec", "contention", "utilization")):
            assert not PRIVATE.search(file.read_text(encoding="utf-8")), file.name
    for name in ("allreduce", "contention", "utilization"):
        record = json.loads((RECORDED / f"{name}_samples.machine.json").read_text(encoding="utf-8"))
        assert record["machine"]["cores"] == 2


def test_a_new_recording_is_read_and_a_cut_one_is_not(tmp_path):
    for name in ("datapackage.json", "allreduce_samples.csv"):
        shutil.copyfile(RECORDED / name, tmp_path / name)
    table = tmp_path / "allreduce_samples.csv"
    lines = table.read_text(encoding="utf-8").splitlines(keepends=True)
    table.write_text("".join(lines[:11]), encoding="utf-8")
    with pytest.raises(InputError, match=rf"it has 10 rows, but its description says {len(lines) - 1}"):
        load_table("allreduce_samples", tmp_path)
    describe_rows(tmp_path, table.name)
    assert len(load_table("allreduce_samples", tmp_path)) == 10
    # Nothing else of the description changes, so that a recording is a small difference.
    describe_rows(tmp_path, table.name)
    table.write_text("".join(lines), encoding="utf-8")
    describe_rows(tmp_path, table.name)
    assert (tmp_path / "datapackage.json").read_bytes() == (RECORDED / "datapackage.json").read_bytes()


def test_contention_samples_are_complete_and_keep_to_the_rates():
    table = load_table("contention_samples", RECORDED)
    assert tuple(table.columns) == contention.COLUMNS
    assert set(table["rate_mbps"]) == set(contention.RATES_MBPS)
    assert set(table["rank"]) == {0, 1}
    assert (table["active_s"] <= table["backward_s"] + 1e-9).all()
    for rate_mbps, rows in table.groupby("rate_mbps"):
        # Two ranks send 1.08 MB each, one message after the other: the wire is busy for that long at least.
        least_s = 269_722 * 4 / (rate_mbps * 125_000)
        assert (rows["active_s"] + rows["exposed_s"]).median() > 0.9 * least_s


def test_the_recorded_contention_bounds_the_slowdown():
    table = load_table("contention_samples", RECORDED)
    alone, under = table["alone_backward_s"], table["backward_s"]
    by_time = fit_contention(alone, under, table["active_s"])
    by_byte = fit_byte_contention(alone, under, table["sent_bytes"])
    # Communication costs the device something, and never as much as standing still while it lasts.
    assert 0 <= by_time.slope_ci95[0] <= by_time.slope <= by_time.slope_ci95[1] < 0.5
    # The processor copies a byte faster than 100 MB/s and slower than its memory.
    assert 1e-11 < by_byte.slope_ci95[1] < 1e-8


def test_the_recorded_use_of_the_link_agrees_with_what_a_ring_sends():
    table = load_table("utilization_samples", RECORDED)
    assert tuple(table.columns) == record_utilization.COLUMNS
    watched = load_utilization(RECORDED)
    assert [series.rank for series in watched] == [0, 1]
    for series in watched:
        steps = len(series.communication_start_s)
        # Two ranks of a ring send the whole of their gradients each, at every step, and little else.
        assert 1 <= series.sent_bytes[-1] / (steps * 269_722 * 4) < 1.02
        assert series.rate_Bps == RATE_MBPS * 125_000
        communicating, training = usage_of_communication(series), usage_between(series, 0, series.time_s[-1])
        # On average the wire keeps to its rate, and it is busier while there is communication.
        assert training.link < communicating.link < 1.05
        # A process of one computing thread and a few that communicate.
        assert 0 < communicating.cpu < 2
        assert series.overhead.pairs >= 3
