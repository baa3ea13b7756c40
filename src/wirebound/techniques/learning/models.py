"""Small models for the data sets: a multilayer perceptron and a CNN for images, a transformer for characters.

None has batch statistics or dropout: the mean of the workers' gradients is the gradient of the whole batch.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from wirebound.errors import InputError, unknown_name
from wirebound.techniques.learning.data import CONTEXT, DataSet


def _mlp(side: int, classes: int) -> nn.Module:
    """Two hidden layers of 128 and 64."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(side * side, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, classes)
    )


def _cnn(side: int, classes: int) -> nn.Module:
    """Two convolutions, each followed by pooling, and two dense layers."""
    left = side // 4
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * left * left, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


class CharacterTransformer(nn.Module):
    """A decoder of two blocks (Vaswani et al. 2017; norm before each part), 64 wide, for `characters` kinds."""

    def __init__(self, characters: int, width: int = 64, heads: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters)

    def forward(self, codes: Tensor) -> Tensor:
        """Return the logits (batch, positions, characters) of the next character at each position."""
        hidden = self.characters(codes) + self.positions.weight[: codes.shape[1]]  # (batch, positions, width)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))  # type: ignore[no-any-return]


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.projected = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: Tensor) -> Tensor:
        batch, positions, width = hidden.shape
        mixed = self.mixed(self.norm1(hidden)).view(batch, positions, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)  # each (batch, heads, positions, width of a head)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.projected(attended.transpose(1, 2).reshape(batch, positions, width))
        return hidden + self.dense(self.norm2(hidden))  # type: ignore[no-any-return]


def learning_model(name: str, data: DataSet, seed: int) -> nn.Module:
    """Return the model ``mlp``, ``cnn`` or ``transformer`` for a data set, with weights drawn from `seed`.

    Raises `InputError` for an unknown name or a model that does not fit the data.
    """
    makers: dict[str, Callable[[], nn.Module]] = {
        "mlp": lambda: _mlp(data.inputs.shape[-1], data.classes),
        "cnn": lambda: _cnn(data.inputs.shape[-1], data.classes),
        "transformer": lambda: CharacterTransformer(data.classes),
    }
    if name not in makers:
        raise unknown_name("model", name, makers)
    if (name == "transformer") != (data.inputs.dtype == torch.int64):
        raise InputError(f"the model {name} does not fit the data set {data.name}: transformer is for text only")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return makers[name]()


def mean_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy, in nats, over all targets of a batch."""
    return mean_cross_entropy(model(inputs), targets)


def mean_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy, in nats, of logits, shape (…, classes), over all targets, shape (…)."""
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
