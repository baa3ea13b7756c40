"""The remedies that advise tries: each is a change of the job's options, so that `predict` can be asked the same.

To add one, write a function that yields its remedies for a job and add it to `REMEDIES`.
"""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from wirebound.cli.job_command import command_line
from wirebound.cli.job_options import JobOptions
from wirebound.cli.job_reading import Job
from wirebound.model.method import METHOD_NAMES, method_named
from wirebound.units import BYTES_PER_S_PER_GBPS, format_bandwidth

#: Rates of network links that one can buy, in Gbps.
STANDARD_GBPS = (1, 10, 25, 40, 100, 200, 400, 800)
#: Bucket limits of ddp that are tried, in MiB.
BUCKET_CAPS_MIB = (1, 2, 5, 10, 50, 100, 200, 400)


@dataclass(frozen=True, slots=True)
class Price:
    """What a remedy costs besides time: risk for accuracy, hardware to buy, change of the code; ``none`` where none."""

    accuracy: str = "none"
    hardware: str = "none"
    code: str = "none"


@dataclass(frozen=True, slots=True)
class Remedy:
    """The same job with some options changed; `change` says which in words.

    Of several remedies with the same `family` only the best is worth telling. `own_bandwidth` is set where the
    bandwidth itself is the remedy, `has_own_cost` where it takes work of its own, which may exceed what it saves.
    With `local_steps` above 1 workers average their models every so many steps only. `scaled_by` is the factor on a
    fitted bandwidth, which stays as uncertain as it was.
    """

    name: str
    change: str
    options: JobOptions
    price: Price
    family: str = ""
    own_bandwidth: bool = False
    has_own_cost: bool = False
    local_steps: int = 1
    scaled_by: float | None = None

    @property
    def consistency(self) -> str | None:
        """What `predict` takes as ``--consistency``; None where it is not needed."""
        return f"local-sgd:{self.local_steps}" if self.local_steps > 1 else None

    @property
    def command(self) -> str:
        """The `predict` command that says what the remedy does, quoted for a POSIX shell."""
        command = command_line("predict", self.options)
        return command if self.consistency is None else f"{command} --consistency {self.consistency}"


Finder = Callable[[JobOptions, Job], Iterator[Remedy]]


def remedies_for(options: JobOptions, job: Job) -> list[Remedy]:
    """Return every remedy of `REMEDIES` for the job, in the order of that list."""
    return [remedy for find in REMEDIES for remedy in find(options, job)]


def _changed(options: JobOptions, **changes: Any) -> JobOptions:
    return dataclasses.replace(options, **changes)


def _full_utilization(options: JobOptions, job: Job) -> Iterator[Remedy]:
    if options.utilization < 1 and _has_network(job):
        price = Price(
            code="another transport: RDMA, several connections, larger messages", hardware="perhaps RDMA cards"
        )
        change = f"the whole bandwidth instead of {options.utilization:.0%} of it"
        yield Remedy("full utilization", change, _changed(options, utilization=1.0), price)


def _more_bandwidth(options: JobOptions, job: Job) -> Iterator[Remedy]:
    """The next three standard rates; of a fitted network, whose nominal rate is not known, twice and four times."""
    if not _has_network(job):
        return
    now = job.training.cluster.inter.bandwidth
    wanted = [rate for rate in STANDARD_GBPS if rate * BYTES_PER_S_PER_GBPS > now][:3]
    if options.network is not None or not wanted:
        rates = [(f"{factor:g}× the bandwidth", factor * now) for factor in (2.0, 4.0)]
    else:
        rates = [(f"{rate} Gbps", float(rate * BYTES_PER_S_PER_GBPS)) for rate in wanted]
    for shown, rate in rates:
        changes: dict[str, Any] = {"bandwidth": f"{rate / BYTES_PER_S_PER_GBPS:.17g} Gbps", "network": None}
        scaled_by = None
        if options.network is not None:
            scaled_by = rate / now
            if options.latency is None:
                changes["latency"] = f"{job.training.cluster.inter.latency_s!r} s"
        price = Price(hardware="network cards, switches and cables")
        change = f"{shown} instead of {format_bandwidth(now)}"
        yield Remedy("bandwidth", change, _changed(options, **changes), price, own_bandwidth=True, scaled_by=scaled_by)


