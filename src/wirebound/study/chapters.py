"""The chapters of the study in reading order: parameters, what each reads and writes, and what data it uses."""

from collections.abc import Sequence
from dataclasses import dataclass

from wirebound.errors import InputError
from wirebound.model.method import METHODS
from wirebound.study.parameters import Parameter, suggest

#: Every chapter writes this one; a chapter's own list of artifacts leaves it out.
RESULTS = "results.json"


@dataclass(frozen=True, slots=True)
class Chapter:
    """One notebook ``notebooks/NAME.ipynb``.

    `reads` are artifacts of earlier chapters, as ``CHAPTER/FILE``; `writes` are its own, as ``FILE``, which later
    chapters may read beside ``results.json``. `data` are files or folders below the project's ``data/``. A chapter
    that `uses_live` shows this machine's profile where the run has one.
    """

    number: int
    name: str
    title: str
    parameters: tuple[Parameter, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    uses_live: bool = False

    @property
    def products(self) -> tuple[str, ...]:
        """All files that the chapter must have written to ``artifacts/NAME/`` when it ends."""
        return (RESULTS, *(name for name in self.writes if name != RESULTS))

    @property
    def upstream(self) -> tuple[str, ...]:
        """The chapters whose artifacts it reads."""
        return tuple(dict.fromkeys(address.split("/", 1)[0] for address in self.reads))


def chapter_named(chapters: Sequence[Chapter], name: str) -> Chapter:
    """Return one chapter; raises `InputError` with the closest name for an unknown one."""
    for chapter in chapters:
        if chapter.name == name:
            return chapter
    names = [chapter.name for chapter in chapters]
    raise InputError(f"unknown chapter {name!r}{suggest(name, names) or ':'} there are {', '.join(names)}")


def with_ancestors(chapters: Sequence[Chapter], name: str) -> tuple[Chapter, ...]:
    """Return the chapter `name` and all chapters that it builds on, in reading order."""
    needed = {chapter_named(chapters, name).name}
    for chapter in reversed(chapters):
        if chapter.name in needed:
            needed.update(chapter.upstream)
    return tuple(chapter for chapter in chapters if chapter.name in needed)


def check_registry(chapters: Sequence[Chapter]) -> None:
    """Raise `InputError` unless names are unique and every artifact read is written by an earlier chapter."""
    earlier: dict[str, Chapter] = {}
    parameter_names = {parameter.name for chapter in chapters for parameter in chapter.parameters}
    for chapter in chapters:
        if chapter.name in earlier or chapter.name in parameter_names:
            raise InputError(f"chapter {chapter.name!r}: the name is also that of another chapter or a parameter")
        if len({parameter.name for parameter in chapter.parameters}) < len(chapter.parameters):
            raise InputError(f"chapter {chapter.name!r} declares a parameter twice")
        for address in chapter.reads:
            writer, _, file = address.partition("/")
            if writer not in earlier or file not in earlier[writer].products:
                raise InputError(f"chapter {chapter.name!r} reads {address}, which no earlier chapter writes")
        earlier[chapter.name] = chapter


WORKLOAD = Parameter("workload", "workload", "resnet50", "the network to train")
WORKERS = Parameter("workers", "integer", 64, "accelerators in all", minimum=1, maximum=16384)
WORKERS_PER_NODE = Parameter(
    "workers_per_node", "integer", 8, "accelerators that share one network link", minimum=1, maximum=64
)
BANDWIDTH = Parameter(
    "bandwidth", "bandwidth", "10 Gbps", "nominal rate of a node's link", minimum="1 Mbps", maximum="10 Tbps"
)
LATENCY = Parameter("latency", "duration", "20 us", "time per message, whatever its size", maximum="1 s")
COMPRESSION = Parameter("compression", "number", 1.0, "gradient bytes ÷ bytes on the wire", minimum=1, maximum=10000)
METHOD = Parameter("method", "choice", "wfbp-a2a", "how gradients are synchronized", choices=tuple(METHODS))
SEED = Parameter("seed", "integer", 1, "seed of the random numbers", minimum=0, maximum=2**32 - 1)

#: All chapters, in reading order.
CHAPTERS = (
    Chapter(
        1,
        "profile_compute",
        "When does each gradient become ready?",
        parameters=(WORKLOAD,),
        writes=("ready.parquet",),
        data=("published",),
        uses_live=True,
    ),
    Chapter(
        2,
        "profile_network",
        "What does the wire really reach?",
        parameters=(BANDWIDTH, SEED),
        writes=("collectives.parquet",),
        data=("recorded/profiles",),
        uses_live=True,
    ),
    Chapter(
        3,
        "fit_model",
        "Latency, bandwidth and compute, fitted",
        parameters=(SEED,),
        reads=("profile_compute/ready.parquet", "profile_network/collectives.parquet"),
        writes=("fits.json",),
        uses_live=True,
    ),
    Chapter(
        4,
        "full_utilization",
        "What if the network were fully used?",
        parameters=(
            WORKLOAD,
            WORKERS,
            WORKERS_PER_NODE,
            Parameter(
                "bandwidths",
                "bandwidth",
                ["1 Gbps", "10 Gbps", "25 Gbps", "40 Gbps", "100 Gbps", "400 Gbps"],
                "nominal rates to compare",
                minimum="1 Mbps",
                maximum="10 Tbps",
                many=True,
            ),
            LATENCY,
        ),
        reads=("fit_model/fits.json",),
        writes=("scaling.parquet",),
        data=("published",),
    ),
    Chapter(
        5,
        "compression_ratio",
        "How much compression is enough?",
        parameters=(
            WORKLOAD,
            WORKERS,
            WORKERS_PER_NODE,
            BANDWIDTH,
            LATENCY,
            METHOD,
            Parameter(
                "targets",
                "number",
                [0.90, 0.95, 0.98],
                "scaling factors to reach",
                minimum=0.01,
                maximum=0.999,
                many=True,
            ),
        ),
        reads=("fit_model/fits.json",),
        writes=("ratios.parquet",),
        data=("published",),
    ),
    Chapter(
        6,
        "seven_techniques",
        "Seven techniques side by side",
        parameters=(WORKLOAD, WORKERS, WORKERS_PER_NODE, BANDWIDTH, LATENCY, COMPRESSION),
        reads=("fit_model/fits.json",),
        writes=("techniques.parquet",),
        data=("published",),
    ),
    Chapter(
        17,
        "validation",
        "How far can these figures be trusted?",
        reads=("full_utilization/scaling.parquet", "seven_techniques/techniques.parquet"),
        writes=("accuracy.csv",),
        data=("published",),
    ),
)
