"""Parameter lists against the sizes that papers, torchvision and Hugging Face state."""

import pytest

from wirebound.errors import InputError
from wirebound.model.architectures import ARCHITECTURES, backward_order, forward_flops, parameters_of


@pytest.mark.parametrize(
    ("name", "tensors", "elements"),
    [
        ("resnet18", 62, 11_689_512),
        ("resnet50", 161, 25_557_032),
        ("resnet101", 314, 44_549_160),
        ("vgg16", 58, 138_365_992),
        ("bert-base", 206, 110_106_428),
        ("bert-large", 398, 336_226_108),
    ],
)
def test_number_of_tensors_and_parameters(name: str, tensors: int, elements: int) -> None:
    parameters = parameters_of(name)
    assert len(parameters) == tensors
    assert sum(parameter.elements for parameter in parameters) == elements
    assert len({parameter.name for parameter in parameters}) == tensors


@pytest.mark.parametrize(
    ("name", "multiply_adds"),
    # Giga multiply-adds that torchvision's documentation gives with its pretrained weights.
    [("resnet18", 1.81), ("resnet50", 4.09), ("resnet101", 7.80), ("vgg16", 15.47)],
)
def test_operations_agree_with_torchvision(name: str, multiply_adds: float) -> None:
    matrices = [p for p in parameters_of(name) if len(p.shape) > 1]
    assert sum(p.forward_flops for p in matrices) / 2e9 == pytest.approx(multiply_adds, abs=0.01)
    assert forward_flops(name) == pytest.approx(2e9 * multiply_adds, rel=0.01)


@pytest.mark.parametrize(("name", "layers", "hidden"), [("bert-base", 12, 768), ("bert-large", 24, 1024)])
def test_operations_of_bert_in_closed_form(name: str, layers: int, hidden: int) -> None:
    # Per token: 12 h² multiply-adds of weights and 2·s·h of attention a layer, h² of the transform, h·V of the decoder.
    tokens, vocabulary = 64, 30_522
    per_token = layers * (12 * hidden**2 + 2 * tokens * hidden) + hidden**2 + hidden * vocabulary
    assert forward_flops(name) == pytest.approx(2 * tokens * per_token, rel=0.002)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_backward_order_has_the_same_parameters(name: str) -> None:
    assert sorted(p.name for p in backward_order(name)) == sorted(p.name for p in parameters_of(name))


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet101", "vgg16"])
def test_backward_order_of_image_networks_reverses_registration(name: str) -> None:
    assert backward_order(name) == parameters_of(name)[::-1]


@pytest.mark.parametrize("name", ["bert-base", "bert-large"])
def test_decoder_comes_first_and_shared_embedding_last(name: str) -> None:
    order = [p.name for p in backward_order(name)]
    assert order[0] == "cls.predictions.bias"
    assert order[-1] == "bert.embeddings.word_embeddings.weight"


def test_resnet18_fills_the_buckets_that_ddp_makes() -> None:
    """Buckets at 25 MiB with a first limit of 1 MiB, as PyTorch's DDP reports them for torchvision's ResNet-18."""
    buckets, size, limit = [], 0, 2**20
    for parameter in backward_order("resnet18"):
        size += parameter.size
        if size >= limit:
            buckets.append(size)
            size, limit = 0, 25 * 2**20
    assert [*buckets, size] == [2_052_000, 28_852_224, 15_853_824]


def test_unknown_network_is_one_line() -> None:
    with pytest.raises(InputError, match="unknown network 'alexnet': use one of resnet18"):
        parameters_of("alexnet")
