"""The options that predict, messages, need and advise share: each is one field of `JobOptions`."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from wirebound.model.method import METHOD_NAMES
from wirebound.model.workload import GRADIENT_DTYPES
from wirebound.simulate.all_reduces import COLLECTIVES
from wirebound.simulate.compressors import COMPRESSORS


def _option(name: str, help_text: str, *, metavar: str | None = None) -> Any:
    return typer.Option(name, help=help_text, metavar=metavar)


@dataclass(slots=True)
class JobOptions:
    """The options as they were given; sizes, times and bandwidths still are text with a unit.

    A field is an option of every command that `with_job_options` decorates. To add one, write it here, give it its
    meaning in `job_reading`, and say in `job_assumptions` what it takes for granted and where it changes nothing.
    """

    workload: Annotated[
        str, _option("--workload", "A built-in workload, or a profile's file.", metavar="NAME|PROFILE.json")
    ]
    method: Annotated[
        str, _option("--method", f"How gradients are synchronized: {', '.join(METHOD_NAMES)}.", metavar="NAME")
    ]
    gpus: Annotated[int | None, _option("--gpus", "Accelerators in all, one worker each.")] = None
    gpus_per_node: Annotated[int, _option("--gpus-per-node", "Accelerators that share a node's network link.")] = 1
    nics_per_node: Annotated[
        int, _option("--nics-per-node", "Network cards of a node, each with --bandwidth, for as many GPUs each.")
    ] = 1
    bandwidth: Annotated[
        str | None,
        _option(
            "--bandwidth", "Of a node's network link, such as '10 Gbps', or a range '8 Gbps..10 Gbps'.", metavar="TEXT"
        ),
    ] = None
    network: Annotated[
        Path | None, _option("--network", "A fit of your network, instead of --bandwidth.", metavar="FIT.json")
    ] = None
    latency: Annotated[str | None, _option("--latency", "Per message, such as '20 us', or a range. [default: 0]")] = (
        None
    )
    utilization: Annotated[
        float, _option("--utilization", "Share of the bandwidth that the transport reaches, up to 1.")
    ] = 1.0
    intra_bandwidth: Annotated[
        str | None,
        _option("--intra-bandwidth", "Between the accelerators of a node. [default: exchange is free]"),
    ] = None
    intra_latency: Annotated[
        str | None, _option("--intra-latency", "Per message inside a node, such as '5 us'. [default: 0]")
    ] = None
    compression: Annotated[float, _option("--compression", "Divides the bytes on the wire; encoding is free.")] = 1.0
    compressor: Annotated[
        str | None,
        _option(
            "--compressor",
            f"How gradients are encoded, instead of --compression: {', '.join(COMPRESSORS)}. Sparse ones take the share"
            " kept (topk:0.01), qsgd levels and bucket (qsgd:16,512), powersgd its rank (powersgd:4).",
            metavar="NAME",
        ),
    ] = None
    codec: Annotated[
        Path | None, _option("--codec", "What coding costs. [default: estimated]", metavar="CODEC.json")
    ] = None
    free_codec: Annotated[bool, typer.Option("--free-codec", help="Encoding and decoding take no time.")] = False
    device_memory_bandwidth: Annotated[
        str | None,
        _option("--device-memory-bandwidth", "For the estimated cost of coding. [default: 900 GB/s]", metavar="TEXT"),
    ] = None
    compress_from: Annotated[
        str | None,
        _option("--compress-from", "Smaller tensors stay uncompressed, such as '4 KiB'. [default: 0]", metavar="TEXT"),
    ] = None
    compressed_pull: Annotated[
        bool, typer.Option("--compressed-pull", help="Servers encode the sum again, whatever the compressor.")
    ] = False
    bucket_cap: Annotated[
        str | None, _option("--bucket-cap", "Bucket limit of ddp, such as '25 MiB'. [default: 25 MiB]")
    ] = None
    first_bucket_cap: Annotated[
        str | None, _option("--first-bucket-cap", "Limit of the first bucket of ddp. [default: 1 MiB]")
    ] = None
    servers: Annotated[int | None, _option("--servers", "Parameter servers. [default: as many as nodes]")] = None
    colocated: Annotated[bool, typer.Option("--colocated", help="Servers share the workers' nodes.")] = False
    pipelined: Annotated[
        bool, typer.Option("--pipelined", help="The pull of a message runs beside the push of later ones.")
    ] = False
    incast: Annotated[
        float, _option("--incast", "Share of goodput that servers' links lose when workers send at once, below 1.")
    ] = 0.0
    collective: Annotated[
        str | None,
        _option(
            "--collective",
            f"The all-reduce between nodes: {', '.join(COLLECTIVES)}; some take parameters, such as byteps:4 (extra"
            " servers), in-network:512x256@20us (slots x bytes @ round trip), blueconnect:4x2 (stages), auto:nccl."
            " [default: ring]",
            metavar="NAME",
        ),
    ] = None
    batch: Annotated[
        int | None,
        _option("--batch", "Samples per accelerator; compute time follows measured batches or is proportional."),
    ] = None
    gradient_dtype: Annotated[
        str | None, _option("--gradient-dtype", f"Type that gradients are sent in: {', '.join(GRADIENT_DTYPES)}.")
    ] = None
    accumulation: Annotated[int, _option("--accumulation", "Passes computed for each communication.")] = 1
    no_vector_add: Annotated[
        bool, typer.Option("--no-vector-add", help="Leave the measured time of adding vectors out.")
    ] = False


def with_job_options(*, required: tuple[str, ...] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command every field of `JobOptions` as an option of its own.

    The command receives them as its first argument; its other arguments stay its own options, and come first where
    they have no default. The fields named in `required` must be given, as those without a default.
    """
    hints = get_type_hints(JobOptions, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty
            if field.name in required or field.default is dataclasses.MISSING
            else field.default,
        )
        for field in dataclasses.fields(JobOptions)
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            given = JobOptions(**{parameter.name: values.pop(parameter.name) for parameter in shared})
            command(given, **values)

        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        ]
        needed = [parameter for parameter in own if parameter.default is inspect.Parameter.empty]
        optional = [parameter for parameter in own if parameter.default is not inspect.Parameter.empty]
        signature = inspect.Signature([*needed, *shared, *optional])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
        return run

    return decorate
