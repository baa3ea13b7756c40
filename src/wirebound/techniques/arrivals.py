"""Which messages have come back, told by background threads to the thread that trains."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from wirebound.errors import WireboundError
from wirebound.techniques.layout import Message, Piece


class Arrivals:
    """Counts the pieces of each message that have come back as averages, and passes on errors of background threads.

    A wait of more than `timeout_s` seconds is an error.
    """

    def __init__(self, pieces: Sequence[Piece], timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._pieces = Counter(piece.message for piece in pieces)
        self._arrived: Counter[Message] = Counter()

    def arrived(self, piece: Piece) -> None:
        """Count a piece whose average is in its buffer."""
        with self._changed:
            self._arrived[piece.message] += 1
            self._changed.notify_all()

    def wait(self, message: Message, step: int) -> None:
        """Return when all pieces of a message have arrived in `step`, counted from 0, and in every step before.

        Raises `WireboundError` when a background thread failed or `timeout_s` have passed.
        """
        wanted = (step + 1) * self._pieces[message]
        with self._changed:
            self._changed.wait_for(lambda: self._error or self._arrived[message] >= wanted, self._timeout_s)
            if self._error is not None:
                raise WireboundError(str(self._error)) from self._error
            if self._arrived[message] < wanted:
                raise WireboundError(
                    f"the average of {message.names[0]} did not arrive within {self._timeout_s:g} s: another process"
                    " is stuck or much slower"
                )

    def fail(self, error: BaseException) -> None:
        """Make every wait end with this error."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def in_background(self, name: str, body: Callable[[], None]) -> threading.Thread:
        """Start a thread that runs `body`; what it raises is raised by `wait`."""

        def run() -> None:
            try:
                body()
            except BaseException as error:
                self.fail(error)

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread
