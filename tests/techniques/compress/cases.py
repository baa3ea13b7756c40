"""Compressors and gradients that the tests of this folder share."""

import math

import torch

from wirebound.simulate.compressors import Gradient, compressor_named
from wirebound.techniques.compress.compressor import compressor_of

TEXTS = (
    "fp16",
    "bf16",
    "onebit",
    "signsgd",
    "ef-signsgd",
    "qsgd:1",
    "qsgd:7",
    "qsgd:16,100",
    "qsgd:300,33",
    "terngrad",
    "randomk:0.1",
    "topk:0.01",
    "gtopk:0.05",
    "dgc:0.02",
)
#: Those that keep what they did not send.
WITH_FEEDBACK = ("onebit", "ef-signsgd", "randomk:0.1", "topk:0.01", "gtopk:0.05")
SHAPES = ((), (0,), (1,), (7,), (8,), (9,), (513,), (1001,), (1, 5), (33, 77), (4, 3, 3, 3), (8197,))


def real(text):
    return compressor_of(compressor_named(text))


def gaussian(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def as_engine_sees(tensor, workers=1):
    matrix = (tensor.shape[0], tensor.numel() // tensor.shape[0]) if tensor.dim() > 1 else None
    return Gradient(tensor.numel(), tensor.element_size(), matrix, workers)


def new_state(compressor, worker=0):
    return compressor.new_state(seed=7, worker=worker, tensor=3)


def sent(compressor, gradients, state):
    """Return what a receiver decodes in each step."""
    return [compressor.decode(compressor.encode(g, state), g.shape) for g in gradients]


def same_tensors(left, right):
    return len(left) == len(right) and all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def power(shape, exponent, seed=0):
    """Gaussian values times a power of two: products with it are exact."""
    return gaussian(shape, seed) * math.ldexp(1.0, exponent)
