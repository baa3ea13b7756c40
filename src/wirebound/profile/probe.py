"""The live probe of this machine: a small network's gradients and a two-process all-reduce, in about 15 seconds.

`python -m wirebound.profile.probe --out PROFILE.json` writes a profile; `wirebound profile` does the same.
"""

import sys
from collections.abc import Sequence

from wirebound.errors import InputError
from wirebound.files import require_writable
from wirebound.profile.collectives import DEFAULT_SIZES
from wirebound.profile.job_profile import JobRequest, Progress, profile_job
from wirebound.profile.recording import recording_parser, run_recording
from wirebound.profile.schema import Profile, save_profile

#: Neither half of the probe begins new work after this; with start-up all of it stays under 30 seconds.
BACKWARD_LIMIT_S = 10.0
BATCHES_LIMIT_S = 6.0
ALLREDUCE_BUDGET_S = 6.0


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
    return profile_job(
        JobRequest(
            steps=steps,
            batch_size=batch_size,
            batches=batches,
            batch_steps=8 * effort,
            seed=seed,
            time_limit_s=effort * BACKWARD_LIMIT_S,
            batches_limit_s=effort * BATCHES_LIMIT_S,
            sizes=sizes,
            ranks=ranks,
            repetitions=repetitions,
            allreduce_budget_s=effort * ALLREDUCE_BUDGET_S,
            allreduce_limit_s=effort * 60.0,
        ),
        progress,
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the probe from the command line; returns the exit code."""
    parser = recording_parser("wirebound.profile.probe", __doc__, out="PROFILE.json", what="the profile goes")
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

    def record() -> tuple[str, ...]:
        require_writable(options.out)
        profile = run_probe(
            steps=options.steps,
            batch_size=options.batch,
            seed=options.seed,
            effort=options.effort,
            progress=progress,
        )
        save_profile(profile, options.out)
        return profile.warnings

    return run_recording("probe", record)


if __name__ == "__main__":
    sys.exit(main())
