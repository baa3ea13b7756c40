"""What a prediction of a training run is made of, each against a closed form or hand-made readings."""

import numpy as np
import pytest

from wirebound.model import Cluster, Link, Tensor, Workload, method_named
from wirebound.simulate.compressors import compressor_named
from wirebound.simulate.gather import ring_all_gather
from wirebound.simulate.step import simulate_step
from wirebound.testbed.accuracy import accuracy_of, percentile
from wirebound.testbed.calibration import Calibration
from wirebound.testbed.codec_cost import codec_in_place
from wirebound.testbed.compute_profile import between_profiles, profiled_workload
from wirebound.testbed.message_link import message_link
from wirebound.testbed.processor_cost import ProcessorCost, contended_step
from wirebound.testbed.training_case import TrainingCase, training_job, training_method
from wirebound.testbed.training_measurement import summary


def test_the_link_carries_given_messages_in_the_time_of_the_calibration():
    calibration = Calibration(ranks=4, rate_Bps=25e6, latency_s=2e-4, share=0.97, sharpness=2.0)
    for rate in (6.25e6, 125e6):
        sizes, cost = (1e3, 5e4, 2e6), calibration.cost(rate)
        link = message_link(calibration, sizes, rate)
        # A ring of four: six messages of latency, and each link carries every byte one and a half times.
        assert sum(6 * link.latency_s + 1.5 * size / link.bandwidth for size in sizes) == pytest.approx(
            sum(cost(size) for size in sizes)
        )
        assert 0 < link.latency_s < 2e-4  # the large message hides its own


def test_the_link_carries_gathered_messages_in_the_time_of_the_calibration():
    calibration = Calibration(
        ranks=4, rate_Bps=25e6, latency_s=2e-4, share=1.05, sharpness=2.0, burst_bytes=64e3, gathers=True
    )
    for rate in (6.25e6, 125e6):
        sizes, cost = (1e3, 5e4, 2e6), calibration.cost(rate)
        link = message_link(calibration, sizes, rate)
        # A ring of four passes each payload on three times.
        assert sum(ring_all_gather(size, 4, link.latency_s, link.bandwidth) for size in sizes) == pytest.approx(
            sum(cost(size) for size in sizes)
        )
    # A payload of more than two bursts has to wait for half of itself.
    long_s, short_s = calibration.cost(1e6)(200e3), calibration.cost(1e6)(100e3)
    assert long_s == pytest.approx(1.5 * 2 * short_s, rel=1e-4)


def test_what_a_hook_takes_is_shared_by_tensors_and_bytes():
    tensors = (Tensor("a", 4000, 0.1, shape=(1000,)), Tensor("b", 8000, 0.1, shape=(2000,)), Tensor("c", 400, 0.1))
    workload = Workload("toy", 1, tensors, forward_s=0.2)
    tensor_s, byte_s = 2e-4, 3e-8

    def seconds(size: int, count: int) -> float:
        return count * tensor_s + size * byte_s

    def messages(late: float, slower: float) -> dict[str, object]:
        found = []
        for step in range(3):
            for ready, names, size in ((1.0, ["a", "b"], 12000), (2.0, ["c"], 400)):
                start = step + ready + late + slower * seconds(size, len(names))
                end = start + slower * seconds(size, len(names)) / 2
                found.append(["all-reduce", step, size, step + ready + late, start, end, names])
        return {"messages": found}

    answers = [messages(0.0, 1.0), messages(0.1, 0.8)]
    codec = codec_in_place(workload, compressor_named("fp16"), answers)
    found = (codec.encode_s, codec.encode_s_per_byte, codec.decode_s, codec.decode_s_per_byte)
    assert found == pytest.approx((tensor_s, byte_s, tensor_s / 2, byte_s / 2))
    # Two ranks each decode the payloads of both; the engine knows that of the bytes only.
    gathered = codec_in_place(workload, compressor_named("qsgd:7"), answers)
    assert gathered.decode_s == pytest.approx(tensor_s)
    assert gathered.decode_s_per_byte == pytest.approx(byte_s / 2)
    # PowerSGD leaves vectors as they are.
    vectors = Workload("toy", 1, tensors[:2], forward_s=0.2)
    assert codec_in_place(vectors, compressor_named("powersgd:2"), answers[:1]).encode_s_per_byte == 0


def job(*gaps: float, size: int = 1_000_000) -> Workload:
    return Workload("toy", 1, tuple(Tensor(f"t{i}", size, gap) for i, gap in enumerate(gaps)), forward_s=0.2)


def test_a_message_takes_its_share_of_the_compute_beside_it():
    """One second of backward beside a message of half a second that takes 0.4 of the cores: it lasts 1 + 0.4 · 0.5."""
    workload = job(0.1, 1.0, size=500_000)
    cluster = Cluster(2, Link(1e6))
    # Two ranks on two cores: a message of 500,000 bytes keeps each core busy for 0.2 s.
    step, slowed = contended_step(workload, cluster, method_named("wfbp-a2a"), ProcessorCost(0.2, 0.0), cores=2)
    assert slowed.tensors[1].gap_s == pytest.approx(1.2, abs=1e-5)
    assert step.iteration_s == pytest.approx(0.2 + 0.1 + 1.2 + 0.5, abs=1e-5)
    # Four ranks on two cores take twice as much of each; per byte is as good as per message.
    ring = Cluster(4, Link(1.5e6))
    _, slowed = contended_step(workload, ring, method_named("wfbp-a2a"), ProcessorCost(0.0, 0.1 / 750_000), cores=2)
    assert slowed.tensors[1].gap_s == pytest.approx(1.2, abs=1e-5)


