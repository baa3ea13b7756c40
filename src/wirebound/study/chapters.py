"""The chapters of the study in reading order, and the parameters that they share."""

import dataclasses

from wirebound.model.method import METHODS
from wirebound.study.chapter import Chapter
from wirebound.study.parameters import Parameter

# Parameters that several chapters share.
WORKLOADS = Parameter("workloads", "workload", ["resnet50", "resnet101", "vgg16"], "the models to show", many=True)
WORKERS = Parameter("workers", "integer", 64, "accelerators in all", minimum=2, maximum=16384)
WORKERS_PER_NODE = Parameter(
    "workers_per_node", "integer", 8, "accelerators that share one network link", minimum=1, maximum=64
)
BANDWIDTH = Parameter(
    "bandwidth", "bandwidth", "10 Gbps", "nominal rate of a node's link", minimum="1 Mbps", maximum="10 Tbps"
)
LATENCY = Parameter("latency", "duration", "0 s", "time per message of a link, whatever its size", maximum="1 s")
METHOD = Parameter("method", "choice", "horovod", "how gradients are synchronized", choices=tuple(METHODS))
SEED = Parameter("seed", "integer", 1, "seed of the random numbers", minimum=0, maximum=2**32 - 1)
LARGE_FROM = Parameter(
    "large_from", "size", "1 MiB", "vectors from this size are called large", minimum="1 KiB", maximum="2 MiB"
)
DEVICE_MEMORY_BANDWIDTH = Parameter(
    "device_memory_bandwidth",
    "bandwidth",
    "7200 Gbps",
    "memory bandwidth of the device, which coding is estimated from",
    minimum="1 Gbps",
    maximum="100 Tbps",
)
KERNEL_LAUNCH = Parameter("kernel_launch", "duration", "5 us", "time to launch a kernel", maximum="1 ms")


def _bandwidths(*default: str) -> Parameter:
    return Parameter(
        "bandwidths",
        "bandwidth",
        list(default),
        "nominal rates to compare",
        minimum="1 Mbps",
        maximum="10 Tbps",
        many=True,
    )