#: The options that mean something with parameter servers only.
_NO_SERVERS: dict[str, Any] = {
    "servers": None,
    "colocated": False,
    "pipelined": False,
    "incast": 0.0,
    "compressed_pull": False,
}
#: What each method asks for in code.
_METHOD_CODE = {
    "bsp-ps": "servers that wait for the whole gradient",
    "bsp-a2a": "one all-reduce after backward",
    "wfbp-ps": "servers that take each gradient when it is ready",
    "wfbp-a2a": "an all-reduce for each gradient when it is ready",
    "mg-wfbp": "a library that merges gradients where it pays",
    "bytescheduler-ps": "a library that orders partitions by priority (BytePS)",
    "bytescheduler-a2a": "a library that orders partitions by priority (published runs scale worse than this)",
    "p3": "servers that take slices by priority (P3)",
    "tictac": "servers that take pushes in the order of the next forward pass (TicTac)",
    "ddp": "PyTorch's DistributedDataParallel",
    "horovod": "Horovod",
}


def _other_method(options: JobOptions, job: Job) -> Iterator[Remedy]:
    for name in METHOD_NAMES:
        if name == job.method.name:
            continue
        method = method_named(name)
        changes: dict[str, Any] = {"method": name}
        if method.schedule != "ddp":
            changes |= {"bucket_cap": None, "first_bucket_cap": None}
        servers = method.architecture == "parameter-server"
        changes |= {"collective": None} if servers else _NO_SERVERS
        more = servers and job.method.architecture != "parameter-server" and not options.colocated
        hardware = f"{job.training.cluster.nodes} server machines" if more else "none"
        price = Price(code=_METHOD_CODE[name], hardware=hardware)
        yield Remedy("method", f"{name} instead of {job.method.name}", _changed(options, **changes), price)


def _fusion(options: JobOptions, job: Job) -> Iterator[Remedy]:
    """Bucket limits of ddp; a limit that is given is the first bucket's too, as in torch."""
    if job.method.schedule == "ddp":
        for cap in BUCKET_CAPS_MIB:
            changed = _changed(options, bucket_cap=f"{cap} MiB", first_bucket_cap=f"{cap} MiB")
            yield Remedy(
                "fusion", f"buckets of {cap} MiB", changed, Price(code=f"bucket_cap_mb={cap}"), family="fusion"
            )


#: The options that mean something beside a compressor only.
_NO_CODEC: dict[str, Any] = {
    "codec": None,
    "free_codec": False,
    "device_memory_bandwidth": None,
    "compress_from": None,
    "compressed_pull": False,
}
#: Compressors that are tried, and what each risks.
_COMPRESSOR_RISKS = {
    "fp16": "rounding to half precision; scale the loss",
    "qsgd:16": "unbiased noise of 16 levels",
    "terngrad-shared": "three values for each gradient: much noise",
    "ef-signsgd": "signs only; error feedback keeps what is lost",
    "topk:0.01": "1 % of the values a step, the rest late; error feedback, warm-up",
    "dgc:0.001": "0.1 % of the values a step, the rest late; momentum correction, warm-up",
    "gtopk:0.001": "0.1 % of the values a step over all workers; error feedback, warm-up",
    "powersgd:4": "rank 4 of each matrix; error feedback keeps what is lost",
}


