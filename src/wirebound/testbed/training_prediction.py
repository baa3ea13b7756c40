"""What a training run knows before it trains, from profiles and one rate, and what the engine makes of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from wirebound.model import Cluster, Codec, Compressor, Method, Step, Workload
from wirebound.profile.machine import usable_cores
from wirebound.simulate.compressors import rule_of
from wirebound.simulate.step import simulate_step
from wirebound.testbed.calibration import Calibration, calibrate
from wirebound.testbed.codec_cost import codec_in_place
from wirebound.testbed.compute_profile import between_profiles, profiled_workload
from wirebound.testbed.message_link import message_link, stage_link
from wirebound.testbed.processor_cost import ProcessorCost, contended_step, measure_processor_cost
from wirebound.testbed.ranks import GlooRanks
from wirebound.testbed.served_calibration import calibrate_served
from wirebound.testbed.served_step import served_step
from wirebound.testbed.training_case import TrainingCase, profile_job, profiled_techniques, with_codec

_CALIBRATION_ROUNDS = 3
#: These are single messages, not trains.
_GATHERING_ROUNDS = 9
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is known of a number of ranks before anything is predicted, from one rate only.

    `gathers` is the calibration of all-gathers, where a compressor of the cases needs them. `workloads` are by model,
    batch size and technique, `codecs` by model, batch size and what the command line calls the compressor. `served` is
    the calibration of parameter servers and what they take of the processor, where a case has some.
    """

    calibration: Calibration
    gathers: Calibration | None
    processor: ProcessorCost
    workloads: dict[tuple[str, int, str], Workload]
    codecs: dict[tuple[str, int, str], Codec]
    served: tuple[Calibration, ProcessorCost] | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A case's step, and the workload as communication slows it down."""

    case: TrainingCase
    step: Step
    workload: Workload


def prepare(
    group: GlooRanks, cases: Sequence[TrainingCase], rate_Bps: float, steps: int, bucket_cap_bytes: float
) -> Preparation:
    """Calibrate the network at one rate and profile the cases' models and compressors, in the group's ranks.

    Raises `WireboundError` when a process fails.
    """
    calibration = calibrate(group, rate_Bps, rounds=_CALIBRATION_ROUNDS)
    compressors = [case.method.compressor for case in cases if case.method.compressor is not None]
    gathers = None
    if any(_gathered(compressor) for compressor in compressors):
        gathers = calibrate(group, rate_Bps, gathers=True, rounds=_GATHERING_ROUNDS)
    processor = measure_processor_cost(group, rate_Bps)
    workloads: dict[tuple[str, int, str], Workload] = {}

    def profiled(
        model: str, batch_size: int, technique: str, compressor: Compressor | None = None
    ) -> list[dict[str, Any]]:
        job = profile_job(
            model, batch_size, technique, steps=steps, bucket_cap_bytes=bucket_cap_bytes, compressor=compressor
        )
        return group.ask({"do": "profile", "job": asdict(job)}, time_limit_s=300)

    for case in cases:
        for technique in profiled_techniques(case.method):
            key = (case.model, case.batch_size, technique)
            if key not in workloads:
                workloads[key] = profiled_workload(case.model, case.batch_size, profiled(*key))
    codecs: dict[tuple[str, int, str], Codec] = {}
    for case in cases:
        compressor = case.method.compressor
        if compressor is not None and (case.model, case.batch_size, compressor.label) not in codecs:
            plain = workloads[case.model, case.batch_size, "ddp"]
            answers = profiled(case.model, case.batch_size, "ddp", compressor)
            codecs[case.model, case.batch_size, compressor.label] = codec_in_place(plain, compressor, answers)
    return Preparation(calibration, gathers, processor, workloads, codecs)


def _gathered(compressor: Compressor | None) -> bool:
    """Whether payloads travel by an all-gather; gTop-k's tree sends and receives instead."""
    return compressor is not None and rule_of(compressor).travels in ("all-gather", "vote")


def with_servers(prepared: Preparation, group: GlooRanks, servers: int, rate_Bps: float) -> Preparation:
    """Return the preparation with a calibration of the group's last `servers` ranks, which serve the others.

    Raises `WireboundError` when a process fails.
    """
    return replace(prepared, served=calibrate_served(group, rate_Bps, servers=servers, rounds=_CALIBRATION_ROUNDS))


def predict_training(case: TrainingCase, prepared: Preparation) -> Prediction:
    """Return the engine's step for a case, from the profile and the calibration at one rate."""
    method = case.method
    if method.compressor is not None:
        method = with_codec(method, prepared.codecs[case.model, case.batch_size, method.compressor.label])
    found = [prepared.workloads[case.model, case.batch_size, name] for name in profiled_techniques(method)]
    workload = found[-1]
    # Which messages there are may depend on the link, and which link describes them on the messages.
    calibration = prepared.calibration
    if _gathered(method.compressor) and prepared.gathers is not None:
        calibration = prepared.gathers
    if case.servers and prepared.served is not None:
        return _predict_served(case, workload, *prepared.served)
    sizes: list[float] = list(workload.sizes)
    for _ in range(_ROUNDS):
        link = message_link(calibration, sizes, case.rate_Bps)
        cluster = Cluster(nodes=case.ranks, inter=link)
        step, slowed = contended_step(workload, cluster, method, prepared.processor, cores=usable_cores() or 1)
        sizes = _exchanged(step, method, case.ranks)
        if len(found) == 2:
            workload = between_profiles(found[0], found[1], len(sizes))
    return Prediction(case, step, slowed)


def _predict_served(
    case: TrainingCase, workload: Workload, calibration: Calibration, processor: ProcessorCost
) -> Prediction:
    """The step with parameter servers, whose messages take what the calibration of servers says."""
    cluster = Cluster(nodes=case.ranks, inter=calibration.link(case.rate_Bps))
    simulate = None
    if case.method.has_stages:  # both directions are busy all the time, and nothing rests
        pieces = simulate_step(workload, cluster, case.method, include_vector_add=False).messages
        link = stage_link(calibration, [piece.size for piece in pieces], case.rate_Bps)
        cluster = Cluster(nodes=case.ranks, inter=link)
    else:
        simulate = partial(served_step, calibration=calibration, rate_Bps=case.rate_Bps)
    cores = usable_cores() or 1
    step, slowed = contended_step(workload, cluster, case.method, processor, cores=cores, simulate=simulate)
    return Prediction(case, step, slowed)


def _exchanged(step: Step, method: Method, ranks: int) -> list[float]:
    """The bytes of each transfer of a step: of each worker where payloads are gathered, else of the whole sum."""
    if _gathered(method.compressor):
        return [stages.sent_bytes / (ranks - 1) for stages in step.stages]
    # PowerSGD's hook all-reduces what stays uncompressed, then one factor, then the other.
    parts = 3 if method.compressor is not None and rule_of(method.compressor).travels == "two-all-reduces" else 1
    return [message.size / step.wire_ratio / parts for message in step.messages for _ in range(parts)]
