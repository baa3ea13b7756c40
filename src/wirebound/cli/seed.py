"""The option --seed, the same for every command that draws random numbers."""

from wirebound.errors import InputError

#: The seeds that every generator takes.
_LARGEST_SEED = 2**32 - 1


def check_seed(seed: int) -> None:
    """Raise `InputError` for a seed that some generator does not take."""
    if not 0 <= seed <= _LARGEST_SEED:
        raise InputError(f"--seed {seed} must be between 0 and {_LARGEST_SEED}")
