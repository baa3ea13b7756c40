"""How fast the engine is: python benchmarks/engine.py [--json FILE] [--plot FILE.svg] [--tiny]

Prints, from one run: configurations per second of three sweeps of ResNet-50, each beside a plain C loop of the same
arithmetic on as many threads and beside the definition; the time of one call of the definition; a sweep of 10^8
configurations with its peak memory; and how cost grows with tensors, configurations and workers. Every sweep runs once
before it is timed, except the one of 10^8, which is a fresh process and counts everything but imports.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
import timeit
from pathlib import Path

import numpy as np
import plain_loops

from wirebound.figures import BLUE, count_axis, new_figure, render_svg
from wirebound.files import write_json, write_text
from wirebound.model import Cluster, Link, Tensor, Workload, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.job import TrainingJob
from wirebound.simulate.step import simulate_step
from wirebound.simulate.sweep import sweep
from wirebound.simulate.sweep_axes import job_at

RESNET = builtin_workload("resnet50")
CLUSTER = Cluster(64, Link(1.25e9))
TINY = 2000
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def best_of(function, repeats):
    """Seconds of processor time, all threads together, of the fastest of some calls."""
    return min(timeit.repeat(function, number=1, repeat=repeats, timer=time.process_time))


def speed_of(function, repeats=4):
    """Configurations per second of a function that returns an array of them: the best of some calls.

    By the clock, and by processor time as if all cores had worked for it alone, which a busy machine does not distort.
    """
    by_clock, by_processor = 0.0, 0.0
    for _ in range(repeats):
        clock, processor = time.perf_counter(), time.process_time()
        size = function().size
        by_clock = max(by_clock, size / (time.perf_counter() - clock))
        by_processor = max(by_processor, CORES * size / (time.process_time() - processor))
    return by_clock, by_processor


def network_axes(configurations, latencies=1):
    """About so many networks: 4 ratios, some latencies, the rest bandwidths from 0.1 to 100 Gbps."""
    return {
        "compression": [1.0, 2.0, 5.0, 50.0],
        "latency": np.linspace(0, 1e-4, latencies),
        "bandwidth": np.geomspace(1.25e7, 1.25e10, max(2, configurations // (4 * latencies))),
    }


def sweep_speed(name, axes, library):
    """Configurations per second of one method by sweep, C loop and definition, and their largest difference."""
    job = TrainingJob(RESNET, CLUSTER, method_named(name))

    def swept():
        return sweep(job.workload, job.cluster, job.method, axes=axes)["scaling_factor"].to_numpy()

    result = swept()
    speed = {"configurations": result.size}
    speed["sweep_per_s"], speed["sweep_per_processor_s"] = speed_of(swept)
    points = [
        {axis: values[len(values) * part // 7] for axis, values in axes.items()} for part in range(7)
    ]  # spread over the grid
    jobs = [job_at(job, point) for point in points]
    seconds = best_of(lambda: [simulate_step(j.workload, j.cluster, j.method) for j in jobs], 3)
    speed["definition_per_s"] = len(points) / seconds
    speed["sweep_over_definition"] = speed["sweep_per_processor_s"] / CORES / speed["definition_per_s"]
    if library is not None:
        other = plain_loops.run(library, job, axes)
        speed["c_per_s"], speed["c_per_processor_s"] = speed_of(lambda: plain_loops.run(library, job, axes))
        speed["sweep_over_c"] = speed["sweep_per_s"] / speed["c_per_s"]
        speed["sweep_over_c_by_processor"] = speed["sweep_per_processor_s"] / speed["c_per_processor_s"]
        speed["largest_difference"] = float(np.abs(result / other - 1).max())
    return speed


def large_sweep(configurations):
    """Sweep Zhang et al.'s model in this process; returns seconds (compilation included) and peak memory."""
    workers = [2**power for power in range(1, 11)]
    bandwidths = np.geomspace(1.25e7, 1.25e10, max(2, configurations // (len(workers) * 10)))
    axes = {"workers": workers, "compression": np.linspace(1, 100, 10), "bandwidth": bandwidths}
    before, processor = time.perf_counter(), time.process_time()
    result = sweep(RESNET, CLUSTER, method_named("horovod"), axes=axes)["scaling_factor"]
    seconds, processor_s = time.perf_counter() - before, time.process_time() - processor
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"configurations": result.size, "seconds": seconds, "processor_s": processor_s, "peak_rss_bytes": peak}


def made(tensors):
    """A workload of so many equal tensors, 0.1 ms apart."""
    return Workload("made", 1, tuple(Tensor(f"t{index}", 500_000, 1e-4) for index in range(tensors)), 0.05)


def growth(configurations):
    """Processor seconds of a sweep over the number of tensors, of configurations, and of workers, the others kept."""
    wfbp, axes = method_named("wfbp-a2a"), network_axes(configurations)

    def seconds(workload, axes, cluster=CLUSTER):
        return best_of(lambda: sweep(workload, cluster, wfbp, axes=axes), 5)

    tensors = [25, 50, 100, 200, 400, 800]
    counts = [configurations * factor // 8 for factor in (1, 2, 4, 8, 16, 32)]
    workers = [2, 16, 128, 1024, 16384]
    seconds(RESNET, axes)
    return {
        "tensors": {count: seconds(made(count), axes) for count in tensors},
        "configurations": {count: seconds(RESNET, network_axes(count)) for count in counts},
        "workers": {count: seconds(RESNET, axes, Cluster(count, CLUSTER.inter)) for count in workers},
    }


def growth_figure(grown):
    """Draw how cost grows, as SVG: dashed is in proportion to the first point."""
    figure, panels = new_figure(3, height=2.7)
    for axes, (what, points) in zip(panels, grown.items(), strict=True):
        counts, milliseconds = list(points), [1e3 * seconds for seconds in points.values()]
        axes.plot(counts, milliseconds, "o-", color=BLUE, label="sweep")
        if what != "workers":
            axes.plot(counts, [milliseconds[-1] * count / counts[-1] for count in counts], "--", label="linear")
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 1.5 * max(milliseconds))
        count_axis(axes, counts, what)
        axes.tick_params(axis="x", rotation=60)
        axes.set_ylabel("processor time (ms)")
    panels[0].legend()
    return render_svg(figure)


def measure(tiny):
    """Run everything; `tiny` sizes show only that it works."""
    library = plain_loops.build()
    sweeps = {
        "Zhang what-if (horovod)": ("horovod", network_axes(TINY if tiny else 16_000_000)),
        "MG-WFBP": ("mg-wfbp", network_axes(TINY if tiny else 4_000_000, 10)),
        "ByteScheduler, steady state": ("bytescheduler-a2a", network_axes(200 if tiny else 40_000, 10)),
    }
    wfbp = method_named("wfbp-a2a")

    def one_step():
        simulate_step(RESNET, CLUSTER, wfbp)

    command = [sys.executable, __file__, "--large", str(TINY if tiny else 10**8)]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    return {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "cores": CORES,
        },
        "c_flags": plain_loops.FLAGS if library else None,
        "sweeps": {title: sweep_speed(name, axes, library) for title, (name, axes) in sweeps.items()},
        "simulate_step_us": 1e6 * min(timeit.repeat(one_step, number=50, repeat=9, timer=time.process_time)) / 50,
        "large_sweep": json.loads(child.stdout),
        "growth_s": growth(TINY if tiny else 400_000),
    }


