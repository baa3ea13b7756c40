"""A resumed run is the uninterrupted one, and compiled kernels are the torch operations: to the last bit."""

import importlib.util
import io

import pytest
import torch

from wirebound.errors import InputError
from wirebound.techniques.compress import fused, random

from .cases import SHAPES, TEXTS, gaussian, new_state, power, real, same_tensors

needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="Numba is not installed")


def buffers(compressor, gradients, state):
    return [b for g in gradients for b in compressor.encode(g, state).buffers]


@pytest.mark.parametrize("text", TEXTS)
def test_resumed_from_a_file(text):
    compressor = real(text)
    gradients = [gaussian((70, 31), step) for step in range(6)]
    state = new_state(compressor)
    uninterrupted = buffers(compressor, gradients, state)
    first = new_state(compressor)
    before = buffers(compressor, gradients[:3], first)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    buffers(compressor, gradients[3:], first)  # what was saved is a copy
    second = new_state(compressor, worker=9)
    second.load_state_dict(torch.load(file))
    assert same_tensors(before + buffers(compressor, gradients[3:], second), uninterrupted)


def test_a_state_of_another_compressor_is_refused():
    state = new_state(real("topk:0.1"))
    with pytest.raises(InputError, match=r"has the fields \['step'\], not \['residual'\]"):
        state.load_state_dict(new_state(real("signsgd")).state_dict())


@needs_numba
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_equal_torch_operations(text, threads, monkeypatch):
    compressor = real(text)
    monkeypatch.setattr(fused, "SMALLEST_SHARED", 5000)
    set_before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for shape in (*SHAPES, (3, 4096), (20_011,)):
            gradients = [gaussian(shape, 1), torch.zeros(shape), gaussian(shape, 2)]
            gradients += [power(shape, 90, 3)] if text != "fp16" else []
            results = []
            for fast in (True, False):
                with monkeypatch.context() as patch:
                    if not fast:
                        patch.setattr(fused, "kernels_for", lambda tensor: None)
                    state = new_state(compressor)
                    payloads = [compressor.encode(g, state) for g in gradients]
                    decoded = [compressor.decode(payload, shape) for payload in payloads]
                results.append([b for payload in payloads for b in payload.buffers] + decoded)
            assert same_tensors(*results), shape
    finally:
        torch.set_num_threads(set_before)


@needs_numba
@pytest.mark.parametrize("count", [0, 1, 5, 4095, 4096, 4097, 9000])
def test_random_numbers_of_the_kernel(count, monkeypatch):
    stream, device = (2**32 - 1, 7, 3, 2**40), torch.device("cpu")
    fast, words = random.uniform(count, stream, device), random.words(8, count, stream, device)
    monkeypatch.setattr(fused, "kernels_for", lambda tensor: None)
    assert torch.equal(fast, random.uniform(count, stream, device))
    assert torch.equal(words, random.words(8, count, stream, device))
    assert torch.equal(words, random.words(0, count + 8, stream, device)[8:])


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("bits", [1, 2, 3, 6, 8, 9, 21])
def test_fields_are_unpacked_as_they_were_packed(bits, fast, monkeypatch):
    if not fast:
        monkeypatch.setattr(fused, "kernels_for", lambda tensor: None)
    for count in (0, 1, 7, 8, 9, 4095, 4096, 4097, 8193):
        fields = (torch.arange(count) * 2_654_435_761 % 2**bits).int()
        packed = fused.pack_fields(fields, bits)
        assert packed.numel() == -(-count * bits // 8)
        number = sum(int(field) << (bits * place) for place, field in enumerate(fields.tolist()))
        assert int.from_bytes(bytes(packed.tolist()), "little") == number
        assert torch.equal(fused.unpack_fields(packed, bits, count), fields)


def test_without_numba_nothing_is_compiled(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "wirebound.techniques.compress.kernels", None)
    fused._kernels.cache_clear()
    try:
        assert fused.kernels_for(torch.zeros(3)) is None
        compressor = real("ef-signsgd")
        assert compressor.encode(gaussian((9,)), new_state(compressor)).nbytes == 6
    finally:
        fused._kernels.cache_clear()
