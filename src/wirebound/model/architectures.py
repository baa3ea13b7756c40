"""Parameter lists of well-known networks: names, shapes and floating-point operations, in registration order.

Operations are those of one sample's forward pass. A multiplication with an addition counts as two; a bias, or the
scale or shift of a normalization, counts one per output value. Batch normalization's running statistics are buffers,
not parameters, and have no gradient.

Layouts: ResNet (He et al. 2016) and VGG-16 with batch normalization (Simonyan and Zisserman 2015) as in torchvision,
for 224×224 images and 1,000 classes; BERT (Devlin et al. 2019) with its pre-training heads, as in Hugging Face's
``BertForPreTraining``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from wirebound.errors import InputError

#: Tokens per sequence in the BERT runs of Shi et al. (2020), and this module's default.
SEQUENCE_LENGTH = 64
VOCABULARY = 30_522
BYTES_PER_ELEMENT = 4


@dataclass(frozen=True, slots=True)
class Parameter:
    """One learned tensor: its `shape` in elements and the `forward_flops` that it takes part in, per sample."""

    name: str
    shape: tuple[int, ...]
    forward_flops: int

    @property
    def layer(self) -> str:
        """Name of the layer that the tensor belongs to."""
        return self.name.rpartition(".")[0]

    @property
    def elements(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes of the fp32 gradient."""
        return self.elements * BYTES_PER_ELEMENT


def _convolution(name: str, inputs: int, outputs: int, kernel: int, side: int) -> Parameter:
    """A square convolution without bias whose output is `side` × `side` pixels."""
    return Parameter(f"{name}.weight", (outputs, inputs, kernel, kernel), 2 * inputs * outputs * kernel**2 * side**2)


def _affine(name: str, features: int, values: int) -> list[Parameter]:
    """Scale and shift of a normalization with `values` output values per sample."""
    return [Parameter(f"{name}.{part}", (features,), values) for part in ("weight", "bias")]


def _linear(name: str, inputs: int, outputs: int, positions: int = 1) -> list[Parameter]:
    """A fully connected layer applied at `positions` places of one sample."""
    return [
        Parameter(f"{name}.weight", (outputs, inputs), 2 * inputs * outputs * positions),
        Parameter(f"{name}.bias", (outputs,), outputs * positions),
    ]


def _resnet(blocks: tuple[int, ...], bottleneck: bool) -> list[Parameter]:
    """Residual network; the stride sits in a bottleneck's 3×3 convolution, as in torchvision."""
    parameters = [_convolution("conv1", 3, 64, 7, 112), *_affine("bn1", 64, 64 * 112**2)]
    channels = 64
    side = 56
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        outputs = width * 4 if bottleneck else width
        for block in range(count):
            prefix = f"layer{stage + 1}.{block}"
            before, side = side, 56 // 2**stage
            if bottleneck:
                convolutions = [(channels, width, 1, before), (width, width, 3, side), (width, outputs, 1, side)]
            else:
                convolutions = [(channels, width, 3, side), (width, width, 3, side)]
            for number, (n_in, n_out, kernel, out_side) in enumerate(convolutions, start=1):
                parameters.append(_convolution(f"{prefix}.conv{number}", n_in, n_out, kernel, out_side))
                parameters += _affine(f"{prefix}.bn{number}", n_out, n_out * out_side**2)
            if block == 0 and channels != outputs:
                parameters.append(_convolution(f"{prefix}.downsample.0", channels, outputs, 1, side))
                parameters += _affine(f"{prefix}.downsample.1", outputs, outputs * side**2)
            channels = outputs
    return parameters + _linear("fc", channels, 1000)


