"""Ctrl-C and termination unwind what was set up, and never cut the taking down short."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))

#: A second signal within so many seconds of the first is the same wish.
_UNWINDING_S = 1.0


class Terminated(KeyboardInterrupt):
    """This process was asked to end, by a signal that would otherwise have ended it on the spot."""


class Interruptions:
    """While entered, a signal raises `KeyboardInterrupt` or `Terminated`; once `closing` is called it waits instead.

    So the taking down runs to its end, and a signal that came meanwhile is raised after it. A second one within a
    second of the first changes nothing: the first is unwinding. Within `held` a signal waits for the block's end.
    Only the main thread receives signals: elsewhere this does nothing. A signal that was ignored stays ignored.
    `before_raising` is called before an exception is raised, wherever the program is. An exception that is raised in a
    destructor is lost; what fails because of it is an interruption as well.
    """

    def __init__(self, before_raising: Callable[[], None] | None = None) -> None:
        self._before_raising = before_raising
        self._before: dict[int, Any] = {}
        self._holding = 0
        self._closing = False
        self._waiting: int | None = None
        self._raised: int | None = None
        self._raised_s = -math.inf

    def __enter__(self) -> "Interruptions":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._waiting is not None and error is None:
            raise _exception(self._waiting)
        if self._raised is not None and error is not None and issubclass(error, Exception):
            raise _exception(self._raised) from None

    def closing(self) -> None:
        """Let signals wait from here on."""
        self._closing = True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let signals wait until the block has ended: what it starts is then known to whoever takes it down."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
            if self._waiting is not None and not self._holding and not self._closing:
                number, self._waiting = self._waiting, None
                self._raise(number)

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self._holding or self._closing:
            self._waiting = number
        else:
            self._raise(number)

    def _raise(self, number: int) -> None:
        # Again after a while, for an exception that is raised in a destructor is lost.
        if time.monotonic() - self._raised_s > _UNWINDING_S:
            self._raised, self._raised_s = number, time.monotonic()
            if self._before_raising is not None:
                self._before_raising()
            raise _exception(number)


def _exception(number: int) -> type[KeyboardInterrupt]:
    return KeyboardInterrupt if number == signal.SIGINT else Terminated
