"""PyTorch traces made here, in old and new layouts, against sums taken another way."""

import copy
import re

import pytest

from wirebound.errors import InputError
from wirebound.profile.traces.kineto import read_kineto
from wirebound.profile.traces.kineto_profile import kineto_profile
from wirebound.profile.traces.kineto_summary import summarize
from wirebound.profile.traces.steps import traced_steps

from .tracefiles import PERIOD, ddp_events, ddp_step, gloo_job, kineto_document, rasterized, write


def summary_of(path):
    return summarize(read_kineto(path))


def brute_force(events):
    """Communication, computation and overlap in µs, on a line of half microseconds."""

    def line(wanted):
        ends = [(round(2 * e["ts"]), round(2 * (e["ts"] + e["dur"]))) for e in events if wanted(e)]
        return rasterized(ends, round(2 * (1000 + 20 * PERIOD)))

    def communicates(event):
        return event.get("cat") == "kernel" and "nccl" in event["name"].lower()

    transfers = line(communicates)
    computing = line(lambda e: e.get("cat") == "kernel" and not communicates(e))
    return transfers.sum() / 2, computing.sum() / 2, (transfers & computing).sum() / 2


def old_layout(events):
    """The same events as the profiler wrote them years ago: categories, kernel names, whole microseconds, no sizes."""
    categories = {"kernel": "Kernel", "cuda_runtime": "Runtime", "cpu_op": "Operator", "user_annotation": "Operator"}
    old = copy.deepcopy(events)
    for event in old:
        event["cat"] = categories.get(event["cat"], event["cat"])
        event["ts"] = round(event["ts"] - 0.5)
        if "dur" in event:
            event["dur"] = round(event["dur"])
        if "nccl" in event["name"]:
            event["name"] = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
            event["args"] = {key: event["args"][key] for key in ("correlation", "stream")}
    return [event for event in old if event["cat"] != "gpu_user_annotation"]


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_sums_are_those_of_the_rasterized_line(name, tmp_path):
    events = ddp_events()
    summary = summary_of(write(tmp_path / name, kineto_document(events)))
    transfers, computing, both = brute_force(events)
    assert (summary.communication_us, summary.computation_us, summary.overlap_us) == pytest.approx(
        (transfers, computing, both)
    )
    # By hand: per step 300 of 800 µs of transfer lie under backward's second kernel.
    assert (transfers, both) == (3 * 800, 3 * 300)
    assert summary.document()["overlap_percent"] == pytest.approx(37.5)
    assert (summary.rank, summary.world_size, summary.steps) == (0, 2, 3)
    assert [c.size for c in summary.collectives] == [4000, 8000] * 3
    assert {(c.kind, c.stream, c.ranks) for c in summary.collectives} == {("all_reduce", 20, 2)}
    assert summary.warnings == ()


def test_the_old_layout_has_the_same_sums(tmp_path):
    events = old_layout(ddp_events())
    document = {"traceEvents": events, "distributedInfo": {"rank": 1}}
    summary = summary_of(write(tmp_path / "old.json", document))
    assert (summary.communication_us, summary.overlap_us) == (2400, 900)
    assert (summary.rank, summary.world_size, summary.steps) == (1, None, 3)
    assert {c.size for c in summary.collectives} == {None}
    assert "does not tell its world size" in summary.warnings[0]
    assert "6 of 6 collectives do not tell their size" in summary.warnings[1]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all_reduce"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long)", "all_gather"),
        ("ncclkernel_reducescatter_ring_ll_sum_half", "reduce_scatter"),
        ("NCCLDEVKERNEL_BROADCAST", "broadcast"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("ncclDevKernel_Generic(ncclDevComm*)", "unknown"),
    ],
)
def test_kinds_by_kernel_name(name, kind, tmp_path):
    event = {"ph": "X", "cat": "kernel", "name": name, "ts": 5, "dur": 7, "pid": 0, "tid": 3, "args": {}}
    summary = summary_of(write(tmp_path / "t.json", {"traceEvents": [event]}))
    assert [(c.kind, c.duration_us) for c in summary.collectives] == [(kind, 7)]
    assert summary.communication_us == 7


