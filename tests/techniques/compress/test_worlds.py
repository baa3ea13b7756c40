"""Real processes: every compressor as a hook of DDP on gloo, against the same steps calculated in this process.

Four processes are started once; `world_worker.py` says what they do, in worlds of 1 to 4 of them.
"""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import wirebound
from wirebound.simulate.compressors import compressor_named, payload_bytes
from wirebound.techniques.compress.compressor import compressor_of
from wirebound.techniques.compress.dgc import Dgc
from wirebound.techniques.compress.difference import Difference, mean_estimate
from wirebound.techniques.compress.gtopk_tree import children, parent
from wirebound.techniques.compress.terngrad import TernGradShared

from .cases import as_engine_sees
from .world_worker import SHAPES, STEPS, TEXTS, WORLDS, given

TIME_LIMIT_S = 300


@contextmanager
def started(folder):
    """One process for each rank; however this is left, all of them are gone."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = str(Path(wirebound.__file__).parents[1])
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    if loopback:
        environment["GLOO_SOCKET_IFNAME"] = loopback
    workers = []
    try:
        for rank in range(max(WORLDS)):
            with (folder / f"rank-{rank}.log").open("wb") as log:
                command = [sys.executable, str(Path(__file__).with_name("world_worker.py")), str(folder), str(rank)]
                workers.append(
                    subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)
                )
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            worker.stdin.close()


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What every rank saw, by world."""
    folder = tmp_path_factory.mktemp("worlds")
    # Compiled once here, read from the cache by the processes.
    for text in ("ef-signsgd", "qsgd:7,100", "terngrad", "signsgd"):
        compressor = compressor_of(compressor_named(text))
        compressor.decode(compressor.encode(torch.ones(9), compressor.new_state(0, 0, 0)), (9,))
    with started(folder) as workers:
        deadline = time.monotonic() + TIME_LIMIT_S
        while any(worker.poll() is None for worker in workers) and not any(worker.poll() for worker in workers):
            assert time.monotonic() < deadline, "the processes did not end"
            time.sleep(0.05)
        failed = [rank for rank, worker in enumerate(workers) if worker.poll()]
    logs = [(folder / f"rank-{rank}.log").read_text(encoding="utf-8", errors="replace")[-3000:] for rank in failed]
    assert not failed, "\n".join(logs)
    return [torch.load(folder / f"rank-{rank}.pt") for rank in range(max(WORLDS))]


@pytest.fixture(params=WORLDS, ids=lambda world: f"{world} workers")
def world(request, seen):
    """What every rank of one world saw, in the order of the ranks."""
    return [rank[request.param] for rank in seen[: request.param]]