def report(measured):
    """Print what was measured."""
    for title, speed in measured["sweeps"].items():
        line = f"{title}: {speed['sweep_per_s']:.3g} configurations/s by the clock"
        line += f", {speed['sweep_per_processor_s']:.3g} by processor time of {CORES} cores"
        line += f", {speed['sweep_over_definition']:.3g}× the definition on one core"
        if "c_per_s" in speed:
            line += (
                f", {speed['sweep_over_c']:.2f}× plain C ({speed['sweep_over_c_by_processor']:.2f}× by processor time)"
            )
            line += f"; largest relative difference {speed['largest_difference']:.1g}"
        print(line)
    print(
        f"one simulate_step, WFBP, {len(RESNET.tensors)} tensors:"
        f" {measured['simulate_step_us']:.0f} µs of processor time"
    )
    large = measured["large_sweep"]
    print(
        f"{large['configurations']:.3g} configurations of the Zhang sweep, a fresh process: {large['seconds']:.1f} s"
        f" ({large['processor_s']:.1f} s of processor time),"
        f" peak memory {large['peak_rss_bytes'] / 2**30:.2f} GiB"
    )
    for what, points in measured["growth_s"].items():
        print(
            f"processor seconds by {what}: " + ", ".join(f"{count}: {seconds:.3g}" for count, seconds in points.items())
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--plot", type=Path, help="draw the growth of cost into this SVG file")
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works")
    parser.add_argument("--large", type=int, help="only the large sweep, of so many configurations, as JSON")
    options = parser.parse_args()
    if options.large:
        print(json.dumps(large_sweep(options.large)))
        return
    measured = measure(options.tiny)
    report(measured)
    if options.json:
        write_json(options.json, measured)
    if options.plot:
        write_text(options.plot, growth_figure(measured["growth_s"]))


if __name__ == "__main__":
    main()
