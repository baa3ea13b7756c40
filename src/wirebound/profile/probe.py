"""The live probe of this machine: a small network's gradients and a two-process all-reduce, in about 15 seconds.

`python -m wirebound.profile.probe --out PROFILE.json` writes a profile; `wirebound profile` does the same.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from wirebound.errors import InputError, WireboundError
from wirebound.files import require_writable
from wirebound.profile.collectives import DEFAULT_SIZES, allreduce_warnings, measure_allreduce
from wirebound.profile.machine import machine_record
from wirebound.profile.schema import BatchTiming, Profile, Scalar, save_profile

#: Neither half of the probe begins new work after this; with start-up all of it stays under 30 seconds.
BACKWARD_LIMIT_S = 10.0
BATCHES_LIMIT_S = 6.0
ALLREDUCE_BUDGET_S = 6.0

#: Called with the share done, between 0 and 1, and what is going on.
Progress = Callable[[float, str], None]


def run_probe(
    *,
    steps: int = 30,
    batch_size: int = 32,
    seed: int = 0,
    ranks: int = 2,
    sizes: Sequence[int] = DEFAULT_SIZES,
    repetitions: int = 50,
    effort: int = 1,
    batches: Sequence[int] = (),
    progress: Progress | None = None,
) -> Profile:
    """Measure this machine and return its profile.

    ResNet-20 learns random images for `steps` steps with hooks and as many without; then `ranks` processes all-reduce
    buffers of `sizes` bytes on loopback. A few steps without hooks are timed at each batch size of `batches` as well.
    Weights and images follow from `seed`; times of course do not. Vector additions are not measured apart: gloo's
    times include them. `effort` multiplies steps, repetitions and the time that they may take. Raises `InputError` for
    a wrong option and `WireboundError` when a process fails.
    """
    if effort < 1:
        raise InputError(f"effort = {effort} must be at least 1")
    steps, repetitions = effort * steps, effort * repetitions
    if batch_size < 2:
        raise InputError(f"batch = {batch_size} must be at least 2, for batch normalization")
    tell = progress or (lambda share, what: None)
    tell(0.0, "importing PyTorch")
    import torch
    from torch.nn import functional

    from wirebound.profile.backward import profile_backward, profile_batches
    from wirebound.profile.models import ResNet20

    record = machine_record()  # before the probe itself makes load
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ResNet20()
        images = torch.randn(max(batch_size, *batches, 0), 3, 32, 32)
        labels = torch.randint(0, 10, (len(images),))

    def loss(network: torch.nn.Module, size: int) -> torch.Tensor:
        return functional.cross_entropy(network(images[:size]), labels[:size])

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    training = f"ResNet-20: {steps} training steps with hooks, {steps} without"
    tell(0.1, training)
    backward = profile_backward(
        model,
        partial(loss, size=batch_size),
        optimizer,
        steps=steps,
        time_limit_s=effort * BACKWARD_LIMIT_S,
        progress=lambda share: tell(0.1 + 0.4 * share, training),
    )
    batch_samples: tuple[BatchTiming, ...] = ()
    if batches:
        scaling = f"ResNet-20: a few training steps at {len(set(batches))} batch sizes"
        tell(0.5, scaling)
        batch_samples = profile_batches(
            model, loss, optimizer, batches, steps=8 * effort, time_limit_s=effort * BATCHES_LIMIT_S, seed=seed
        )
    tell(0.5, f"all-reduce: {ranks} processes, {len(sizes)} sizes, {repetitions} repetitions")
    timings = measure_allreduce(
        ranks,
        sizes,
        repetitions=repetitions,
        budget_s=effort * ALLREDUCE_BUDGET_S,
        seed=seed,
        time_limit_s=effort * 60.0,
    )
    tell(1.0, "done")
    return Profile(
        name="resnet20-cpu",
        source="wirebound profile: ResNet-20 on random 32×32 images, and gloo over loopback",
        machine=record,
        steps=backward.steps,
        batch_size=batch_size,
        forward_s=backward.forward_s,
        optimizer_s=backward.optimizer_s,
        tensors=backward.tensors,
        forward_samples_s=backward.forward_samples_s,
        backward_samples_s=backward.backward_samples_s,
        batch_samples=batch_samples,
        hook_overhead=backward.hook_overhead,
        collectives=timings,
        warnings=(*load_warnings(record), *backward.warnings, *allreduce_warnings(timings)),
    )


def load_warnings(record: dict[str, Scalar]) -> list[str]:
    """Return a warning when other work kept more than half of the cores busy before the measurement."""
    load, cores = record.get("load_1min"), record.get("usable_cores")
    if isinstance(load, float) and isinstance(cores, int) and load > cores / 2:
        return [f"the load average was {load:g} on {cores} cores before the measurement began"]
    return []


def main(arguments: list[str] | None = None) -> int:
    """Run the probe from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m wirebound.profile.probe", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="PROFILE.json", help="the file to write")
    parser.add_argument("--steps", type=int, default=30, help="training steps to measure (default 30)")
    parser.add_argument("--batch", type=int, default=32, help="samples in a step (default 32)")
    parser.add_argument("--effort", type=int, default=1, help="measure this many times as long (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the images (default 0)")
    options = parser.parse_args(arguments)
    said: list[str] = []

    def progress(_: float, what: str) -> None:
        if what not in said:
            said.append(what)
            print(f"probe: {what}", file=sys.stderr, flush=True)

    try:
        require_writable(options.out)
        profile = run_probe(
            steps=options.steps,
            batch_size=options.batch,
            seed=options.seed,
            effort=options.effort,
            progress=progress,
        )
        save_profile(profile, options.out)
    except InputError as error:
        print(f"probe: error: {error}", file=sys.stderr)
        return 2
    except WireboundError as error:
        print(f"probe: failed: {error}", file=sys.stderr)
        return 1
    for warning in profile.warnings:
        print(f"probe: warning: {warning}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
