"""The outlook's first experiment: compress only what is exposed, predicted for known networks, then really trained."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from wirebound.model import Cluster, Codec, Compressor, Link, Tensor, Workload, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.compressors import compressor_named, estimated_codec
from wirebound.simulate.ratio_choice import choose_ratios, lost_values
from wirebound.simulate.step import simulate_step
from wirebound.techniques.outlook.train import Job, train

BYTES_PER_GBIT = 125_000_000


@dataclass(frozen=True, slots=True)
class ChoiceSettings:
    """Predicted steps: DGC's shares on these networks, coding estimated for a V100 as the command line does."""

    workloads: tuple[str, ...] = ("resnet50", "vgg16", "bert-base")
    workers: tuple[int, ...] = (16, 64)
    gbps: tuple[float, ...] = (1.0, 10.0, 25.0)
    latency_s: float = 20e-6
    method: str = "ddp"
    compressor: str = "dgc"
    shares: tuple[float, ...] = (0.1, 0.01, 0.001)
    within: float = 0.01
    memory_bandwidth: float = 900e9
    launch_s: float = 5e-6

    def options(self) -> list[Compressor]:
        """The compressor with each share, and what its coding costs."""
        named = [compressor_named(f"{self.compressor}:{share:g}") for share in self.shares]
        return [replace(c, codec=estimated_codec(c, self.memory_bandwidth, self.launch_s)) for c in named]


def choice_row(settings: ChoiceSettings, name: str, workers: int, gbps: float) -> dict[str, Any]:
    """Return the step of nothing, everything and the chosen tensors compressed; times in seconds, shares from 0 to 1.

    ``everything`` is the one share for all tensors whose step is the shortest.
    """
    workload, method = builtin_workload(name), method_named(settings.method)
    cluster, options = Cluster(workers, Link(gbps * BYTES_PER_GBIT, settings.latency_s)), settings.options()
    nothing = simulate_step(workload, cluster, method)
    uniform = {option: simulate_step(workload, cluster, replace(method, compressor=option)) for option in options}
    everything = min(options, key=lambda option: uniform[option].iteration_s)
    choice = choose_ratios(workload, cluster, method, options, within=settings.within)
    return {
        "workload": name,
        "workers": workers,
        "gbps": gbps,
        "compute_s": workload.compute_s,
        "nothing_s": nothing.iteration_s,
        "everything_s": uniform[everything].iteration_s,
        "chosen_s": choice.step.iteration_s,
        "everything": everything.label,
        "everything_lost_share": _lost_share(workload, everything),
        "chosen_lost_share": choice.lost_share,
        "chosen_compressed_share": choice.compressed_share,
        "tensors": len(workload.tensors),
        "chosen_tensors": len(choice.compressors_by_tensor),
        "simulations": choice.simulations,
    }


def _lost_share(workload: Workload, compressor: Compressor) -> float:
    return sum(lost_values(workload, compressor)) * workload.element_bytes / workload.size


@dataclass(frozen=True, slots=True)
class SelectiveSettings:
    """Real training: one share of Top-k for all tensors, and shares by tensor that take no longer.

    Both with error feedback. `traffic` is the time of all uncompressed messages ÷ the compute time: it sets the
    bandwidth.
    """

    method: str = "wfbp-a2a"
    uniform_share: float = 0.01
    shares: tuple[float, ...] = (0.25, 0.1, 0.05, 0.03, 0.01, 0.003, 0.001)
    traffic: float = 4.0
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    evaluate_every: int = 20


def measured_workload(job: Job, *, steps: int = 40) -> Workload:
    """Measure when each gradient of one worker's batch is ready, on this machine, as a workload."""
    import torch

    from wirebound.profile.backward import profile_backward
    from wirebound.techniques.learning.data import data_set
    from wirebound.techniques.learning.models import learning_model, mean_loss

    data = data_set(job.data)
    model = learning_model(job.model, data, job.seed)
    inputs, targets = data.inputs[: job.batch_size], data.targets[: job.batch_size]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    profile = profile_backward(model, lambda model: mean_loss(model, inputs, targets), optimizer, steps=steps)
    tensors = tuple(Tensor(tensor.name, tensor.size, tensor.gap_s) for tensor in profile.tensors)
    return Workload(f"{job.data}/{job.model}", job.batch_size, tensors, profile.forward_s, profile.optimizer_s)