def _compressor(options: JobOptions, job: Job) -> Iterator[Remedy]:
    """Compressors with what their coding costs; without one, where the job has one that may cost more than it saves."""
    now = options.compressor
    if now is not None:
        changed = _changed(options, compressor=None, **_NO_CODEC)
        yield Remedy("compressor", f"no compressor instead of {now}", changed, Price(code="none, but one thing less"))
    before = "none" if options.compression == 1 else f"{options.compression:g}× fewer bytes"
    for name, risk in _COMPRESSOR_RISKS.items():
        if name != now:
            price = Price(accuracy=risk, code="a compressor on every worker")
            changed = _changed(options, compressor=name, compression=1.0, codec=None)  # a codec is of one compressor
            yield Remedy("compressor", f"{name} instead of {now or before}", changed, price, has_own_cost=True)


def _larger_batch(options: JobOptions, job: Job) -> Iterator[Remedy]:
    batch = 2 * job.workload.batch_size
    price = Price(
        accuracy="twice the global batch: retune the learning rate; may generalize worse",
        hardware="memory for twice the activations",
        code="the batch size",
    )
    yield Remedy("batch", f"{batch} samples per GPU instead of {batch // 2}", _changed(options, batch=batch), price)


def _accumulation(options: JobOptions, job: Job) -> Iterator[Remedy]:
    passes = 4 * options.accumulation
    price = Price(
        accuracy="four times the global batch: retune the learning rate; may generalize worse",
        code="no synchronization in the passes before the last",
    )
    change = f"{passes} passes per communication instead of {options.accumulation}"
    yield Remedy("accumulation", change, _changed(options, accumulation=passes), price)


def _lower_precision(options: JobOptions, job: Job) -> Iterator[Remedy]:
    if job.workload.gradient_dtype in ("fp64", "fp32"):
        price = Price(accuracy="gradients rounded to 8 bits of mantissa", code="gradients cast before they are sent")
        change = f"gradients in bf16 instead of {job.workload.gradient_dtype}"
        yield Remedy("precision", change, _changed(options, gradient_dtype="bf16"), price)


#: All-reduces that need nothing but another library, and those that need machines.
_SOFTWARE_COLLECTIVES = ("ring", "halving-doubling", "recursive-doubling", "pipelined-tree")
_HARDWARE_COLLECTIVES = {
    "byteps": "{nodes} server machines without accelerators",
    "in-network": "switches that add (SHARP, SwitchML)",
}


def _other_collective(options: JobOptions, job: Job) -> Iterator[Remedy]:
    now = job.method.collective
    if job.method.architecture != "all-reduce" or not _has_network(job):
        return
    for name in (*_SOFTWARE_COLLECTIVES, *_HARDWARE_COLLECTIVES):
        hardware = _HARDWARE_COLLECTIVES.get(name, "none").format(nodes=job.training.cluster.nodes)
        if name != now.partition(":")[0]:
            price = Price(hardware=hardware, code="a communication library with this all-reduce")
            family = "collective" if name in _SOFTWARE_COLLECTIVES else ""
            changed = _changed(options, collective=name)
            yield Remedy("collective", f"{name} instead of {now}", changed, price, family=family)


def _more_cards(options: JobOptions, job: Job) -> Iterator[Remedy]:
    cards = 2 * options.nics_per_node
    if _has_network(job) and options.gpus_per_node % cards == 0:
        price = Price(hardware=f"{cards // 2} more network cards in each node, and their ports in the switches")
        change = f"{cards} network cards per node instead of {cards // 2}"
        yield Remedy("network cards", change, _changed(options, nics_per_node=cards), price)


def _local_sgd(options: JobOptions, job: Job) -> Iterator[Remedy]:
    if job.training.cluster.workers > 1:
        price = Price(
            accuracy="models drift apart between averagings: may need more steps, and a warm-up",
            code="averages models, not gradients",
        )
        yield Remedy("local SGD", "models averaged every 8 steps only", _changed(options), price, local_steps=8)


def _has_network(job: Job) -> bool:
    return job.training.cluster.nodes > 1


#: Every kind of remedy.
REMEDIES: tuple[Finder, ...] = (
    _full_utilization,
    _more_bandwidth,
    _more_cards,
    _other_method,
    _other_collective,
    _fusion,
    _compressor,
    _larger_batch,
    _accumulation,
    _lower_precision,
    _local_sgd,
)
