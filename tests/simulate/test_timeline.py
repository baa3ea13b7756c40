"""Timelines: against the numbers of their step, and traces against the rules of the trace-event format."""

import dataclasses
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.model import METHODS, Cluster, Codec, Link, method_named
from wirebound.model.library import builtin_workload
from wirebound.model.method import METHOD_NAMES
from wirebound.simulate.compressors import compressor_named
from wirebound.simulate.step import simulate_step
from wirebound.simulate.timeline import link_utilization_over_time, timeline_of, trace_events, trace_text

from .jobs import UNIT_CLUSTER, clusters, made, workloads

CODEC = Codec(1e-4, 1e-10, 1e-4, 1e-10)


def drawn(workload, cluster, method, *, accumulation=1, steps=1):
    step = simulate_step(workload, cluster, method, accumulation=accumulation)
    return step, timeline_of(step, workload, cluster, method, accumulation=accumulation, steps=steps)


def seconds(timeline, *kinds, resource=None):
    return sum(
        i.end_s - i.start_s
        for i in timeline.intervals
        if i.kind in kinds and (resource is None or i.resource == resource)
    )


def method_of(name, spec):
    method = method_named(name)
    if spec is None or (spec.startswith("gtopk") and method.architecture == "parameter-server"):
        return method
    return dataclasses.replace(method, compressor=compressor_named(spec, CODEC))


