"""Differences in time: they telescope, receivers follow, EF21 is what the paper writes, states resume."""

import numpy as np
import pytest
import torch

from wirebound.errors import InputError, WireboundError
from wirebound.techniques.compress.difference import Difference, Estimate, mean_estimate
from wirebound.techniques.compress.topk import TopK

from .cases import gaussian, new_state, real, same_tensors, sent

INNER = ("fp16", "qsgd:7", "terngrad", "topk:0.05", "randomk:0.1", "ef-signsgd", "onebit", "dgc:0.05")


@pytest.mark.parametrize("text", INNER)
def test_the_sum_of_what_was_sent_is_the_last_estimate(text):
    compressor = Difference(real(text))
    state = new_state(compressor)
    differences = sent(compressor, [gaussian((40, 25), step) for step in range(8)], state)
    torch.testing.assert_close(
        torch.stack(differences).double().sum(0).float().flatten(), state.estimate.latest, rtol=1e-5, atol=1e-5
    )


def test_ef21_as_the_paper_writes_it():
    """h ← h + top-k(g − h), in double precision with NumPy."""
    compressor = Difference(TopK(0.1))
    state = new_state(compressor)
    h = np.zeros(200)
    for step in range(10):
        gradient = gaussian((200,), step)
        compressor.encode(gradient, state)
        difference = gradient.numpy().astype(np.float64) - h
        chosen = np.argsort(-np.abs(difference))[:20]
        h[chosen] += difference[chosen]
        np.testing.assert_allclose(state.estimate.latest.numpy(), h, atol=1e-5)


def test_a_gradient_that_stands_still_is_learned():
    """A tenth of the values a step: after ten steps the estimate is the gradient, and nothing is left to send."""
    compressor, gradient = Difference(TopK(0.1)), gaussian((500,))
    state = new_state(compressor)
    differences = sent(compressor, [gradient] * 11, state)
    torch.testing.assert_close(state.estimate.latest, gradient, rtol=0, atol=1e-6)
    assert float(differences[10].abs().max()) < 1e-6


def test_a_straight_line_is_extrapolated():
    start, slope = gaussian((300,), 1), gaussian((300,), 2)
    compressor = Difference(TopK(1.0), extrapolation=1.0)
    differences = sent(compressor, [start + step * slope for step in range(5)], new_state(compressor))
    torch.testing.assert_close(differences[1], slope, rtol=0, atol=1e-5)
    assert max(float(difference.abs().max()) for difference in differences[2:]) < 1e-5


@pytest.mark.parametrize("settings", [{}, {"extrapolation": 0.5}, {"leak": 0.8}, {"extrapolation": 1.0, "leak": 0.5}])
def test_one_estimate_at_the_receiver_is_the_mean_of_all_workers(settings):
    compressor, received = Difference(TopK(0.2), **settings), Estimate()
    states = [new_state(compressor, worker) for worker in range(3)]
    for step in range(6):
        gradients = [gaussian((6, 30), 10 * step + worker) for worker in range(3)]
        payloads = [compressor.encode(g, state) for g, state in zip(gradients, states, strict=True)]
        mean = torch.stack([compressor.decode(payload, (6, 30)) for payload in payloads]).mean(0)
        out = compressor.received(mean, received)
        assert out.shape == (6, 30)
        expected = mean_estimate([state.estimate for state in states])
        torch.testing.assert_close(out.flatten(), expected, rtol=0, atol=1e-5)


def test_payloads_are_those_of_the_compressor_inside():
    for text in INNER:
        compressor = Difference(real(text))
        payload = compressor.encode(gaussian((33, 77)), new_state(compressor))
        assert payload.nbytes == real(text).encode(gaussian((33, 77)), new_state(real(text))).nbytes
        assert compressor.travels == real(text).travels


@pytest.mark.parametrize("text", INNER)
def test_a_resumed_run_equals_an_uninterrupted_one(text):
    compressor = Difference(real(text), extrapolation=0.5)
    whole, first, resumed = (new_state(compressor) for _ in range(3))
    gradients = [gaussian((17, 9), step) for step in range(6)]
    expected = sent(compressor, gradients, whole)
    before = sent(compressor, gradients[:3], first)
    resumed.load_state_dict(first.state_dict())
    assert same_tensors(expected, before + sent(compressor, gradients[3:], resumed))


def test_what_cannot_be_encoded_leaves_the_estimate_as_it_was():
    compressor = Difference(TopK(0.5))
    state = new_state(compressor)
    compressor.encode(gaussian((10,)), state)
    before = state.estimate.latest.clone()
    with pytest.raises(WireboundError, match="infinite or not a number"):
        compressor.encode(torch.full((10,), float("nan")), state)
    assert torch.equal(state.estimate.latest, before)


def test_mistakes():
    with pytest.raises(InputError, match="vote"):
        Difference(real("signsgd"))
    with pytest.raises(InputError, match="gtopk-tree"):
        Difference(real("gtopk:0.1"))
    with pytest.raises(InputError, match="extrapolation"):
        Difference(TopK(0.1), extrapolation=2)
    with pytest.raises(InputError, match="leak"):
        Difference(TopK(0.1), leak=0)
    with pytest.raises(InputError, match="it is of another"):
        new_state(Difference(TopK(0.1))).load_state_dict({"residual": None})