def test_sizes_from_the_operation_that_launched(tmp_path):
    events = ddp_events(1)
    kernels = [event for event in events if event["cat"] == "kernel" and "nccl" in event["name"]]
    for event, elements in zip(kernels, (1000, 2000), strict=True):
        event["args"] = {"correlation": event["args"]["correlation"], "stream": 20}
        arguments = {"In msg nelems": elements, "Out msg nelems": elements, "dtype": "BFloat16"}
        around = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 9, "tid": 2}
        events.append(around | {"ts": event["ts"] - 60, "dur": 30, "args": arguments})
    summary = summary_of(write(tmp_path / "t.json", kineto_document(events)))
    assert [(c.size, c.dtype) for c in summary.collectives] == [(2000, "bf16"), (4000, "bf16")]


def test_steps_are_divided(tmp_path):
    trace = read_kineto(write(tmp_path / "t.json", kineto_document(ddp_events())))
    steps = traced_steps(trace)
    assert [step.number for step in steps] == ["1", "2", "3"]
    for step in steps[:2]:
        assert step.duration_us == pytest.approx(PERIOD)
        assert step.forward_us == pytest.approx(1200)
        assert step.ready_us == pytest.approx((1000, 2000))
        assert step.waited_us == pytest.approx(500)
        assert step.rest_us == pytest.approx(PERIOD - 1200 - 2000 - 500)
    # The mark of the last one ends 50 µs after its optimizer.
    assert steps[2].duration_us == pytest.approx(3200 + 500 + 200 + 50)


def test_profile_of_a_trace(tmp_path):
    trace = read_kineto(write(tmp_path / "t.json", kineto_document(ddp_events())))
    traced = kineto_profile(trace, summarize(trace), batch_size=32)
    profile = traced.profile
    assert [(t.size, t.gap_s) for t in profile.tensors] == [(4000, pytest.approx(1e-3)), (8000, pytest.approx(1e-3))]
    assert profile.forward_s == pytest.approx(1.2e-3)
    assert (profile.batch_size, profile.gradient_dtype, profile.steps) == (32, "fp32", 3)
    assert [(c.collective, c.ranks, c.size) for c in profile.collectives] == [
        ("ring-allreduce", 2, 4000),
        ("ring-allreduce", 2, 8000),
    ]
    assert [c.median_s for c in profile.collectives] == pytest.approx([300e-6, 500e-6])
    assert traced.iteration_s == pytest.approx(PERIOD / 1e6)
    assert profile.workload().compute_s == pytest.approx(PERIOD / 1e6 - 500e-6)


def test_a_device_that_lags_behind_its_host(tmp_path):
    """The host runs two steps ahead: activity belongs to the step that launched it."""
    events = ddp_events(4)
    for event in events:
        if event["cat"] in ("kernel", "gpu_user_annotation"):
            event["ts"] += 2 * PERIOD
    trace = read_kineto(write(tmp_path / "t.json", kineto_document(events)))
    steps = traced_steps(trace)
    assert [len(step.messages) for step in steps] == [2] * 4
    assert steps[1].ready_us == pytest.approx((1000, 2000))
    assert steps[1].duration_us == pytest.approx(PERIOD)
    assert not [line for line in summarize(trace).warnings if "outside" in line]


def test_messages_that_queue(tmp_path):
    events = ddp_events(3, transfer=(1500.0, 500.0))
    for event in events:  # the second all-reduce begins when the first has ended, 500 µs after it is ready
        if event["cat"] == "kernel" and event["args"].get("In msg nelems") == 2000:
            event["ts"] += 501
    trace = read_kineto(write(tmp_path / "t.json", kineto_document(events)))
    step = traced_steps(trace)[1]
    assert step.queued == 1
    assert step.ready_us == pytest.approx((1000, 1950))  # when the host asked, 50 µs ahead of its device
    assert "queued behind another" in " ".join(kineto_profile(trace, summarize(trace)).profile.warnings)


