"""The errors that this package raises on purpose."""


class WireboundError(Exception):
    """Something failed that is nobody's mistake; the command line exits with code 1."""


class InputError(WireboundError, ValueError):
    """A user's mistake: the message is one line that names the culprit and the remedy; exit code 2."""