def _vgg16() -> list[Parameter]:
    """VGG-16 with batch normalization; convolutions keep their biases."""
    parameters: list[Parameter] = []
    channels, side, index = 3, 224, 0
    for repeats, width in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(repeats):
            parameters.append(_convolution(f"features.{index}", channels, width, 3, side))
            parameters.append(Parameter(f"features.{index}.bias", (width,), width * side**2))
            parameters += _affine(f"features.{index + 1}", width, width * side**2)
            channels = width
            index += 3
        side //= 2
        index += 1
    for position, (n_in, n_out) in zip((0, 3, 6), ((512 * 7 * 7, 4096), (4096, 4096), (4096, 1000)), strict=True):
        parameters += _linear(f"classifier.{position}", n_in, n_out)
    return parameters


def _bert(layers: int, hidden: int) -> list[Parameter]:
    """BERT with both pre-training heads; the decoder shares the word embedding's weight.

    The two products of attention, which have no parameters, count with the query and key projections' weights; the
    decoder's product counts with its bias, because the shared weight is ready only at the end of backward.
    """
    tokens = SEQUENCE_LENGTH
    values = hidden * tokens
    parameters = [
        Parameter("bert.embeddings.word_embeddings.weight", (VOCABULARY, hidden), 0),
        Parameter("bert.embeddings.position_embeddings.weight", (512, hidden), values),
        Parameter("bert.embeddings.token_type_embeddings.weight", (2, hidden), values),
        *_affine("bert.embeddings.LayerNorm", hidden, values),
    ]
    attention_product = 2 * tokens**2 * hidden
    for layer in range(layers):
        prefix = f"bert.encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            weight, bias = _linear(f"{prefix}.attention.self.{part}", hidden, hidden, tokens)
            if part != "value":
                weight = Parameter(weight.name, weight.shape, weight.forward_flops + attention_product)
            parameters += [weight, bias]
        parameters += _linear(f"{prefix}.attention.output.dense", hidden, hidden, tokens)
        parameters += _affine(f"{prefix}.attention.output.LayerNorm", hidden, values)
        parameters += _linear(f"{prefix}.intermediate.dense", hidden, 4 * hidden, tokens)
        parameters += _linear(f"{prefix}.output.dense", 4 * hidden, hidden, tokens)
        parameters += _affine(f"{prefix}.output.LayerNorm", hidden, values)
    parameters += _linear("bert.pooler.dense", hidden, hidden)
    parameters.append(Parameter("cls.predictions.bias", (VOCABULARY,), (2 * hidden + 1) * VOCABULARY * tokens))
    parameters += _linear("cls.predictions.transform.dense", hidden, hidden, tokens)
    parameters += _affine("cls.predictions.transform.LayerNorm", hidden, values)
    return parameters + _linear("cls.seq_relationship", hidden, 2)


_BUILDERS: dict[str, Callable[[], list[Parameter]]] = {
    "resnet18": lambda: _resnet((2, 2, 2, 2), bottleneck=False),
    "resnet50": lambda: _resnet((3, 4, 6, 3), bottleneck=True),
    "resnet101": lambda: _resnet((3, 4, 23, 3), bottleneck=True),
    "vgg16": _vgg16,
    "bert-base": lambda: _bert(12, 768),
    "bert-large": lambda: _bert(24, 1024),
}

#: Names of the networks that this module knows.
ARCHITECTURES = tuple(_BUILDERS)


def parameters_of(name: str) -> tuple[Parameter, ...]:
    """Return the parameters of network `name` in registration order; raises `InputError` for an unknown name."""
    if name not in _BUILDERS:
        raise InputError(f"unknown network {name!r}: use one of {', '.join(_BUILDERS)}")
    return tuple(_BUILDERS[name]())


def backward_order(name: str) -> tuple[Parameter, ...]:
    """Return the parameters of network `name` in the order in which backward makes their gradients ready.

    That is the reverse of registration, except that BERT's decoder, registered before the layer that feeds it, comes
    first. Raises `InputError` for an unknown name.
    """
    parameters = parameters_of(name)[::-1]
    return tuple(sorted(parameters, key=lambda parameter: parameter.name != "cls.predictions.bias"))


def forward_flops(name: str) -> int:
    """Return the floating-point operations of one sample's forward pass; raises `InputError` for an unknown name."""
    return sum(parameter.forward_flops for parameter in parameters_of(name))
