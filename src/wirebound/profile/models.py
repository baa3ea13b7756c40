"""A small convolutional network to profile where no other model is at hand."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


class _Block(nn.Module):
    """Two 3×3 convolutions and a shortcut without parameters: stride and zero-padded channels (option A)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.stride = stride
        self.added_channels = channels_out - channels_in

    def forward(self, images: Tensor) -> Tensor:
        hidden = functional.relu(self.norm1(self.conv1(images)))
        hidden = self.norm2(self.conv2(hidden))
        shortcut = images[:, :, :: self.stride, :: self.stride]
        half = self.added_channels // 2
        return functional.relu(hidden + functional.pad(shortcut, (0, 0, 0, 0, half, self.added_channels - half)))


class ResNet20(nn.Module):
    """ResNet-20 for 32×32 images (He et al. 2016, section 4.2): 269,722 parameters in 59 tensors, 1.08 MB in fp32.

    Takes (batch, 3, 32, 32), gives (batch, 10).
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        widths = [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(_Block(before, width, stride), _Block(width, width, 1), _Block(width, width, 1))
                for before, width, stride in widths
            )
        )
        self.head = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = functional.relu(self.norm(self.conv(images)))  # (batch, 16, 32, 32)
        hidden = self.stages(hidden)  # (batch, 64, 8, 8)
        return self.head(hidden.mean(dim=(2, 3)))  # type: ignore[no-any-return]


def resnet20_job(
    batch_size: int = 32,
) -> tuple[nn.Module, Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor], tuple[Tensor, Tensor]]:
    """Return ResNet-20, its loss and one batch of random images: a job as `wirebound.profile.job` describes them."""
    model = ResNet20()
    return model, image_loss, (torch.randn(batch_size, 3, 32, 32), torch.randint(0, 10, (batch_size,)))


def image_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Return the mean cross-entropy of a batch: images (batch, 3, 32, 32) and their labels (batch)."""
    images, labels = batch
    return functional.cross_entropy(model(images), labels)
