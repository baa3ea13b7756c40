"""What is handed to a collective is, to the byte, what the engine counts."""

import pytest
import torch

from wirebound.errors import InputError
from wirebound.simulate.compressors import COMPRESSORS, compressor_named, payload_bytes
from wirebound.techniques.compress import powersgd
from wirebound.techniques.compress.dgc import Dgc
from wirebound.techniques.compress.payload import from_bytes, to_bytes
from wirebound.techniques.compress.terngrad import TernGradShared

from .cases import SHAPES, TEXTS, as_engine_sees, gaussian, new_state, real, same_tensors


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_bytes_are_those_of_the_engine(text, dtype):
    compressor = real(text)
    for shape in SHAPES:
        gradient = gaussian(shape).to(dtype)
        payload = compressor.encode(gradient, new_state(compressor))
        expected = payload_bytes(compressor_named(text), as_engine_sees(gradient))
        assert payload.nbytes == expected, shape
        assert payload.nbytes == sum(buffer.numpy().nbytes for buffer in payload_without_bf16(payload))


def payload_without_bf16(payload):
    """NumPy has no bf16: its bytes are counted as int16."""
    return [b.view(torch.int16) if b.dtype == torch.bfloat16 else b for b in payload.buffers]


@pytest.mark.parametrize("text", TEXTS)
def test_a_large_tensor(text):
    compressor = real(text)
    gradient = gaussian((3, 700_001))
    payload = compressor.encode(gradient, new_state(compressor))
    assert payload.nbytes == payload_bytes(compressor_named(text), as_engine_sees(gradient))


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8, 64])
def test_ternary_words_that_can_be_summed(workers):
    compressor = TernGradShared(workers)
    for shape in SHAPES:
        gradient = gaussian(shape)
        payload = compressor.encode(gradient, new_state(compressor))
        expected = payload_bytes(compressor_named("terngrad-shared"), as_engine_sees(gradient, workers))
        assert payload.nbytes == expected


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_powersgd_compresses_what_the_engine_says(rank):
    state = powersgd.new_state(rank)
    for shape in ((1000,), (2, 3), (100, 100), (3, 1000), (64, 3, 7, 7), (10, 64), (5, 1), (1, 5)):
        tensor = gaussian(shape)
        expected = payload_bytes(compressor_named(f"powersgd:{rank}"), as_engine_sees(tensor))
        assert powersgd.payload_bytes(state, [tensor]) == (expected or tensor.numpy().nbytes)


def test_every_compressor_of_the_engine_is_real():
    covered = {text.partition(":")[0] for text in TEXTS} | {"terngrad-shared", "powersgd"}
    assert covered == set(COMPRESSORS)


@pytest.mark.parametrize("text", TEXTS)
def test_a_message_of_several_payloads_has_their_bytes_and_nothing_else(text):
    compressor = real(text)
    shapes = [(5,), (3, 7), (0,), (1001,)]
    payloads = [compressor.encode(gaussian(shape), new_state(compressor)) for shape in shapes]
    message = to_bytes(payloads)
    assert message.dtype == torch.uint8
    assert message.numel() == sum(payload.nbytes for payload in payloads)
    for payload, copy, shape in zip(payloads, from_bytes(message, payloads), shapes, strict=True):
        assert same_tensors(payload.buffers, copy.buffers)
        assert torch.equal(compressor.decode(payload, shape), compressor.decode(copy, shape))
    assert to_bytes([]).numel() == 0


def test_warm_up_keeps_more():
    compressor = Dgc(0.001, warm_up_steps=2)
    state = new_state(compressor)
    shares = [0.25, 0.25, 0.0625, 0.0625, 0.015625, 0.015625, 0.00390625, 0.00390625, 0.001, 0.001]
    for step, share in enumerate(shares):
        assert compressor.share_at(step) == share
        gradient = gaussian((4000,), step)
        payload = compressor.encode(gradient, state)
        assert payload.nbytes == payload_bytes(compressor_named(f"dgc:{share}"), as_engine_sees(gradient))


@pytest.mark.parametrize("text", ["topk:0.5", "qsgd:4", "fp16"])
def test_other_types_are_refused(text):
    compressor = real(text)
    with pytest.raises(InputError, match=r"float64 are not compressed: use float32"):
        compressor.encode(torch.ones(3, dtype=torch.float64), new_state(compressor))
