"""Steps with and without communication, of real processes."""

import csv
import io
import json

import pytest

from wirebound.errors import InputError, WireboundError
from wirebound.profile import contention
from wirebound.profile.contention import COLUMNS, ContentionSample, contention_warnings, measure_contention, samples_csv
from wirebound.profile.contention_worker import bucket_ends, within
from wirebound.profile.pacing import pacing_available


def test_buckets_close_once_they_are_full():
    assert bucket_ends([4, 4, 4, 4, 4], 8) == [1, 3, 4]
    assert bucket_ends([100], 8) == [0]
    assert bucket_ends([1, 1], 8) == [1]


def test_active_time_and_bytes_are_those_that_lie_within():
    transfers = [(0.0, 2.0, 100), (3.0, 4.0, 60), (9.0, 10.0, 70)]
    assert within(transfers, 1.0, 3.5) == pytest.approx((1.5, 50 + 30))
    assert within(transfers, 5.0, 8.0) == (0, 0)
    assert within([], 0.0, 1.0) == (0, 0)


@pytest.mark.skipif(not pacing_available(), reason="sockets can be paced on Linux only")
def test_paced_steps_of_two_processes():
    samples = measure_contention((400, 100), pairs=3, batch_size=2)
    assert [(s.rank, s.rate_mbps, s.pair) for s in samples] == [
        (rank, rate, pair) for rank in (0, 1) for rate in (400, 100) for pair in range(3)
    ]
    for sample in samples:
        assert min(sample.alone_forward_s, sample.alone_backward_s, sample.forward_s, sample.backward_s) > 0
        assert 0 <= sample.active_s <= sample.backward_s
        assert sample.exposed_s >= 0
        assert 0 <= sample.sent_bytes <= 269_722 * 4
    # At 100 Mbit/s, 1.08 MB need 86 ms: what backward does not cover is exposed. No busy machine makes that shorter.
    for sample in samples:
        if sample.rate_mbps == 100:
            assert sample.active_s + sample.exposed_s > 0.9 * 269_722 * 4 / 12.5e6
    table = list(csv.DictReader(io.StringIO(samples_csv(samples))))
    assert tuple(table[0]) == COLUMNS
    assert [row["rate_mbps"] for row in table] == ["100"] * 6 + ["400"] * 6


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"ranks": 1}, "2 ranks"),
        ({"pairs": 0}, "1 pair"),
        ({"rates_mbps": ()}, "1 rate"),
        ({"rates_mbps": (100, None)}, "unpaced rate first"),
        ({"rates_mbps": (-1,)}, "greater than 0"),
    ],
)
def test_wrong_options(options, part):
    with pytest.raises(InputError, match=part):
        measure_contention(**options)


def test_pacing_is_needed(monkeypatch):
    monkeypatch.setattr(contention, "pacing_available", lambda: False)
    with pytest.raises(WireboundError, match="Linux only"):
        measure_contention()


def test_a_restless_machine_is_marked():
    def sample(alone_backward_s):
        return ContentionSample(100, 0, 0, 0.1, alone_backward_s, 0.1, 0.2, 0.1, 1000, 0.0)

    assert contention_warnings([sample(0.1), sample(0.101), sample(0.102)]) == []
    [warning] = contention_warnings([sample(0.1), sample(0.15), sample(0.2)])
    assert "not quiet" in warning


def test_recording_writes_table_record_and_description(tmp_path, monkeypatch, capsys):
    samples = [ContentionSample(100, 0, 0, 0.1, 0.1, 0.1, 0.2, 0.1, 1000, 0.0)]
    monkeypatch.setattr(contention, "measure_contention", lambda **_: samples)
    resource = {"name": "contention_samples", "path": "contention_samples.csv", "rows": 7}
    (tmp_path / "datapackage.json").write_text(json.dumps({"resources": [resource]}), encoding="utf-8")
    assert contention.main(["--out", str(tmp_path)]) == 0
    package = json.loads((tmp_path / "datapackage.json").read_text(encoding="utf-8"))
    assert [resource["rows"] for resource in package["resources"]] == [1]
    record = json.loads((tmp_path / "contention_samples.machine.json").read_text(encoding="utf-8"))
    assert record["machine"]["torch_threads"] == 1
    assert contention.main(["--out", str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err