def test_partly_recorded_steps_are_doubted(tmp_path):
    events = [event for event in ddp_events(3) if event["name"] != "ProfilerStep#3"]
    warnings = summary_of(write(tmp_path / "t.json", kineto_document(events))).warnings
    assert any(re.search(r"3\d% of the activity lies outside the 2 marked", line) for line in warnings)
    events = ddp_events(3)
    events.remove(next(e for e in events if e["cat"] == "kernel" and "nccl" in e["name"]))
    warnings = summary_of(write(tmp_path / "t.json", kineto_document(events))).warnings
    assert any("1 to 2 collectives" in line for line in warnings)
    events = [event for event in ddp_events(3) if not event["name"].startswith("ProfilerStep")]
    warnings = summary_of(write(tmp_path / "t.json", kineto_document(events))).warnings
    assert any("no ProfilerStep marks" in line for line in warnings)


def test_marks_on_the_device_only_are_counted_once(tmp_path):
    events = [e for e in ddp_events(2) if e["cat"] != "user_annotation"]
    assert summary_of(write(tmp_path / "t.json", kineto_document(events))).steps == 2


def test_gloo_on_the_processor(tmp_path):
    trace = read_kineto(write(tmp_path / "t.json", {"traceEvents": gloo_job()}))
    summary = summarize(trace)
    assert (summary.communication_us, summary.computation_us, summary.overlap_us) == (300, 530, 5)
    assert [(c.kind, c.size, c.stream, c.launch_us) for c in summary.collectives] == [("all_reduce", 1000, 77, 540)]
    step = traced_steps(trace)[0]
    assert (step.forward_us, step.ready_us, step.duration_us) == (300, (240,), 1000)
    assert step.waited_us == 845 - 550
    assert any("no device activity" in line for line in summary.warnings)


def test_launches_of_nccl_are_no_transfers(tmp_path):
    events = gloo_job()
    events[4]["name"] = "nccl:all_reduce"
    trace = read_kineto(write(tmp_path / "t.json", {"traceEvents": events}))
    summary = summarize(trace)
    assert summary.communication_us == 0
    assert summary.document()["collectives"][0]["duration_us"] is None
    assert any("only seen being launched" in line for line in summary.warnings)
    with pytest.raises(InputError, match=r"only seen being launched: record ProfilerActivity\.CUDA"):
        kineto_profile(trace, summary)


def without_autograd(events):
    return [event for event in events if "autograd" not in event["name"]]


def without_sizes(events):
    return old_layout(events)


def without_all_reduces(events):
    return [event for event in events if "nccl" not in event["name"]]


def without_marks(events):
    return [event for event in events if "ProfilerStep" not in event["name"]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_autograd, "no operations of autograd"),
        (without_sizes, "2 of 2 all-reduces in a step do not tell their size"),
        (without_all_reduces, "no gradient all-reduces"),
        (without_marks, "no ProfilerStep marks"),
    ],
)
def test_what_is_missing_is_said(change, reason, tmp_path):
    trace = read_kineto(write(tmp_path / "t.json", kineto_document(change(ddp_events()))))
    with pytest.raises(InputError, match=reason):
        kineto_profile(trace, summarize(trace))


def test_steps_of_other_sizes_are_left_out(tmp_path):
    events = ddp_step(1, 0.0, buckets=(3000, 100)) + [e for s in (2, 3) for e in ddp_step(s, (s - 1) * PERIOD)]
    trace = read_kineto(write(tmp_path / "t.json", kineto_document(events)))
    profile = kineto_profile(trace, summarize(trace)).profile
    assert [tensor.size for tensor in profile.tensors] == [4000, 8000]
    assert any("1 step(s) with other message sizes" in line for line in profile.warnings)


def test_odd_values_do_no_harm(tmp_path):
    events = ddp_events()
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7}
    odd = [{"ts": float("nan"), "dur": 1}, {"ts": 5, "dur": -1}, {"ts": None}, {"ts": 5, "dur": {}}, {"ts": 1e300}]
    events += [kernel | values for values in odd]
    events += [kernel | {"ts": "7", "dur": "2", "args": []}, {"ph": "X", "cat": ["kernel"]}, {"ph": []}]
    summary = summary_of(write(tmp_path / "t.json", kineto_document(events)))
    assert summary.communication_us == 2400
    assert any("5 event(s) without a usable time" in line for line in summary.warnings)
