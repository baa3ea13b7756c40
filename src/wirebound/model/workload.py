"""One training step of one worker, without any network."""

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cached_property

from wirebound.errors import InputError, unknown_name

#: Bytes per element of the gradient types that a workload may be sent in.
GRADIENT_DTYPES = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One gradient tensor.

    `size` is in bytes; `gap_s` is the backward time in seconds since the tensor before it became ready; `forward_s`
    is the measured forward time of its layer in seconds, None where there is none (see `Workload.forward_gaps_s`).
    `shape` is in elements as the parameter is registered, outputs first, None where it is not known.
    """

    name: str
    size: int
    gap_s: float
    forward_s: float | None = None
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)  # no slots: what is derived from the tensors is kept once it was asked for
class Workload:
    """Gradient tensors in the order in which they become ready in backward, and the compute time around them.

    `forward_s` is all the time before backward begins, `optimizer_s` the time after all communication, in seconds.
    `timing` says where the times come from: ``measured``, ``flop-proportional`` where a measured or estimated total was
    shared out in proportion to each layer's floating-point operations, or ``flop-estimated`` where each layer's time
    follows from its operations and a calibration on other networks (`wirebound.fit.flops`). `vector_add` is a table of
    (bytes, seconds) of adding two vectors on the same device, empty where it was not measured. `fixed_forward` and
    `fixed_backward` are the shares of the forward and backward time, from 0 to 1, that do not grow with the batch: 0
    where nobody measured them. Raises `InputError` for values out of range, and where the step computes nothing.
    """

    name: str
    batch_size: int
    tensors: tuple[Tensor, ...]
    forward_s: float
    optimizer_s: float = 0.0
    timing: str = "measured"
    vector_add: tuple[tuple[float, float], ...] = ()
    gradient_dtype: str = "fp32"
    source: str = ""
    fixed_forward: float = 0.0
    fixed_backward: float = 0.0

    def __post_init__(self) -> None:
        if not self.tensors:
            raise InputError(f"workload {self.name!r} has no gradient tensors")
        if self.batch_size < 1:
            raise InputError(f"workload {self.name!r}: batch size {self.batch_size} must be at least 1")
        for value, what in ((self.forward_s, "forward_s"), (self.optimizer_s, "optimizer_s")):
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"workload {self.name!r}: {what} = {value} must be finite and not negative")
        for value, what in ((self.fixed_forward, "fixed_forward"), (self.fixed_backward, "fixed_backward")):
            if not 0 <= value <= 1:
                raise InputError(f"workload {self.name!r}: {what} = {value} must be a share from 0 to 1")
        for index, tensor in enumerate(self.tensors):
            if tensor.size <= 0:
                raise InputError(f"workload {self.name!r}: tensor {index} ({tensor.name}) has {tensor.size} bytes")
            for time in (tensor.gap_s, 0.0 if tensor.forward_s is None else tensor.forward_s):
                if not (math.isfinite(time) and time >= 0):
                    raise InputError(f"workload {self.name!r}: tensor {index} ({tensor.name}) has the time {time} s")
            if tensor.shape is not None and math.prod(tensor.shape) * self.element_bytes != tensor.size:
                raise InputError(
                    f"workload {self.name!r}: tensor {index} ({tensor.name}) has {tensor.size} bytes, but its shape"
                    f" {tensor.shape} of {self.gradient_dtype} has {math.prod(tensor.shape) * self.element_bytes}"
                )
        if not 0 < self.compute_s < math.inf:
            raise InputError(
                f"workload {self.name!r}: its compute time, forward_s + gap_s of all tensors + optimizer_s, is"
                f" {self.compute_s:g} s: it must be finite and greater than 0"
            )

    @property
    def element_bytes(self) -> int:
        """Bytes of one gradient value; raises `InputError` for an unknown type."""
        if self.gradient_dtype not in GRADIENT_DTYPES:
            raise unknown_name("gradient type", self.gradient_dtype, GRADIENT_DTYPES)
        return GRADIENT_DTYPES[self.gradient_dtype]

    @cached_property
    def size(self) -> int:
        """Bytes of all gradients."""
        return sum(self.sizes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each gradient."""
        return tuple(tensor.size for tensor in self.tensors)

    @cached_property
    def ready_s(self) -> tuple[float, ...]:
        """Seconds from the start of backward until each gradient is ready."""
        return tuple(itertools.accumulate(tensor.gap_s for tensor in self.tensors))

    @cached_property
    def backward_s(self) -> float:
        """Seconds of the whole backward pass, the sum of the gaps."""
        return self.ready_s[-1]

    @cached_property
    def compute_s(self) -> float:
        """Seconds of one step without any communication."""
        return self.forward_s + self.backward_s + self.optimizer_s

    @cached_property
    def optimizer_gaps_s(self) -> tuple[float, ...]:
        """Seconds of the optimizer for each tensor: `optimizer_s` shared out by bytes."""
        return tuple(self.optimizer_s * size / self.size for size in self.sizes)

    @cached_property
    def forward_gaps_s(self) -> tuple[float, ...]:
        """Forward seconds of each tensor's layer, in backward order: `forward_s` shared out, nothing lost or added.

        In proportion to the measured forward times where every tensor has one and they are not all 0 (what they leave
        of `forward_s`, or have too much, is spread over them); otherwise to the backward gaps, and evenly where these
        are all 0.
        """
        measured = [tensor.forward_s for tensor in self.tensors if tensor.forward_s is not None]
        gaps = [tensor.gap_s for tensor in self.tensors]
        shares = measured if len(measured) == len(gaps) and sum(measured) > 0 else gaps
        total = sum(shares)
        if total == 0:
            return tuple(self.forward_s / len(gaps) for _ in gaps)
        return tuple(self.forward_s * (share / total) for share in shares)

    def with_batch(self, batch_size: int) -> "Workload":
        """Return the workload at another batch size.

        Forward and backward follow their lines T = T₀ + T₁·batch, of which `fixed_forward` and `fixed_backward` are the
        shares T₀/T at the present batch: with 0 they scale in proportion. The optimizer's time stays.
        """
        ratio = batch_size / self.batch_size
        forward, backward = (share + (1 - share) * ratio for share in (self.fixed_forward, self.fixed_backward))
        return dataclasses.replace(
            self._scaled(forward, backward),
            batch_size=batch_size,
            fixed_forward=self.fixed_forward and self.fixed_forward / forward,
            fixed_backward=self.fixed_backward and self.fixed_backward / backward,
        )

    def with_gradient_dtype(self, dtype: str) -> "Workload":
        """Return the workload with gradients of another type; raises `InputError` for an unknown one."""
        if dtype not in GRADIENT_DTYPES:
            raise unknown_name("gradient type", dtype, GRADIENT_DTYPES)
        old, new = GRADIENT_DTYPES[self.gradient_dtype], GRADIENT_DTYPES[dtype]
        tensors = tuple(dataclasses.replace(t, size=-(-t.size // old) * new) for t in self.tensors)
        return dataclasses.replace(self, tensors=tensors, gradient_dtype=dtype)

    def with_compute_s(self, compute_s: float) -> "Workload":
        """Return the workload with every compute time scaled so that one step takes `compute_s` seconds."""
        factor = compute_s / self.compute_s
        return dataclasses.replace(self._scaled(factor, factor), optimizer_s=self.optimizer_s * factor)

    def _scaled(self, forward: float, backward: float) -> "Workload":
        """The workload with the times of forward and backward multiplied, the optimizer's as it was."""
        tensors = tuple(
            dataclasses.replace(
                tensor,
                gap_s=tensor.gap_s * backward,
                forward_s=None if tensor.forward_s is None else tensor.forward_s * forward,
            )
            for tensor in self.tensors
        )
        return dataclasses.replace(self, tensors=tensors, forward_s=self.forward_s * forward)
