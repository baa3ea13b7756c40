"""What a compressor remembers of one tensor from step to step, and how it is saved."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from wirebound.errors import InputError


@dataclass(slots=True)
class State:
    """Nothing to remember. Fields of subclasses are tensors (None before the first step) and numbers."""

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all fields by name; with them a resumed run equals an uninterrupted one bit for bit."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value.clone() if isinstance(value, Tensor) else value for name, value in fields.items()}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; raises `InputError` for other fields."""
        names = {field.name for field in dataclasses.fields(self)}
        if set(saved) != names:
            raise InputError(
                f"saved state has the fields {sorted(saved)}, not {sorted(names)}: load it into the compressor it is of"
            )
        for name, value in saved.items():
            setattr(self, name, value.clone() if isinstance(value, Tensor) else value)


@dataclass(slots=True)
class Residual(State):
    """Error feedback: `residual` is what has been gathered but not sent, flat, in fp32."""

    residual: Tensor | None = None


@dataclass(slots=True)
class Draws(State):
    """Where a worker is in its random numbers: see `random.words`. `step` counts the calls of encode."""

    seed: int
    worker: int
    tensor: int
    step: int = 0

    @property
    def stream(self) -> tuple[int, int, int, int]:
        """The four numbers that select the random numbers of this step."""
        return self.seed, self.worker, self.step, self.tensor


@dataclass(slots=True)
class ResidualDraws(Draws):
    """Random numbers and error feedback."""

    residual: Tensor | None = None