#: All chapters, in reading order.
CHAPTERS = (
    Chapter(
        1,
        "profile_compute",
        "When is each gradient ready?",
        parameters=(WORKLOADS,),
        data=(
            "published",
            "recorded/profile_cpu_2core.json",
            "recorded/batch_times_cpu_2core.json",
            "recorded/contention_samples.csv",
            "recorded/datapackage.json",
        ),
        uses_live=True,
    ),
    Chapter(
        2,
        "profile_network",
        "What does the wire really reach?",
        parameters=(LARGE_FROM,),
        writes=("samples.parquet",),
        data=(
            "published",
            "recorded/allreduce_samples.csv",
            "recorded/allreduce_samples.machine.json",
            "recorded/utilization_samples.csv",
            "recorded/utilization_samples.machine.json",
        ),
        uses_live=True,
    ),
    Chapter(
        3,
        "fit_model",
        "A model of communication, and where it fails",
        parameters=(
            SEED,
            Parameter(
                "resamples", "integer", 1000, "bootstrap samples per interval", minimum=100, maximum=20_000, full=10_000
            ),
            LARGE_FROM,
        ),
        reads=("profile_network/samples.parquet",),
        writes=("fits.json",),
        data=("published", "recorded/codec_cpu_2core.json"),
        uses_live=True,
    ),
    Chapter(
        4,
        "full_utilization",
        "What would a fully used network give?",
        parameters=(
            WORKLOADS,
            METHOD,
            LATENCY,
            Parameter("target", "number", 0.95, "scaling factor to reach", minimum=0.01, maximum=0.999),
            _bandwidths(
                "1 Gbps", "2 Gbps", "5 Gbps", "10 Gbps", "25 Gbps", "40 Gbps", "100 Gbps", "200 Gbps", "400 Gbps"
            ),
            Parameter(
                "worker_counts",
                "integer",
                [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
                "numbers of accelerators to compare",
                minimum=2,
                maximum=16384,
                many=True,
            ),
            Parameter("map_workers", "integer", 64, "workers of the latency map", minimum=2, maximum=16384),
        ),
        data=("published",),
    ),
    Chapter(
        5,
        "compression_ratio",
        "How much compression is enough?",
        parameters=(
            WORKLOADS,
            WORKERS,
            WORKERS_PER_NODE,
            BANDWIDTH,
            LATENCY,
            METHOD,
            Parameter(
                "ratios",
                "number",
                [1, 2, 3, 4, 5, 7, 10, 20, 50, 100],
                "compression ratios to draw",
                minimum=1,
                maximum=100_000,
                many=True,
            ),
            Parameter(
                "targets",
                "number",
                [0.9, 0.95, 0.98],
                "scaling factors to reach",
                minimum=0.01,
                maximum=0.999,
                many=True,
            ),
            _bandwidths("1 Gbps", "5 Gbps", "10 Gbps", "25 Gbps", "40 Gbps", "100 Gbps"),
            Parameter(
                "kept_share",
                "number",
                0.01,
                "share of the elements that a sparse code keeps",
                minimum=1e-5,
                maximum=0.5,
            ),
            Parameter("rank", "integer", 4, "rank of PowerSGD", minimum=1, maximum=256),
            Parameter("levels", "integer", 15, "quantization levels of QSGD", minimum=1, maximum=65_535),
            DEVICE_MEMORY_BANDWIDTH,
            KERNEL_LAUNCH,
            Parameter(
                "claim_target",
                "number",
                0.95,
                "scaling factor that counts as almost linear",
                minimum=0.01,
                maximum=0.999,
            ),
        ),
        data=("published",),
    ),
    Chapter(
        6,
        "seven_techniques",
        "Seven techniques side by side",
        parameters=(
            Parameter("gpus", "choice", "32", "number of GPUs to draw", choices=("4", "8", "16", "32")),
            Parameter("limited_below", "number", 1.25, "a gain below this is called limited", minimum=1, maximum=100),
            Parameter(
                "timeline_bandwidth",
                "bandwidth",
                "10 Gbps",
                "nominal rate of the links in the timelines",
                minimum="1 Mbps",
                maximum="10 Tbps",
            ),
            Parameter("timeline_latency", "duration", "20 us", "time per message in the timelines", maximum="1 s"),
        ),
        writes=("predictions.parquet",),
        data=("published", "recorded/testbed_*.json"),
    ),
    Chapter(
        7,
        "compressors",
        "What do compressors cost and give?",
        parameters=(
            Parameter("remeasure", "boolean", False, "train everything again on this machine", full=True),
            Parameter("seeds", "integer", 5, "seeds to use of each task, where it has so many", minimum=1, maximum=5),
            Parameter(
                "target_share",
                "number",
                0.95,
                "accuracy to reach, as a share of that without compression",
                minimum=0.1,
                maximum=1,
            ),
            Parameter(
                "free_margin",
                "number",
                1.0,
                "percentage points of accuracy that may be lost for free",
                minimum=0,
                maximum=50,
            ),
            Parameter(
                "reference",
                "choice",
                "mnist",
                "the task whose steps are combined with predicted times",
                choices=("digits", "mnist", "text"),
            ),
            Parameter("workload", "workload", "resnet50", "the job of a paper's size"),
            Parameter(
                "worker_counts", "integer", [16, 64], "accelerators of that job", minimum=2, maximum=16384, many=True
            ),
            WORKERS_PER_NODE,
            _bandwidths("1 Gbps", "10 Gbps", "100 Gbps"),
            dataclasses.replace(LATENCY, default="20 us"),
            dataclasses.replace(METHOD, default="ddp"),
            DEVICE_MEMORY_BANDWIDTH,
            KERNEL_LAUNCH,
            Parameter("live_steps", "integer", 40, "steps of the runs on this machine", minimum=4, maximum=1000),
        ),
        data=(
            "published",
            "recorded/convergence.json",
            "recorded/codec_cpu_2core.json",
            "recorded/testbed_*.json",
        ),
        uses_live=True,
    ),
    Chapter(
        8,
        "consistency",
        "Must everybody wait for everybody?",
        parameters=(
            SEED,
            Parameter(
                "measurements",
                "choice",
                "recorded",
                "whether to show recorded training runs or to train on this machine, for some minutes",
                choices=("recorded", "here"),
                full="here",
            ),
            Parameter("target_accuracy", "number", 0.8, "accuracy to reach", minimum=0.2, maximum=0.99),
            Parameter(
                "very_good_from", "number", 1.5, "a speed-up from this on is called very good", minimum=1, maximum=100
            ),
            Parameter(
                "simulated_workers", "integer", 32, "workers of the simulated maps", minimum=2, maximum=1024, full=64
            ),
            Parameter(
                "spread", "number", 0.2, "coefficient of variation of a step's compute time", minimum=0, maximum=2
            ),
        ),
        data=("recorded/consistency.json",),
        uses_live=True,
    ),
    Chapter(
        9,
        "architectures",
        "Who exchanges with whom?",
        parameters=(
            WORKLOADS,
            WORKERS_PER_NODE,
            BANDWIDTH,
            dataclasses.replace(LATENCY, default="20 us"),
            Parameter("machines", "integer", 16, "machines with one worker each", minimum=3, maximum=4096),
            Parameter("message", "size", "16 MiB", "message of the second map", minimum="1 B", maximum="1 TiB"),
            Parameter(
                "machine_counts",
                "integer",
                [4, 8, 9, 16, 32, 36, 64, 100, 128, 256, 512, 1024],
                "numbers of machines to compare",
                minimum=2,
                maximum=4096,
                many=True,
            ),
            Parameter("slot_bytes", "integer", 256, "bytes of a slot of a switch", minimum=1, maximum=65_536),
            Parameter(
                "slot_time", "duration", "20 us", "time for which a slot is taken", minimum="1 us", maximum="10 ms"
            ),
        ),
        data=("published",),
    ),
    Chapter(
        12,
        "federated",
        "Training where the uplink decides",
        parameters=(
            SEED,
            dataclasses.replace(LATENCY, default="50 ms"),
            Parameter(
                "source",
                "choice",
                "recorded",
                "show recorded training, or train everything here",
                choices=("recorded", "here"),
                full="here",
            ),
            Parameter("digits_target", "number", 0.9, "accuracy to reach on digits", minimum=0.2, maximum=0.99),
            Parameter("mnist_target", "number", 0.9, "accuracy to reach on MNIST", minimum=0.2, maximum=0.99),
            Parameter("uplink", "bandwidth", "1 Mbps", "a median client's uplink", minimum="1 kbps", maximum="10 Gbps"),
            Parameter("downlink", "bandwidth", "10 Mbps", "its downlink", minimum="1 kbps", maximum="10 Gbps"),
            Parameter(
                "fast_uplink", "bandwidth", "10 Mbps", "uplink of a better network", minimum="1 kbps", maximum="10 Gbps"
            ),
            Parameter("fast_downlink", "bandwidth", "100 Mbps", "its downlink", minimum="1 kbps", maximum="10 Gbps"),
            Parameter(
                "slowdown",
                "number",
                10,
                "time that a client's device takes ÷ that of the machine that recorded",
                minimum=0.01,
                maximum=10_000,
            ),
            Parameter(
                "spread",
                "number",
                0.5,
                "standard deviation of the logarithm of clients' speeds",
                minimum=0,
                maximum=3,
            ),
            Parameter("live_clients", "integer", 20, "clients of the live run", minimum=5, maximum=60),
            Parameter("live_alpha", "number", 1.0, "α of the live run's split", minimum=0.1, maximum=1000),
            Parameter(
                "live_reduction",
                "choice",
                "quantize:1",
                "what makes uploads of the live run smaller",
                choices=(
                    "quantize:1",
                    "rotated:1",
                    "qsgd:1",
                    "topk:0.05",
                    "topk-feedback:0.05",
                    "subsample:0.1",
                    "mask:0.25",
                    "lowrank:8",
                    "sketch:0.4",
                    "dropout:0.75",
                    "dropout:0.75+rotated:1",
                ),
            ),
        ),
        data=("recorded/federated.json",),
        uses_live=True,
    ),
    Chapter(
        17,
        "validation",
        "How far can these figures be trusted?",
        parameters=(
            SEED,
            Parameter("worst_shown", "integer", 10, "number of worst predictions to list", minimum=1, maximum=172),
            Parameter("shuffles", "integer", 3, "calibrations on shuffled measurements", minimum=1, maximum=20),
            Parameter(
                "trials", "integer", 100, "synthetic fits per kind of noise", minimum=20, maximum=10_000, full=1000
            ),
        ),
        reads=(
            "fit_model/fits.json",
            "full_utilization/results.json",
            "compression_ratio/results.json",
            "seven_techniques/predictions.parquet",
        ),
        data=("published", "recorded/testbed_*.json"),
    ),
    Chapter(
        18,
        "outlook",
        "Ratios that adapt, and codes that remember",
        parameters=(
            Parameter(
                "worth_points",
                "number",
                10.0,
                "percentage points of values sent in their step that make choosing by tensor worth it",
                minimum=0,
                maximum=100,
            ),
        ),
        data=("recorded/outlook.json",),
    ),
)
