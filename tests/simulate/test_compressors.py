"""Payloads against arrays that are really packed, published compression ratios, and what names are refused."""

import math

import numpy as np
import pytest

from wirebound.errors import InputError
from wirebound.model import Compressor
from wirebound.model.architectures import parameters_of
from wirebound.model.library import builtin_workload
from wirebound.simulate.compressors import (
    COMPRESSORS,
    Gradient,
    compressor_named,
    estimated_codec,
    gradient_of,
    payload_bytes,
)

from .jobs import made

ODD = [1, 2, 7, 8, 9, 511, 512, 513, 1001, 4097]


def vector(elements, summed=1):
    return Gradient(elements, 4, None, summed)


def packed_bits(values, bits):
    """Whole bytes of these non-negative integers, `bits` each."""
    digits = (np.asarray(values, dtype=np.int64)[:, None] >> np.arange(bits)) & 1
    return len(np.packbits(digits.astype(np.uint8).ravel()))


@pytest.mark.parametrize("elements", ODD)
def test_payloads_are_the_bytes_of_packed_arrays(elements):
    random = np.random.default_rng(elements)
    values = random.normal(size=elements).astype(np.float32)
    signs = len(np.packbits(values < 0))
    header = np.zeros(1, dtype=np.float32).nbytes
    assert payload_bytes(compressor_named("fp16"), vector(elements)) == values.astype(np.float16).nbytes
    assert payload_bytes(compressor_named("bf16"), vector(elements)) == 2 * elements
    assert payload_bytes(compressor_named("signsgd"), vector(elements)) == signs
    assert payload_bytes(compressor_named("ef-signsgd"), vector(elements)) == signs + header
    assert payload_bytes(compressor_named("onebit"), vector(elements)) == signs + 2 * header
    ternary = packed_bits(random.integers(0, 3, elements), 2)
    assert payload_bytes(compressor_named("terngrad"), vector(elements)) == ternary + header
    for levels, bits in ((1, 2), (3, 3), (4, 4), (15, 5), (16, 6), (255, 9)):
        assert bits == 1 + math.ceil(math.log2(levels + 1))
        for bucket in (1, 8, 512, 10_000):
            pieces = [values[at : at + bucket] for at in range(0, elements, bucket)]
            size = sum(header + packed_bits(np.zeros(len(piece)), bits) for piece in pieces)
            assert payload_bytes(compressor_named(f"qsgd:{levels},{bucket}"), vector(elements)) == size
    for share in (0.001, 0.1, 1.0):
        kept = np.argsort(-np.abs(values))[: max(1, math.ceil(share * elements))].astype(np.int32)
        sparse = kept.nbytes + values[kept].nbytes
        assert payload_bytes(compressor_named(f"topk:{share}"), vector(elements)) == sparse
        assert payload_bytes(compressor_named(f"gtopk:{share}"), vector(elements)) == sparse
        assert payload_bytes(compressor_named(f"dgc:{share}"), vector(elements)) == sparse + 4
        assert payload_bytes(compressor_named(f"randomk:{share}"), vector(elements)) == values[kept].nbytes


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 8, 64])
def test_the_sum_of_ternary_values_needs_room_for_all_its_values(workers):
    bits = max(2, math.ceil(math.log2(2 * workers + 1)))
    sums = np.arange(1001) % (2 * workers + 1)
    assert int(sums.max()) < 2**bits
    summed = payload_bytes(compressor_named("terngrad-shared"), vector(1001, workers))
    words = np.zeros(math.ceil(1001 / (64 // bits)), dtype=np.int64)
    assert summed == words.nbytes + 4
    assert packed_bits(sums, bits) <= words.nbytes < 1.2 * packed_bits(sums, bits)


def test_one_bit_has_two_means_for_each_output_unit():
    assert payload_bytes(compressor_named("onebit"), Gradient(15, 4, (3, 5))) == 2 + 3 * 8


def test_half_precision_leaves_smaller_types_as_they_are():
    assert payload_bytes(compressor_named("fp16"), Gradient(10, 1, None)) == 10
    assert payload_bytes(compressor_named("bf16"), Gradient(10, 2, None)) == 20


@pytest.mark.parametrize(("rank", "published"), [(1, 309), (2, 155), (4, 77)])
def test_powersgd_on_the_matrices_of_resnet50(rank, published):
    """Ratios that Vogels et al. (2019) state for ResNet-50's matrices."""
    compressor = compressor_named(f"powersgd:{rank}")
    matrices = [p for p in parameters_of("resnet50") if len(p.shape) > 1]
    workload = builtin_workload("resnet50")
    tensors = {tensor.name: tensor for tensor in workload.tensors}
    payload = sum(payload_bytes(compressor, gradient_of(workload, tensors[p.name])) for p in matrices)
    assert sum(p.size for p in matrices) / payload == pytest.approx(published, abs=0.6)


def test_powersgd_leaves_vectors_and_what_it_cannot_shrink():
    four = compressor_named("powersgd:4")
    assert payload_bytes(four, vector(1000)) is None
    assert payload_bytes(four, Gradient(6, 4, (2, 3))) is None
    assert payload_bytes(four, Gradient(10_000, 4, (100, 100))) == 4 * 4 * 200
    assert payload_bytes(four, Gradient(3000, 4, (3, 1000))) is None
    assert payload_bytes(compressor_named("powersgd:1"), Gradient(3000, 4, (3, 1000))) == 4 * 1003


def test_a_tensor_of_unknown_shape_is_a_near_square():
    workload = made([1.0, 1.0], [4 * 1000, 4])
    assert gradient_of(workload, workload.tensors[0]).matrix == (31, 33)
    assert gradient_of(workload, workload.tensors[1]).matrix is None


@pytest.mark.parametrize("name", COMPRESSORS)
def test_every_compressor_has_bytes_and_a_cost(name):
    example = {"none": "", "share": ":0.01", "levels": ":4", "rank": ":2"}[COMPRESSORS[name].kind]
    compressor = compressor_named(name + example)
    assert 0 < payload_bytes(compressor, Gradient(10_000, 4, (100, 100))) < 40_000
    codec = estimated_codec(compressor, 900e9, 5e-6)
    assert codec.encode_s_per_byte > 0
    assert codec.decode_s_per_byte > 0
    assert compressor_named(compressor.label).parameter == compressor.parameter


def test_selecting_costs_far_more_than_streaming():
    """2,000,000 values sorted in 3.2 ms on a P100: the figure that the estimate rests on."""
    codec = estimated_codec(compressor_named("topk:0.001"), 732e9, 0.0)
    assert codec.encode_s_per_byte * 8e6 == pytest.approx(3.2e-3, rel=0.03)
    assert estimated_codec(compressor_named("fp16"), 732e9, 0.0).encode_s_per_byte * 732e9 == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("topk", "needs the share of values kept, between 0.000001 and 1: write topk:0.01"),
        ("dgc", "write dgc:0.01"),
        ("topk:0", "'0' is not the share"),
        ("topk:1.5", "'1.5' is not the share"),
        ("topk:nan", "'nan' is not the share"),
        ("topk:0.1,2", "write topk:0.01"),
        ("fp16:3", "fp16 takes no value: write fp16"),
        ("qsgd:0", "'0' is not a whole number of levels"),
        ("qsgd:1.5", "'1.5' is not a whole number of levels"),
        ("qsgd:4,0", "'0' is not a whole number of elements in a bucket"),
        ("powersgd:0", "'0' is not a whole rank"),
        ("powersgd:", "'' is not a whole rank"),
        ("topkk:0.1", "did you mean 'topk'"),
    ],
)
def test_refused(text, complaint):
    with pytest.raises(InputError, match=complaint) as error:
        compressor_named(text)
    assert "\n" not in str(error.value)


def test_an_unknown_compressor_object_is_refused():
    with pytest.raises(InputError, match="unknown compressor"):
        payload_bytes(Compressor("zip"), vector(8))
