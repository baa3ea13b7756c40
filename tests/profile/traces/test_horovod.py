"""Horovod timelines made here."""

import json

import pytest

from wirebound.errors import InputError
from wirebound.fit.replay import replay_step
from wirebound.profile.traces.formats import format_of
from wirebound.profile.traces.horovod import read_horovod, summarize
from wirebound.profile.traces.horovod_profile import horovod_profile, horovod_steps

from .tracefiles import horovod_step

STEPS, PERIOD = 4, 5000


def timeline(path, steps=STEPS, ending="\n]\n"):
    events = [event for step in range(steps) for event in horovod_step(1e6 + step * PERIOD, first=step == 0)]
    path.write_text("[\n" + ",\n".join(json.dumps(event) for event in events) + ending, encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", ["\n]\n", "\n", ",\n", ',\n{"ph": "B", "na'])
def test_sums_and_collectives(ending, tmp_path):
    path = timeline(tmp_path / "timeline.json", ending=ending)
    assert format_of(path) == "horovod"
    read = read_horovod(path)
    summary = summarize(read, len(horovod_steps(read)))
    document = summary.document()
    assert (document["format"], document["rank"], document["world_size"], document["steps"]) == ("horovod", 0, 2, STEPS)
    # Per step: a alone for 400 µs; b and c together, from the first one's start to the last one's end.
    assert document["communication_us"] == pytest.approx(STEPS * (400 + 701))
    assert document["computation_us"] is document["overlap_us"] is document["overlap_percent"] is None
    assert [(c["kind"], c["bytes"], c["duration_us"]) for c in document["collectives"][:2]] == [
        ("all_reduce", 4000, 400),
        ("all_reduce", 4004, 701),
    ]
    assert any("records no computation" in line for line in document["warnings"])
    assert any("cut off" in line for line in document["warnings"]) == (ending != "\n]\n")


def test_profile(tmp_path):
    read = read_horovod(timeline(tmp_path / "timeline.json"))
    traced = horovod_profile(read, summarize(read, STEPS), batch_size=8)
    profile = traced.profile
    assert [(t.name, t.size) for t in profile.tensors] == [("grad.a", 4000), ("grad.b", 4000), ("grad.c", 4)]
    assert [t.gap_s for t in profile.tensors] == pytest.approx([0, 400e-6, 100e-6])
    assert profile.forward_s == pytest.approx((PERIOD - 1560) / 1e6)
    assert traced.iteration_s == pytest.approx(PERIOD / 1e6)
    assert [(m.ready_s, m.duration_s) for m in traced.messages] == [
        (0, pytest.approx(400e-6)),
        (pytest.approx(500e-6), pytest.approx(701e-6)),
    ]
    replay = replay_step(profile.workload(), [(m.ready_s, m.duration_s) for m in traced.messages], traced.iteration_s)
    assert replay.predicted_s == pytest.approx(profile.forward_s + 500e-6 + 701e-6)
    assert replay.warning is None


def test_only_a_bracket(tmp_path):
    path = tmp_path / "timeline.json"
    path.write_text("[\n", encoding="utf-8")
    assert format_of(path) == "horovod"
    document = summarize(read_horovod(path), 0).document()
    assert (document["communication_us"], document["collectives"]) == (0, [])
    assert any("cut off at byte 2" in line for line in document["warnings"])
    assert any("nothing was recorded" in line for line in document["warnings"])


def test_too_little_for_a_profile(tmp_path):
    read = read_horovod(timeline(tmp_path / "timeline.json", steps=1))
    with pytest.raises(InputError, match="has 1 whole step"):
        horovod_profile(read, summarize(read, 1))
    text = timeline(tmp_path / "timeline.json").read_text(encoding="utf-8").replace("float32", "quaternion")
    (tmp_path / "timeline.json").write_text(text, encoding="utf-8")
    read = read_horovod(tmp_path / "timeline.json")
    with pytest.raises(InputError, match=r"tensor 'grad\.a' does not tell its size"):
        horovod_profile(read, summarize(read, 2))


def test_ends_without_beginnings_and_odd_times(tmp_path):
    events = [
        {"ph": "E", "ts": 1, "pid": 1},
        {"ph": "B", "name": "ALLREDUCE", "ts": "x", "pid": 1},
        {"ph": "B", "pid": []},
    ]
    events += horovod_step(100, first=True)
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    read = read_horovod(path)
    assert len(read.operations) == 3
    assert any("2 event(s)" in line for line in read.warnings)


def test_a_list_without_operations(tmp_path):
    path = tmp_path / "timeline.json"
    path.write_text('[{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]', encoding="utf-8")
    with pytest.raises(InputError, match="no finished ALLREDUCE"):
        summarize(read_horovod(path), 0)
