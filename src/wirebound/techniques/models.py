"""Models small enough to train in several processes on one machine. All take images of 3×32×32 and have 10 classes."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from wirebound.errors import unknown_name
from wirebound.profile.models import ResNet20


def _mlp() -> nn.Module:
    """Two hidden layers: 820,874 parameters in 6 tensors, 3.3 MB in fp32; no batch statistics."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(3072, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def _small_vgg() -> nn.Module:
    """Six convolutions and two dense layers: 1.9 million parameters in 16 tensors, 7.4 MB in fp32; no batch statistics.

    Most bytes are in the first dense layer, whose gradient is ready early: communication-bound, as VGG-16 is.
    """
    layers: list[nn.Module] = []
    before = 3
    for width in (32, 64, 128):
        for channels in (before, width):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
        before = width
    layers += [nn.Flatten(), nn.Linear(128 * 4 * 4, 760), nn.ReLU(), nn.Linear(760, 10)]
    return nn.Sequential(*layers)


class _BasicBlock(nn.Module):
    """Two 3×3 convolutions with batch norm, and a 1×1 convolution as shortcut where the shape changes (option B)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            convolution = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(channels_out))

    def forward(self, images: Tensor) -> Tensor:
        hidden = functional.relu(self.norm1(self.conv1(images)))
        return functional.relu(self.norm2(self.conv2(hidden)) + self.shortcut(images))


class HalfResNet18(nn.Module):
    """ResNet-18 (He et al. 2016) at half its widths, for small images: 2.8 million parameters, 11.2 MB in fp32."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        blocks: list[nn.Module] = []
        before = 32
        for width, stride in ((32, 1), (64, 2), (128, 2), (256, 2)):
            blocks += [_BasicBlock(before, width, stride), _BasicBlock(width, width, 1)]
            before = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(256, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.blocks(self.stem(images))  # (batch, 256, 4, 4)
        return self.head(hidden.mean(dim=(2, 3)))  # type: ignore[no-any-return]


MODELS = {"mlp": _mlp, "resnet20": ResNet20, "small-vgg": _small_vgg, "half-resnet18": HalfResNet18}


def build_model(name: str, seed: int = 0) -> nn.Module:
    """Return the model `name` with weights drawn from `seed`; raises `InputError` for an unknown one."""
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name]()
