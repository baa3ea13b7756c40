"""How a rank of a launched job ends when it is interrupted: soon, wherever it waits, and the first rank alone says so.

A rank that waits for another one inside of PyTorch may run no handler of signals until the other one comes, and what a
handler raises in a destructor, such as that of a data loader, is lost.
"""

import contextlib
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

from wirebound.testbed.interruption import Terminated

#: What is set up is taken down in less; launchers kill only after 30 seconds.
_GRACE_S = 3.0
_NUMBERS = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}


@contextlib.contextmanager
def ends_as_a_rank(is_first: bool) -> Iterator[None]:
    """End the process where the block is interrupted; the first rank says so, unless its launcher ended it.

    From here on, also after the block, the process ends a few seconds after a signal even if nothing else ends it.
    """
    threading.Thread(target=_end_after_signal, args=(_signals(), is_first), name="signals", daemon=True).start()
    try:
        yield
    except KeyboardInterrupt as error:
        # All is taken down. On the spot, for launchers send the signal again.
        _end(signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT, is_first)


def _signals() -> socket.socket:
    """A socket that gets the number of each signal at once, whatever the main thread does."""
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.detach(), warn_on_full_buffer=False)
    if hasattr(os, "register_at_fork"):  # the signals of a process that loads data are not this one's
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    return receiver


def _end_after_signal(numbers: socket.socket, is_first: bool) -> None:
    while (number := numbers.recv(1)[0]) not in _NUMBERS:
        pass
    time.sleep(_GRACE_S)
    for child in multiprocessing.active_children():  # left alone, one that loads data complains
        child.kill()
    _end(number, is_first)


def _end(number: int, is_first: bool) -> None:
    try:
        if is_first and number == signal.SIGINT:
            os.write(2, b"wirebound: interrupted\n")
    finally:
        os._exit(128 + number)
