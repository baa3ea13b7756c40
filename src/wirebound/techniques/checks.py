"""What the settings of several kinds of training must be."""

from wirebound.errors import InputError


def require_counts(settings: object, *names: str) -> None:
    """Raise `InputError` where a field of that name is not at least 1."""
    for name in names:
        value = getattr(settings, name)
        if value < 1:
            raise InputError(f"{name.replace('_', ' ')} = {value} must be at least 1")


def require_momentum(momentum: float) -> None:
    """Raise `InputError` for a momentum with which an optimizer does not forget."""
    if not 0 <= momentum < 1:
        raise InputError(f"momentum = {momentum} must be at least 0 and less than 1")