def test_without_overlap_or_cost_the_step_is_the_engines():
    workload, cluster = job(0.1, 0.3, 0.2), Cluster(2, Link(5e6, 1e-4))
    for name, cost in (("bsp-a2a", ProcessorCost(0.01, 1e-9)), ("wfbp-a2a", ProcessorCost(0.0, 0.0))):
        step, slowed = contended_step(workload, cluster, method_named(name), cost, cores=2)
        assert step.iteration_s == pytest.approx(simulate_step(workload, cluster, method_named(name)).iteration_s)
        assert slowed.compute_s == pytest.approx(workload.compute_s)


def test_messages_that_run_under_the_next_forward_pass_slow_it_too():
    workload = job(0.1, 0.1)
    method = method_named("bytescheduler-a2a", partition_bytes=250_000, credit_bytes=250_000)
    _, slowed = contended_step(workload, Cluster(2, Link(5e6)), method, ProcessorCost(0.005, 0.0), cores=2)
    assert slowed.forward_s > workload.forward_s
    assert sum(slowed.forward_gaps_s) == pytest.approx(slowed.forward_s)


def rank(began: float, forward: float, ready: dict[str, float], end: float) -> dict[str, object]:
    step = {
        "began_s": began,
        "forward_end_s": forward,
        "backward_end_s": max(ready.values()) + 0.01,
        "update_s": 9.0,
        "end_s": end,
        "forward_starts_s": {"a": began, "b": began + 0.5},
        "ready_s": ready,
    }
    return {"shapes": {"a": [2, 3], "b": [5]}, "steps": [step]}


def test_a_profile_tells_when_the_last_rank_has_each_gradient():
    answers = [rank(1.0, 2.0, {"a": 3.5, "b": 2.5}, 9.1), rank(1.1, 2.2, {"a": 3.4, "b": 2.6}, 9.2)]
    workload = profiled_workload("toy", 8, answers)
    assert [tensor.name for tensor in workload.tensors] == ["b", "a"]
    assert workload.sizes == (20, 24)
    assert workload.forward_s == pytest.approx(2.2 - 1.1)
    assert workload.ready_s == pytest.approx((2.6 - 2.2, 3.5 - 2.2))
    assert workload.optimizer_s == pytest.approx(0.2 + 0.01)
    assert [tensor.forward_s for tensor in workload.tensors] == pytest.approx([0.55, 0.5])


def test_a_method_lies_between_one_message_and_one_for_each_tensor():
    whole, apart = job(0.1, 0.1, 0.1), job(0.2, 0.1, 0.3)
    assert between_profiles(whole, apart, 1) == whole
    assert between_profiles(whole, apart, 3).ready_s == pytest.approx(apart.ready_s)
    assert between_profiles(whole, apart, 2).ready_s == pytest.approx((0.15, 0.25, 0.45))


def test_accuracy_counts_clearly_different_pairs_within_a_group():
    groups = ["a", "a", "a", "b"]
    found = accuracy_of(groups, [1.0, 1.2, 0.9, 9.0], [1.0, 1.05, 1.3, 10.0])
    errors = np.abs(np.array([1.0, 1.2 / 1.05, 0.9 / 1.3, 0.9]) - 1)
    assert (found.pairs, found.right) == (2, 0)
    assert found.right_share == 0
    assert found.median_error == pytest.approx(np.median(errors))
    assert found.p90_error == pytest.approx(np.percentile(errors, 90))
    assert found.mean_error == pytest.approx(errors.mean())
    assert accuracy_of(["a"], [1.0], [1.0]).right_share is None
    assert percentile([3.0, 1.0, 2.0], 0.25) == pytest.approx(np.percentile([3, 1, 2], 25))


def test_the_job_sends_the_messages_that_were_predicted():
    workload, method = job(0.1, 0.1, 0.1), training_method("mg-wfbp")
    case = TrainingCase("mlp", 4, 2, 1e6, method)
    step = simulate_step(workload, Cluster(2, Link(1e6)), method)
    assert len(step.messages) < 3
    groups = training_job(case, workload, step, steps=5).choices["groups"]
    assert [len(group) for group in groups] == [len(message.tensors) for message in step.messages]
    assert [name for group in groups for name in group] == ["t0", "t1", "t2"]


def test_a_message_lasts_from_the_last_rank_that_hands_it_over_to_the_last_that_has_it():
    def answer(late: float) -> dict[str, object]:
        steps = [[n + late, n + 0.2 + late, n + 0.5 + late, n + 0.9 + late] for n in range(3)]
        messages = [["all-reduce", n, 40, n + 0.3 + late, n + 0.3 + late, n + 0.6, ["x", "y"]] for n in range(3)]
        return {"steps": steps, "messages": messages}

    seen = summary([answer(0.0), answer(0.04)], ["y", "x"], 2)
    assert seen.measured_s == pytest.approx(1.0)
    [message] = seen.messages
    assert message.tensors == (0, 1)
    # Backward began after 0.22 on average.
    assert (message.start_s, message.end_s) == pytest.approx((0.34 - 0.22, 0.6 - 0.22))
