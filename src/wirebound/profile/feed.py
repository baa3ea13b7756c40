"""The batches of a job, one after the other on its device, and how long each took to come."""

import contextlib
import multiprocessing
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from wirebound.errors import InputError
from wirebound.profile.job import batch_of, is_batch
from wirebound.profile.user_code import user_code


class Feed:
    """Gives a batch for each step: always the same one, or the next of an iterable, from its start when it ends.

    `seconds` has, for an iterable, how long each batch took: to be loaded, and to be on the device. `samples` is the
    size of the first batch, None where no tensor tells it, and `sizes` has all sizes that came: the last batch of an
    epoch may be smaller. Raises
    `InputError` for an iterable that gives nothing, or one that can be read once only and has ended.
    """

    def __init__(self, name: str, data: Any, device: str) -> None:
        self._name, self._data, self._device = name, data, device
        self._iterator: Iterator[Any] | None = None
        self._given = 0
        self.seconds: list[float] = []
        self.is_loader = not is_batch(data)
        self.batch: Any = None if self.is_loader else self._moved(data)
        self.samples = None if self.is_loader else batch_of(data)
        self.sizes = {self.samples}

    def advance(self) -> None:
        """Make the next batch the one of this step."""
        if not self.is_loader:
            return
        began = time.perf_counter()
        batch = self._next()
        self.batch = self._moved(batch)
        if self._device.startswith("cuda"):
            torch.cuda.synchronize()  # the copy is done, not only asked for
        self.seconds.append(time.perf_counter() - began)
        if not self._given:
            self.samples, self.sizes = batch_of(batch), set()
        self.sizes.add(batch_of(batch))
        self._given += 1

    def warnings(self) -> list[str]:
        """Return a warning where batches differ in size: times are then medians over all of them."""
        sizes = sorted(size for size in self.sizes if size is not None)
        if len(sizes) < 2:
            return []
        return [
            f"batches have {sizes[0]} to {sizes[-1]} samples: times are of all of them; with drop_last=True a"
            " DataLoader leaves the short last one out"
        ]

    def _next(self) -> Any:
        with user_code(f"{self._name}: loading a batch"), _deaths_told_once():
            if self._iterator is None:
                self._iterator = iter(self._data)
            for batch in self._iterator:
                return batch
            if self._iterator is not self._data:  # what can be read again starts from the beginning
                self._iterator = iter(self._data)
                for batch in self._iterator:
                    return batch
        if not self._given:
            raise InputError(f"{self._name}: its data gave no batch at all: is the data set empty?")
        raise InputError(
            f"{self._name}: its data ended after {self._given} batches: return a DataLoader, which can start again, or"
            " measure fewer steps"
        )

    def _moved(self, batch: Any) -> Any:
        with user_code(f"{self._name}: moving the batch to {self._device}"):
            return _on_device(batch, self._device)


def kill_loading_processes() -> None:
    """End the processes that load a job's data at once: left alone, one that is handing a batch over complains.

    In the main thread only, where the program ends. PyTorch then no longer tells that a loading process has died, nor
    do destructors complain, of objects that the interruption left half made.
    """
    _tell_no_deaths()
    sys.unraisablehook = _say_nothing
    for child in multiprocessing.active_children():
        child.kill()


def _say_nothing(_: object) -> None:
    pass


def _tell_no_deaths() -> None:
    if hasattr(signal, "SIGCHLD") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # PyTorch's handler raises wherever the program is


@contextlib.contextmanager
def _deaths_told_once() -> Iterator[None]:
    """An error of loading ends it: where a process died, PyTorch would raise again while the error is told."""
    try:
        yield
    except Exception as error:
        _tell_no_deaths()
        last = traceback.extract_tb(error.__traceback__)[-1]
        within = Path(last.filename).parts[-2:]
        if isinstance(error, OSError | EOFError) and within == ("multiprocessing", "connection.py"):
            raise RuntimeError("a process that loads data ended unexpectedly") from error
        raise


def _on_device(value: Any, device: str) -> Any:
    """The batch with every tensor on the device; what holds no tensor stays as it is."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if hasattr(value, "to") and callable(value.to):  # such as the batches of a tokenizer
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _on_device(item, device) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_on_device(item, device) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_on_device(item, device) for item in value)
    return value
