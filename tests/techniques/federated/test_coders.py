"""What coders send has the bytes that they say, and what comes back is unbiased or the largest part."""

import math

import numpy as np
import pytest
import torch
from scipy import linalg

from wirebound.errors import InputError
from wirebound.techniques.compress.topk import TopK
from wirebound.techniques.federated.coders import Coder, Dense, Largest, LevelsOfNorm, Subsample
from wirebound.techniques.federated.quantize import Quantize
from wirebound.techniques.federated.rotation import BLOCK, hadamard, rotate, rotate_back
from wirebound.techniques.federated.subspace import LowRank, RandomMask

ELEMENTS = 1300
VECTOR = torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(0)) ** 3


def draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("coder", "size"),
    [
        (Dense(), 4 * ELEMENTS),
        (Quantize(1), 3 * 8 + math.ceil(ELEMENTS / 8)),
        (Quantize(3), 3 * 8 + math.ceil(3 * ELEMENTS / 8)),
        (Quantize(2, rotated=True), 3 * 8 + 3 * BLOCK * 2 // 8),
        (LevelsOfNorm(1), 3 * 4 + 2 * (512 * 2 // 8) + math.ceil(276 * 2 / 8)),
        (Subsample(0.1), 130 * 4),
        (Largest(TopK(0.05), feedback=False), 65 * 8),
    ],
)
def test_bytes_are_those_of_the_layout(coder: Coder, size: int):
    payload = coder.encode(VECTOR.clone(), (1, 2, 3))
    assert payload.nbytes == size
    assert coder.decode(payload, ELEMENTS, (1, 2, 3)).shape == VECTOR.shape


@pytest.mark.parametrize("coder", [Quantize(1), Quantize(2, rotated=True), LevelsOfNorm(1), Subsample(0.1)])
def test_the_mean_over_many_draws_is_the_vector(coder: Coder):
    """Seen along some directions: an element by itself may be far too rarely sent to tell."""
    trials = 1500
    directions = torch.randn(20, ELEMENTS, generator=draws(5)).double()
    seen = torch.empty(trials, 20).double()
    for trial in range(trials):
        stream = (1, trial, 0)
        decoded = coder.decode(coder.encode(VECTOR.clone(), stream), ELEMENTS, stream)
        seen[trial] = directions @ decoded.double()
    deviation = seen.std(0) / math.sqrt(trials)
    assert ((seen.mean(0) - directions @ VECTOR.double()).abs() < 5 * deviation).all()


@pytest.mark.parametrize("rotated", [False, True])
def test_quantized_values_are_within_a_level(rotated: bool):
    coder = Quantize(4, rotated=rotated)
    sent = rotate(VECTOR, draws(0)) if rotated else VECTOR
    decoded = coder.decode(coder.encode(VECTOR.clone(), (1, 1, 1)), ELEMENTS, (1, 1, 1))
    # A level of a bucket is its range ÷ 15; a rotation keeps the length of the whole error.
    widest = float(sent.max() - sent.min()) / 15
    assert (decoded - VECTOR).norm() <= 1.2 * widest * math.sqrt(2048 if rotated else ELEMENTS)


def test_a_bucket_of_equal_values_is_exact():
    same = torch.full((700,), -0.25)
    assert torch.equal(Quantize(2).decode(Quantize(2).encode(same, (1, 1, 1)), 700, (1, 1, 1)), same)


def test_a_rotation_helps_where_few_elements_are_large():
    spiky = torch.zeros(BLOCK)
    spiky[:3] = torch.tensor([5.0, -7.0, 6.0])

    def error(coder: Quantize) -> float:
        streams = [(1, trial, 0) for trial in range(50)]
        decoded = [coder.decode(coder.encode(spiky, stream), BLOCK, stream) for stream in streams]
        return float(torch.stack([(some - spiky).square().sum() for some in decoded]).mean())

    assert error(Quantize(2, rotated=True)) < 0.3 * error(Quantize(2))


def test_the_rotation_is_sylvesters_and_can_be_undone():
    assert np.allclose(hadamard(16).numpy() * 4, linalg.hadamard(16))
    rotated = rotate(VECTOR, draws(1))
    assert len(rotated) == 3 * BLOCK
    assert rotated.norm().item() == pytest.approx(VECTOR.norm().item(), rel=1e-5)
    assert torch.allclose(rotate_back(rotated, ELEMENTS, draws(1)), VECTOR, atol=1e-4)


def test_feedback_sends_later_what_was_left_out_and_each_client_has_its_own():
    coder = Largest(TopK(0.25), feedback=True)
    first = torch.tensor([4.0, 3.0, 2.0, 1.0])
    sent = [coder.decode(coder.encode(vector, (1, r, 7)), 4, (1, r, 7)) for r, vector in enumerate([first] * 2)]
    assert sent[0].tolist() == [4, 0, 0, 0]
    assert sent[1].tolist() == [0, 6, 0, 0]
    assert coder.decode(coder.encode(first, (1, 2, 8)), 4, (1, 2, 8)).tolist() == [4, 0, 0, 0]
    forgetful = Largest(TopK(0.25), feedback=False)
    for round_number in range(2):
        payload = forgetful.encode(first, (1, round_number, 7))
        assert forgetful.decode(payload, 4, (1, round_number, 7)).tolist() == [4, 0, 0, 0]


@pytest.mark.parametrize(
    "make", [lambda: RandomMask(200, 0.3, draws(1)), lambda: LowRank([(16, 10), (10,), (10, 3, 1)], 4, draws(1))]
)
def test_a_subspace_is_an_orthonormal_map_and_its_transpose(make):
    subspace = make()
    z = torch.randn(subspace.size, generator=draws(2))
    v = torch.randn(200, generator=draws(3))
    assert torch.allclose(subspace.project(subspace.expand(z)), z, atol=1e-5)
    assert torch.dot(subspace.expand(z), v).item() == pytest.approx(torch.dot(z, subspace.project(v)).item(), abs=1e-3)


def test_low_rank_has_its_rank_and_sends_its_thin_factor():
    subspace = LowRank([(16, 10), (10,), (10, 3)], 4, draws(1))
    assert subspace.size == 4 * 10 + 10 + 4 * 3
    change = subspace.expand(torch.randn(subspace.size, generator=draws(2)))
    assert torch.linalg.matrix_rank(change[:160].view(16, 10)) == 4
    assert torch.linalg.matrix_rank(change[170:].view(10, 3)) == 3


def test_a_random_mask_takes_every_place_equally_often():
    counts = torch.zeros(20)
    for seed in range(3000):
        counts[RandomMask(20, 0.25, draws(seed)).places] += 1
    assert torch.allclose(counts, torch.full((20,), 750.0), atol=5 * math.sqrt(3000 * 0.25 * 0.75))


@pytest.mark.parametrize("bits", [0, 9])
def test_bits_out_of_range_are_refused(bits: int):
    with pytest.raises(InputError, match=f"bits = {bits}"):
        Quantize(bits)