@given(
    workloads,
    clusters,
    st.sampled_from(METHOD_NAMES),
    st.sampled_from([None, "fp16", "topk:0.01", "gtopk:0.1"]),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_a_timeline_adds_up_to_its_step(workload, cluster, name, spec, accumulation, steps):
    method = method_of(name, spec)
    step, timeline = drawn(workload, cluster, method, accumulation=accumulation, steps=steps)
    assert seconds(timeline, "forward") == pytest.approx(steps * accumulation * workload.forward_s, rel=1e-6, abs=1e-9)
    assert seconds(timeline, "backward") == pytest.approx(
        steps * accumulation * workload.backward_s, rel=1e-6, abs=1e-9
    )
    assert seconds(timeline, "optimizer") == pytest.approx(steps * workload.optimizer_s, rel=1e-6, abs=1e-9)
    assert seconds(timeline, "encode") == pytest.approx(steps * step.encode_s, rel=1e-6, abs=1e-9)
    assert seconds(timeline, "decode") == pytest.approx(steps * step.decode_s, rel=1e-6, abs=1e-9)
    if "pull" not in timeline.resources:
        assert seconds(timeline, "message") == pytest.approx(steps * step.communication_s, rel=1e-6, abs=1e-9)
    for one, other in itertools.pairwise(timeline.intervals):
        assert one.resource != other.resource or one.end_s <= other.start_s
    ends = [interval.end_s for interval in timeline.intervals]
    assert max(ends) <= steps * step.iteration_s * (1 + 1e-9)
    if step.exposed_s == 0 and method.schedule not in ("priority", "tictac"):
        assert max(ends) == pytest.approx(steps * step.iteration_s)


def test_one_step_by_hand():
    workload = made([2.0, 1.0], [5, 1], forward_s=4.0, optimizer_s=0.5, forwards=[3.0, 1.0])
    _, timeline = drawn(workload, UNIT_CLUSTER, method_named("wfbp-a2a"))
    assert [tuple(interval)[:5] for interval in timeline.intervals] == [
        ("device", "forward", "t1", 0, 1),
        ("device", "forward", "t0", 1, 4),
        ("device", "backward", "t0", 4, 6),
        ("device", "backward", "t1", 6, 7),
        ("device", "optimizer", "optimizer", 12, 12.5),
        ("link", "message", "t0", 6, 11),
        ("link", "message", "t1", 11, 12),
    ]
    assert timeline.resources == ("device", "link")


def test_priority_shows_the_forward_pass_that_waits():
    workload = made([1.0, 1.0], [1, 3], forward_s=6.0, optimizer_s=4.0, forwards=[4.0, 2.0])
    _, timeline = drawn(workload, UNIT_CLUSTER, method_named("bytescheduler-a2a"), steps=2)
    device = [tuple(i)[1:5] for i in timeline.intervals if i.resource == "device"]
    one = [
        ("backward", "t0", 0, 1),
        ("backward", "t1", 1, 2),
        ("optimizer", "t1", 5, 8),
        ("forward", "t1", 8, 10),
        ("optimizer", "t0", 10, 11),
        ("forward", "t0", 11, 15),
    ]
    assert device == one + [(kind, name, start + 15, end + 15) for kind, name, start, end in one]


@given(workloads, clusters, st.sampled_from(sorted(METHODS)), st.integers(1, 60), st.integers(1, 3))
def test_utilization_over_time_averages_to_that_of_the_step(workload, cluster, name, bins, steps):
    step, timeline = drawn(workload, cluster, method_named(name), steps=steps)
    bin_s = step.iteration_s * steps / bins
    shares = link_utilization_over_time(timeline, bin_s)
    width = [min((i + 1) * bin_s, step.iteration_s * steps) - i * bin_s for i in range(len(shares))]
    mean = sum(s * w for s, w in zip(shares, width, strict=True)) / (step.iteration_s * steps)
    # a message shorter than the rounding of the time axis has no interval
    assert mean == pytest.approx(step.link_utilization, rel=1e-6, abs=1e-9)
    assert all(0 <= share <= cluster.inter.utilization * (1 + 1e-6) for share in shares)


def check_trace(document, whole_s):
    """The rules of the trace-event format for complete events, metadata and counters."""
    lanes = {}
    for event in document["traceEvents"]:
        assert event["ph"] in "XMC"
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            continue
        assert 0 <= event["ts"] <= whole_s * 1e6 * (1 + 1e-9)
        if event["ph"] == "X":
            assert event["dur"] > 0
            lanes.setdefault((event["pid"], event["tid"]), []).append(event)
        else:
            assert all(value >= 0 for value in event["args"].values())
    for events in lanes.values():
        for one, other in itertools.pairwise(events):
            assert one["ts"] + one["dur"] <= other["ts"] * (1 + 1e-12) + 1e-9
    named = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert {tid for _, tid in lanes} == set(named)
    return named


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_the_trace_keeps_the_rules_of_its_format(name):
    workload, cluster = builtin_workload("resnet50"), Cluster(8, Link(1.25e9, 2e-5), 4)
    method = dataclasses.replace(method_named(name), compressor=compressor_named("topk:0.01", CODEC))
    step, timeline = drawn(workload, cluster, method, steps=3)
    document = json.loads(trace_text(timeline))
    assert document == trace_events(timeline)
    named = check_trace(document, 3 * step.iteration_s)
    lanes = ["device", "push", "pull"] if name in ("p3", "tictac") else ["device", "link"]
    assert list(named.values()) == lanes
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    for kind, total in (("encode", step.encode_s), ("backward", workload.backward_s)):
        assert sum(e["dur"] for e in events if e["cat"] == kind) == pytest.approx(3e6 * total)
    counters = [event["args"]["percent"] for event in document["traceEvents"] if event["ph"] == "C"]
    assert sum(counters) / len(counters) == pytest.approx(100 * step.link_utilization, rel=1e-6)


def test_one_worker_has_a_device_and_no_link():
    workload = made([1.0], [1])
    step, timeline = drawn(workload, Cluster(1, Link(1.0)), method_named("bsp-a2a"))
    assert timeline.resources == ("device",)
    assert check_trace(trace_events(timeline), step.iteration_s) == {1: "device"}


def test_refused():
    workload = made([1.0], [1])
    step, timeline = drawn(workload, UNIT_CLUSTER, method_named("bsp-a2a"))
    with pytest.raises(InputError, match="steps = 0"):
        timeline_of(step, workload, UNIT_CLUSTER, method_named("bsp-a2a"), steps=0)
    for bin_s in (0.0, -1.0, 1e-9):
        with pytest.raises(InputError, match="must be greater than 0 and at least a millionth"):
            link_utilization_over_time(timeline, bin_s)