def matched_ratios(workload: Workload, workers: int, settings: SelectiveSettings, codec: Codec) -> dict[str, Any]:
    """Choose shares by tensor that lose as few values as possible and take no longer than one share for all."""
    method = method_named(settings.method)
    bandwidth = 2 * (workers - 1) / workers * workload.size / (settings.traffic * workload.compute_s)
    cluster = Cluster(workers, Link(bandwidth))
    uniform = Compressor("topk", settings.uniform_share, codec=codec)
    uniform_s = simulate_step(workload, cluster, replace(method, compressor=uniform)).iteration_s
    options = [replace(compressor_named(f"topk:{share:g}"), codec=codec) for share in settings.shares]
    shortest_s = choose_ratios(workload, cluster, method, options).step.iteration_s
    choice = choose_ratios(workload, cluster, method, options, within=max(0.0, uniform_s / shortest_s - 1))
    chosen = {name: 0.0 if option is None else option.parameter for name, option in choice.compressors_by_tensor}
    return {
        "bandwidth": bandwidth,
        "compute_s": workload.compute_s,
        "dense_s": simulate_step(workload, cluster, method).iteration_s,
        "uniform_s": uniform_s,
        "shortest_s": shortest_s,
        "chosen_s": choice.step.iteration_s,
        "chosen_shares": chosen,
        "uniform_lost_share": _lost_share(workload, uniform),
        "chosen_lost_share": choice.lost_share,
    }


def selective(job: Job, workload: Workload, settings: SelectiveSettings, codec: Codec) -> dict[str, Any]:
    """Train with nothing compressed, with one share for all tensors, and with chosen ones that take no longer."""
    from wirebound.techniques.compress.topk import TopK
    from wirebound.techniques.outlook.exchange import ByTensor

    found = matched_ratios(workload, job.workers, settings, codec)
    plans = {
        "dense": ByTensor({}),
        "chosen": ByTensor({name: TopK(share) for name, share in found["chosen_shares"].items()}),
        "uniform": ByTensor({}, TopK(settings.uniform_share)),
    }
    curves = []
    for seed in settings.seeds:
        for variant, plan in plans.items():
            curve = train(replace(job, seed=seed), plan, evaluate_every=settings.evaluate_every)
            curves.append(
                {
                    "variant": variant,
                    "seed": seed,
                    "train_loss": curve.train_loss,
                    "sent_bytes": curve.sent_bytes,
                    "steps": [point.step for point in curve.points],
                    "accuracy": [point.accuracy for point in curve.points],
                    "loss": [point.loss for point in curve.points],
                }
            )
    ready = [{"name": t.name, "bytes": t.size, "gap_s": t.gap_s} for t in workload.tensors]
    timing = {"forward_s": workload.forward_s, "optimizer_s": workload.optimizer_s, "tensors": ready}
    return {"job": asdict(job), "timing": timing, **found, "curves": curves}


def workload_of(document: dict[str, Any]) -> Workload:
    """Return the workload that a recorded selective experiment was planned with."""
    timing, job = document["timing"], document["job"]
    tensors = tuple(Tensor(row["name"], row["bytes"], row["gap_s"]) for row in timing["tensors"])
    name = f"{job['data']}/{job['model']}"
    return Workload(name, job["batch_size"], tensors, timing["forward_s"], timing["optimizer_s"])


def rounded(value: Any, digits: int = 6) -> Any:
    """Return a document with its numbers rounded to so many significant digits."""
    if isinstance(value, dict):
        return {key: rounded(entry, digits) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry, digits) for entry in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{digits}g}")
    return value
