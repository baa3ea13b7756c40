"""Gradients at the edges: infinite, not a number, zero, very large, very small; and the sign of nothing."""

import copy

import pytest
import torch

from wirebound.errors import WireboundError
from wirebound.techniques.compress.ef_signsgd import EfSignSgd
from wirebound.techniques.compress.signsgd import SignSgd
from wirebound.techniques.compress.terngrad import TernGradShared

from .cases import SHAPES, TEXTS, gaussian, new_state, power, real, same_tensors, sent


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_unusable_values_are_told_and_leave_the_state_as_it_was(text, bad):
    compressor = real(text)
    state, other = new_state(compressor), new_state(compressor)
    for one in (state, other):
        compressor.encode(gaussian((5000,), 1), one)
    broken = gaussian((5000,), 2)
    broken[[17, 4999]] = bad
    with pytest.raises(WireboundError, match="2 of 5000 values of the gradient are infinite or not a number"):
        compressor.encode(broken, state)
    if text == "ef-signsgd":  # its one pass over memory has begun when it meets them, and is taken back
        torch.testing.assert_close(state.residual, other.residual, rtol=0, atol=1e-6)
        assert torch.equal(state.residual[:1024], other.residual[:1024])
        assert torch.equal(state.residual[4096:], other.residual[4096:])
        return
    after, expected = (compressor.encode(gaussian((5000,), 3), one) for one in (state, other))
    assert same_tensors(after.buffers, expected.buffers)


@pytest.mark.parametrize("text", TEXTS)
def test_zeros_stay_zeros(text):
    compressor = real(text)
    for shape in SHAPES:
        zeros = torch.zeros(shape)
        for decoded in sent(compressor, [zeros] * 2, new_state(compressor)):
            assert decoded.shape == zeros.shape
            if text == "signsgd":
                assert (decoded.abs() == 1).all()
            else:
                assert (decoded == 0).all()


@pytest.mark.parametrize("exponent", [100, -100])
@pytest.mark.parametrize("text", [text for text in TEXTS if text != "fp16"])
def test_very_large_and_very_small_values(text, exponent):
    """About 1e30 and 1e-30, as a power of two: the code must be that of the plain gradient, to the bit."""
    compressor = real(text)
    plain = sent(compressor, [gaussian((1001,), step) for step in range(3)], new_state(compressor))
    scaled = sent(compressor, [power((1001,), exponent, step) for step in range(3)], new_state(compressor))
    factor = 1.0 if text == "signsgd" else 2.0**exponent
    assert same_tensors(scaled, [values * factor for values in plain])


def test_fp16_refuses_what_it_cannot_hold_and_loses_what_is_tiny():
    compressor = real("fp16")
    with pytest.raises(WireboundError, match=r"beyond 65504, the largest of torch\.float16: use bf16"):
        compressor.encode(torch.tensor([1.0, 1e30]), new_state(compressor))
    (decoded,) = sent(compressor, [torch.tensor([1e-30, 65504.0])], new_state(compressor))
    assert decoded.tolist() == [0.0, 65504.0]


@pytest.mark.parametrize("text", ["ef-signsgd", "qsgd:4"])
def test_a_scale_beyond_single_precision_is_told(text):
    compressor = real(text)
    state = new_state(compressor)
    huge = torch.zeros(512)
    huge[:2] = 3e38
    with pytest.raises(WireboundError, match="too large"):  # at once, or when the residual has doubled
        sent(compressor, [huge, huge], state)


def test_the_sign_of_zero_alternates_by_element_and_step():
    compressor = SignSgd()
    first, second, third = sent(compressor, [torch.zeros(9)] * 3, new_state(compressor))
    assert first.tolist() == [1, -1] * 4 + [1]
    assert torch.equal(second, -first)
    assert torch.equal(third, first)
    assert sent(compressor, [torch.tensor([-0.0, -0.0])], new_state(compressor))[0].tolist() == [1, -1]


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("step", [0, 1])
def test_a_vote_is_the_sign_of_the_sum_of_signs(workers, step):
    compressor = SignSgd()
    gradients = [gaussian((10_001,), 10 + worker) for worker in range(workers)]
    payloads = []
    for gradient in gradients:
        state = new_state(compressor)
        state.step = step
        payloads.append(compressor.encode(gradient, state))
    voted = compressor.decode(compressor.vote(payloads, (10_001,), step), (10_001,))
    total = sum(gradient.sign() for gradient in gradients)
    assert torch.equal(voted[total != 0], total[total != 0].sign())
    tied = total == 0
    assert bool(tied.any()) == (workers % 2 == 0)
    even = (torch.arange(10_001) + step) % 2 == 0
    assert torch.equal(voted[tied], torch.where(even, 1.0, -1.0)[tied])


def test_the_sign_of_zero_in_ef_signsgd_is_plus_and_is_taken_back():
    compressor = EfSignSgd()
    state = new_state(compressor)
    gradient = torch.tensor([0.0, 4.0])
    (decoded,) = sent(compressor, [gradient], state)
    assert decoded.tolist() == [2.0, 2.0]
    assert state.residual.tolist() == [-2.0, 2.0]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 64])
def test_summed_words_decode_to_the_sum(workers):
    """Each worker alone, decoded and added up, gives what the integer sum of all words gives."""
    compressor, alone = TernGradShared(workers), TernGradShared(1)
    gradients = [gaussian((1001,), worker) for worker in range(workers)]
    scale = torch.stack([compressor.scale(g) for g in gradients]).max(0).values
    words, singles = [], []
    for worker, gradient in enumerate(gradients):
        words.append(compressor.encode(gradient, new_state(compressor, worker), scale))
        single = alone.encode(gradient, new_state(alone, worker), scale)
        singles.append(alone.decode(single, (1001,)))
    summed = copy.copy(words[0])
    summed.buffers[1].copy_(torch.stack([payload.buffers[1] for payload in words]).sum(0))
    total = compressor.decode(summed, (1001,)) / scale
    assert torch.equal(total, torch.stack(singles).div(scale).sum(0))


@pytest.mark.parametrize("text", ["fp16", "bf16", "randomk:0.1"])
def test_sums_of_payloads_decode_to_the_sum(text):
    compressor = real(text)
    gradients = [(gaussian((1001,), worker) * 8).round() / 8 for worker in range(4)]  # sums are exact in 8 bits
    payloads = [compressor.encode(g, new_state(compressor, worker)) for worker, g in enumerate(gradients)]
    singles = torch.stack([compressor.decode(payload, (1001,)) for payload in payloads]).sum(0)
    payloads[0].buffers[0].copy_(torch.stack([payload.buffers[0] for payload in payloads]).sum(0))
    assert torch.equal(compressor.decode(payloads[0], (1001,)), singles)
