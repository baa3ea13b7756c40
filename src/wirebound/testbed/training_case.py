"""What to train on which links, as the engine sees it (a `Method`) and as the processes do (a `Job`)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from wirebound.errors import InputError, unknown_name
from wirebound.model import Codec, Compressor, Method, Step, Workload, method_named
from wirebound.techniques.job import Job

#: The seven techniques and PyTorch's.
METHODS = (
    "bsp-ps",
    "bsp-a2a",
    "wfbp-ps",
    "wfbp-a2a",
    "mg-wfbp",
    "bytescheduler-ps",
    "bytescheduler-a2a",
    "ddp",
)
#: Models here have 1 to 11 MB: partitions and credit are smaller than for the models of data centres.
PARTITION_BYTES, CREDIT_BYTES = 2.0**18, 2.0**20
BUCKET_CAP_BYTES = 2.0**20
_ONE_BUCKET = 2.0**40
#: Everything goes through the link of one server.
SERVERS = 1


@dataclass(frozen=True, slots=True)
class TrainingCase:
    """`ranks` workers train `model` over links of `rate_Bps` bytes per second; `batch_size` is each worker's."""

    model: str
    batch_size: int
    ranks: int
    rate_Bps: float  # noqa: N815 - the unit is bytes per second
    method: Method

    @property
    def servers(self) -> int:
        """Parameter servers beside the workers."""
        return 0 if self.method.architecture == "all-reduce" else self.method.servers

    @property
    def label(self) -> str:
        """The method, with its compressor where there is one."""
        compressor = self.method.compressor
        return self.method.name if compressor is None else f"{self.method.name} {compressor.label}"


def training_method(
    name: str, *, bucket_cap_bytes: float = BUCKET_CAP_BYTES, compressor: Compressor | None = None
) -> Method:
    """Return the method as this testbed trains with it; raises `InputError` for one that it does not train with.

    A compressor is a communication hook of ``ddp``. PowerSGD's hook needs all gradients in one bucket.
    """
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    if compressor is not None and name != "ddp":
        raise InputError(f"{name} with {compressor.label}: compressors are hooks of ddp: choose that method")
    if name == "ddp":
        cap = _bucket_cap(bucket_cap_bytes, compressor)
        return method_named("ddp", bucket_cap_bytes=cap, first_bucket_bytes=cap, compressor=compressor)
    changes: dict[str, Any] = {}
    if name.startswith("bytescheduler"):
        changes = {"partition_bytes": PARTITION_BYTES, "credit_bytes": CREDIT_BYTES}
    if name.endswith("-ps"):
        # Pieces are pushed while earlier ones are pulled with bytescheduler; the other two wait for each.
        changes |= {"servers": SERVERS, "pipelined": name.startswith("bytescheduler")}
    return method_named(name, **changes)


def profiled_techniques(method: Method) -> tuple[str, ...]:
    """Return the techniques whose work without communication is this method's, or which it lies between."""
    known = {
        "bsp-ps": ("bsp-a2a",),
        "wfbp-ps": ("wfbp-a2a",),
        "mg-wfbp": ("bsp-a2a", "wfbp-a2a"),
        "bytescheduler-ps": ("bytescheduler-a2a",),
    }
    return known.get(method.name, (method.name,))


def profile_job(
    model: str,
    batch_size: int,
    technique: str,
    *,
    steps: int,
    bucket_cap_bytes: float,
    compressor: Compressor | None = None,
) -> Job:
    """Return the job of one rank's profile."""
    choices: dict[str, Any] = {}
    if technique == "ddp":
        choices = {"bucket_cap_bytes": _bucket_cap(bucket_cap_bytes, compressor), "compressor": _fields(compressor)}
    elif technique.startswith("bytescheduler"):
        choices = {"partition_bytes": PARTITION_BYTES, "credit_bytes": CREDIT_BYTES}
    warmup = _warmup(compressor)
    return Job(model, technique, workers=1, steps=steps, warmup=warmup, batch_size=batch_size, choices=choices)


def _bucket_cap(bucket_cap_bytes: float, compressor: Compressor | None) -> float:
    return _ONE_BUCKET if compressor is not None and compressor.name == "powersgd" else bucket_cap_bytes


def _warmup(compressor: Compressor | None) -> int:
    """Steps before the measured ones. PowerSGD's hook compresses from the third step on, and first compiles itself."""
    return 9 if compressor is not None and compressor.name == "powersgd" else 3


def _fields(compressor: Compressor | None) -> dict[str, Any] | None:
    if compressor is None:
        return None
    return {key: value for key, value in asdict(compressor).items() if key != "codec"}


def training_job(case: TrainingCase, workload: Workload, step: Step, *, steps: int) -> Job:
    """Return the job that does what the predicted `step` does: its messages, its order."""
    method = case.method
    names = [tensor.name for tensor in workload.tensors]
    choices: dict[str, Any] = {"order": names}
    if method.schedule == "ddp":
        choices = {"bucket_cap_bytes": method.bucket_cap_bytes, "compressor": _fields(method.compressor)}
    elif method.schedule == "mg-wfbp":
        messages = sorted(step.messages, key=lambda message: message.tensors)
        choices["groups"] = [[names[tensor] for tensor in message.tensors] for message in messages]
    elif method.schedule == "priority":
        choices = {
            "priority": names[::-1],
            "partition_bytes": method.partition_bytes,
            "credit_bytes": method.credit_bytes,
        }
    return Job(
        case.model,
        method.name,
        workers=case.ranks,
        servers=case.servers,
        steps=steps + 1,  # the last one's period ends with the next
        warmup=_warmup(method.compressor),
        batch_size=case.batch_size,
        choices=choices,
    )


def with_codec(method: Method, codec: Codec) -> Method:
    """Return the method with what its compressor was found to cost."""
    assert method.compressor is not None
    return replace(method, compressor=replace(method.compressor, codec=codec))


def check_cases(cases: Sequence[TrainingCase], steps: int) -> None:
    """Raise `InputError` for what cannot be trained."""
    if not cases:
        raise InputError("nothing to train: give models, ranks, rates and methods")
    if not 2 <= steps <= 10_000:
        raise InputError(f"steps = {steps} must be between 2 and 10,000")
    for case in cases:
        check_model(case.model)
        check_batch(case.batch_size)


def check_batch(size: int) -> int:
    """Return a worker's batch size; raises `InputError` for one that cannot be trained with."""
    if not 2 <= size <= 4096:
        raise InputError(f"batch size {size} must be between 2, for batch normalization, and 4096")
    return size


def check_model(name: str) -> str:
    """Return the name of a model that can be trained; raises `InputError` for another."""
    from wirebound.techniques.models import MODELS

    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return name
