"""The options of compressors and of servers' stages: what they mean, take for granted, and what became of them."""

from dataclasses import replace
from typing import Any

from wirebound.cli.job_options import JobOptions
from wirebound.cli.naming import naming, parsed
from wirebound.errors import InputError
from wirebound.fit.codec_document import load_codec
from wirebound.model import Cluster, Compressor, Method, Step, Workload
from wirebound.simulate.compressors import compressor_named, estimated_codec, rule_of
from wirebound.simulate.step import simulate_step
from wirebound.units import SHARE_BOUNDS, bounded_bandwidth, bounded_bytes, format_bytes, format_duration

#: Of a V100, on which the built-in workloads were measured (NVIDIA's data sheet: 900 GB/s).
DEVICE_MEMORY_BANDWIDTH = 900e9
#: An estimate: launching a kernel on a GPU takes a few microseconds.
LAUNCH_S = 5e-6


def method_changes(options: JobOptions) -> dict[str, Any]:
    """Return the fields of the method that these options set; raises `InputError` that names the option at fault."""
    changes: dict[str, Any] = {"compressed_pull": options.compressed_pull}
    if options.pipelined:  # else as the method has it
        changes["pipelined"] = True
    if options.incast != 0 and not (options.incast > 0 and SHARE_BOUNDS.has(1 - options.incast)):
        raise InputError(f"--incast {options.incast} must be between 0 and {1 - SHARE_BOUNDS.low}")
    changes["incast"] = options.incast
    _memory_bandwidth(options)  # a wrong value is a mistake also where nothing uses it
    if options.compress_from is not None:
        changes["compress_from_bytes"] = parsed("--compress-from", bounded_bytes, options.compress_from)
    if options.compressor is not None:
        if options.compression != 1:
            raise InputError("--compressor and --compression exclude each other: leave one of them out")
        changes["compressor"] = _compressor(options, options.compressor)
    return changes


def _compressor(options: JobOptions, text: str) -> Compressor:
    if options.codec is not None and options.free_codec:
        raise InputError("--codec and --free-codec exclude each other: leave one of them out")
    with naming("--compressor"):
        compressor = compressor_named(text)
    if options.free_codec:
        return compressor
    if options.codec is not None:
        with naming("--codec"):
            return replace(compressor, codec=load_codec(options.codec, compressor.label))
    return replace(compressor, codec=estimated_codec(compressor, _memory_bandwidth(options), LAUNCH_S))


def _memory_bandwidth(options: JobOptions) -> float:
    if options.device_memory_bandwidth is None:
        return DEVICE_MEMORY_BANDWIDTH
    return parsed("--device-memory-bandwidth", bounded_bandwidth, options.device_memory_bandwidth)


def compression_assumptions(
    workload: Workload, cluster: Cluster | None, method: Method, options: JobOptions
) -> list[str]:
    """Return what the compressor takes for granted, one phrase each."""
    compressor = method.compressor
    if compressor is None:
        return []
    rule = rule_of(compressor)
    assumed = []
    if options.free_codec:
        assumed.append("encoding and decoding take no time (--free-codec)")
    elif options.codec is not None:
        assumed.append(f"encoding and decoding take the time of {options.codec.name}")
    else:
        work = rule.work(compressor.parameter)
        memory = f"{format_bytes(_memory_bandwidth(options))}/s of device memory"
        assumed.append(
            "encoding and decoding take an estimate, not a measurement:"
            f" {work.encode_passes:.3g} and {work.decode_passes:.3g} passes over the gradient at {memory},"
            f" {format_duration(LAUNCH_S)} for each kernel"
        )
        if compressor.name in ("topk", "gtopk", "dgc"):
            assumed.append("selection as slow as sorting was on a P100 with PyTorch 1.1")
    if compressor.name in ("powersgd", "onebit") and any(tensor.shape is None for tensor in workload.tensors):
        assumed.append("tensors of unknown shape are nearly square matrices, the best case")
    if rule.gathers and method.architecture == "parameter-server" and rule.travels != "vote":
        pull = "encoded again" if method.compressed_pull else "uncompressed"
        assumed.append(f"servers decode what they receive, free of charge, and send the sum {pull}")
    elif rule.gathers:
        assumed.append("gathered payloads are added as they are decoded")
    if rule.gathers and method.architecture == "all-reduce" and cluster and cluster.accelerators_per_node > 1:
        if method.collective == "flat-ring":
            assumed.append("payloads are gathered by all workers from each other (flat-ring)")
        else:
            assumed.append("each node reduces its gradients uncompressed, then payloads are gathered between nodes")
    return assumed


def compression_without_effect(method: Method, options: JobOptions) -> list[tuple[str, object, str]]:
    """Return (option, value given, what it changes nothing with) for options of this module that change nothing."""
    idle: list[tuple[str, object, str]] = []
    if method.compressor is None:
        reason = "no --compressor"
        idle += [
            ("--codec", options.codec, reason),
            ("--free-codec", options.free_codec or None, reason),
            ("--device-memory-bandwidth", options.device_memory_bandwidth, reason),
            ("--compress-from", options.compress_from, reason),
            ("--compressed-pull", options.compressed_pull or None, reason),
        ]
    elif options.codec is not None or options.free_codec:
        flag = "--codec" if options.codec is not None else "--free-codec"
        idle.append(("--device-memory-bandwidth", options.device_memory_bandwidth, flag))
    if method.architecture != "parameter-server":
        reason = f"the method {options.method}"
        idle += [("--pipelined", options.pipelined or None, reason), ("--incast", options.incast or None, reason)]
        if method.compressor is not None:
            idle.append(("--compressed-pull", options.compressed_pull or None, reason))
    elif method.colocated:
        idle.append(("--pipelined", options.pipelined or None, "servers on the workers' nodes (--colocated)"))
    return idle


def compression_document(
    step: Step, workload: Workload, cluster: Cluster, method: Method, *, include_vector_add: bool, accumulation: int
) -> dict[str, float]:
    """Return what compression brought: nominal and wire ratio, the gain of the whole step, seconds of coding.

    The gain is the time of the same step without any compression ÷ its time with it.
    """
    dense = step
    if method.compresses or method.compression != 1:
        plain = replace(method, compressor=None, compressors_by_tensor=(), compression=1.0)
        dense = simulate_step(
            workload, cluster, plain, include_vector_add=include_vector_add, accumulation=accumulation
        )
    return {
        "nominal_ratio": step.nominal_ratio,
        "wire_ratio": step.wire_ratio,
        "end_to_end_gain": dense.iteration_s / step.iteration_s if step.iteration_s > 0 else 1.0,
        "encode_s": step.encode_s,
        "decode_s": step.decode_s,
    }


def compression_line(found: dict[str, float]) -> str:
    """Return the three ratios side by side."""
    coding = ""
    if found["encode_s"] or found["decode_s"]:
        coding = f"; encoding {format_duration(found['encode_s'])}, decoding {format_duration(found['decode_s'])}"
    return (
        f"  compression     nominal {found['nominal_ratio']:.4g}×, on the wire {found['wire_ratio']:.3g}×,"
        f" end to end {found['end_to_end_gain']:.3g}×{coding}"
    )