def equal(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def settings(text, size):
    if text.startswith("dgc"):
        return Dgc(0.02, clip_norm=30.0, workers=size, warm_up_steps=1)
    if text == "terngrad-shared":
        return TernGradShared(size)
    return compressor_of(compressor_named(text))


@pytest.mark.parametrize("text", TEXTS)
def test_all_workers_end_with_the_same_bits(world, text):
    for rank in world:
        assert equal(rank[text]["parameters"], world[0][text]["parameters"])
        for step in range(STEPS):
            assert equal(rank[text]["gradients"][step], world[0][text]["gradients"][step])


@pytest.mark.parametrize(("text", "close"), [("topk:0.1", 1e-5), ("fp16", 2e-2)])
def test_differences_add_up_to_the_mean_of_the_workers_estimates(world, text, close):
    """Sums in half precision round each difference; the sparse ones are exact."""
    compressor = Difference(compressor_of(compressor_named(text)), extrapolation=0.5)
    states = {(rank, name): compressor.new_state(0, rank, 0) for rank in range(len(world)) for name in SHAPES}
    for step in range(STEPS):
        for rank in range(len(world)):
            for name, gradient in given(rank, step).items():
                compressor.encode(gradient, states[rank, name])
        for name, shape in SHAPES.items():
            expected = mean_estimate([states[rank, name].estimate for rank in range(len(world))]).view(shape)
            for rank in world:
                torch.testing.assert_close(
                    rank["differences"][text][step][name], expected, rtol=0, atol=close, msg=f"{name} in step {step}"
                )


@pytest.mark.parametrize("text", TEXTS)
def test_a_resumed_run_is_the_uninterrupted_one(world, text):
    for rank in world:
        for whole, resumed in zip(rank[text]["whole"], rank[text]["resumed"], strict=True):
            assert equal(whole, resumed)


@pytest.mark.parametrize("text", [text for text in TEXTS if not text.startswith("powersgd")])
def test_an_unusable_gradient_names_its_parameter(world, text):
    for rank in world:
        assert rank[text]["message"] == "parameter filter: 1 of 108 values of the gradient are infinite or not a number"


@pytest.mark.parametrize("text", [text for text in TEXTS if not text.startswith("powersgd")])
def test_bytes_that_were_sent(world, text):
    """Handed to collectives in all steps: what the engine counts; in gTop-k's tree, once for each hop."""
    size = len(world)
    steps = range(STEPS)
    shares = [0.25, 0.0625, 0.02, 0.02, 0.02]  # warm-up never keeps less than the final share
    texts = [f"dgc:{share}" for share in shares] if text.startswith("dgc") else [text] * STEPS
    expected = sum(
        payload_bytes(compressor_named(texts[step]), as_engine_sees(torch.zeros(shape), size))
        for step in steps
        for shape in SHAPES.values()
    )
    for number, rank in enumerate(world):
        hops = 1
        if text.startswith("gtopk"):
            hops = (number > 0) + len(list(children(number, size)))
        assert rank[text]["sent_bytes"] == hops * expected


@pytest.mark.parametrize("text", ["onebit", "ef-signsgd", "qsgd:7,100", "terngrad", "topk:0.05", "dgc:0.02"])
def test_gathered_payloads_are_averaged(world, text):
    """Each worker's payloads, encoded and decoded here one after the other, give the same bits as the hook."""
    size, compressor = len(world), settings(text, len(world))
    for number, (name, shape) in enumerate(SHAPES.items()):
        states = [compressor.new_state(11, rank, number) for rank in range(size)]
        for step in range(STEPS):
            total = torch.zeros(shape)
            for rank in range(size):
                total += compressor.decode(compressor.encode(given(rank, step)[name], states[rank]), shape) / size
            assert torch.equal(world[0][text]["gradients"][step][name], total)


def test_the_majority_decides(world):
    for step in range(STEPS):
        for name in SHAPES:
            even = (torch.arange(given(0, step)[name].numel()) + step) % 2 == 0
            rule = torch.where(even, 1.0, -1.0).view(SHAPES[name])
            gradients = [given(rank, step)[name] for rank in range(len(world))]
            votes = sum(torch.where(g == 0, rule, g.sign()) for g in gradients)
            expected = torch.where(votes == 0, rule, votes.sign())
            assert torch.equal(world[0]["signsgd"]["gradients"][step][name], expected)


def test_fp16_is_torchs_own_hook(world):
    for step in range(STEPS):
        assert equal(world[0]["fp16"]["gradients"][step], world[0]["torch fp16"][step])


@pytest.mark.parametrize("text", ["bf16", "randomk:0.1", "terngrad-shared"])
def test_summed_payloads_are_the_mean(world, text):
    """The sum of the workers' values, encoded here, up to the order of additions."""
    size, compressor = len(world), settings(text, len(world))
    for number, (name, shape) in enumerate(SHAPES.items()):
        states = [compressor.new_state(11, rank, number) for rank in range(size)]
        for step in range(STEPS):
            gradients = [given(rank, step)[name] for rank in range(size)]
            if text == "terngrad-shared":
                scale = torch.stack([compressor.scale(g) for g in gradients]).max(0).values
                payloads = [compressor.encode(g, s, scale) for g, s in zip(gradients, states, strict=True)]
                payloads[0].buffers[1].copy_(torch.stack([payload.buffers[1] for payload in payloads]).sum(0))
                expected, tolerance = compressor.decode(payloads[0], shape) / size, 0.0
            else:
                payloads = [compressor.encode(g, s) for g, s in zip(gradients, states, strict=True)]
                expected = sum(compressor.decode(payload, shape) for payload in payloads) / size
                tolerance = 0.02 if text == "bf16" else 1e-6
            found = world[0][text]["gradients"][step][name]
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("text", ["randomk:0.1", "topk:0.05", "gtopk:0.1", "onebit", "ef-signsgd", "powersgd:1"])
def test_what_was_applied_and_what_is_left_are_all_gradients(world, text):
    """Over all workers: P · sum of the results + sum of the residuals = sum of the gradients."""
    size = len(world)
    if text.startswith("powersgd"):
        # One bucket, laid out in the order in which gradients became ready: the same length for all.
        applied = sum(step[name].double().sum() for step in world[0][text]["gradients"] for name in SHAPES) * size
        left = sum(residual.double().sum() for rank in world for residual in rank[text]["state"]["error_dict"].values())
        total = sum(
            given(rank, step)[n].double().sum() for rank in range(size) for step in range(STEPS) for n in SHAPES
        )
        torch.testing.assert_close(applied + left, total, rtol=0, atol=1e-3)
        return
    for name, shape in SHAPES.items():
        applied = sum(step[name].double() for step in world[0][text]["gradients"]) * size
        left = torch.zeros(shape, dtype=torch.float64)
        for rank in world:
            fields = rank[text]["state"][name]
            residual = fields.get("residual")
            if residual is None:
                p, scale = fields["corrected"], fields["scale"]
                residual = p - torch.where(p >= 0, scale, -scale)
            left += residual.double().view(shape)
        total = sum(given(rank, step)[name].double() for rank in range(size) for step in range(STEPS))
        torch.testing.assert_close(applied + left, total, rtol=0, atol=1e-4)


def test_powersgd_gives_matrices_of_its_rank_and_leaves_vectors_exact(world):
    size = len(world)
    for step in range(2, STEPS):
        found = world[0]["powersgd:1"]["gradients"][step]
        assert np.linalg.matrix_rank(found["matrix"].numpy(), tol=1e-5) == 1
        assert np.linalg.matrix_rank(found["filter"].view(4, 27).numpy(), tol=1e-5) == 1
        expected = sum(given(rank, step)["long"] for rank in range(size)) / size
        torch.testing.assert_close(found["long"], expected)


def merged_by_hand(sets, kept):
    """gTop-k's tree in dictionaries {place: {worker: value}}: the set that is left at the root."""
    live = {worker: {place: {worker: value} for place, value in own.items()} for worker, own in enumerate(sets)}
    stride = 1
    while stride < len(sets):
        for worker in range(0, len(sets), 2 * stride):
            if worker + stride in live:
                for place, values in live.pop(worker + stride).items():
                    live[worker].setdefault(place, {}).update(values)
                largest = sorted(live[worker], key=lambda place: -abs(sum(live[worker][place].values())))
                live[worker] = {place: live[worker][place] for place in largest[:kept]}
        stride *= 2
    return live[0]


def test_gtopk_returns_each_rejected_value_to_whom_it_came_from(world):
    size, share = len(world), 0.1
    for name, shape in SHAPES.items():
        elements = torch.Size(shape).numel()
        kept = max(1, int(np.ceil(share * elements)))
        residuals = [np.zeros(elements, dtype=np.float32)] * size
        for step in range(STEPS):
            ps = [given(rank, step)[name].view(-1).numpy() + residuals[rank] for rank in range(size)]
            sets = [{int(i): float(p[i]) for i in np.argsort(-np.abs(p))[:kept]} for p in ps]
            final = merged_by_hand(sets, kept)
            result = np.zeros(elements)
            residuals = [p.copy() for p in ps]
            for place, values in final.items():
                result[place] = sum(values.values()) / size
                for worker in values:
                    residuals[worker][place] = 0
            found = world[0]["gtopk:0.1"]["gradients"][step][name].view(-1).numpy()
            np.testing.assert_allclose(found, result, atol=1e-5)
        for rank, residual in enumerate(residuals):
            left = world[rank]["gtopk:0.1"]["state"][name]["residual"].numpy()
            np.testing.assert_allclose(left, residual, atol=1e-5)


@pytest.mark.parametrize("workers", range(1, 18))
def test_the_tree_reaches_every_worker_once(workers):
    for worker in range(1, workers):
        assert worker in children(parent(worker), workers)
    assert sum(len(list(children(worker, workers))) for worker in range(workers)) == workers - 1
    assert parent(0) is None
