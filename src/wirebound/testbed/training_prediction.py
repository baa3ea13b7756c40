"""What a training run knows before it trains, from profiles and one rate, and what the engine makes of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from wirebound.model import Cluster, Codec, Compressor, Step, Workload
from wirebound.profile.machine import usable_cores
from wirebound.testbed.calibration import Calibration, calibrate
from wirebound.testbed.codec_cost import CODED_IN_PLACE, codec_in_place, measure_codec
from wirebound.testbed.compute_profile import between_profiles, profiled_workload
from wirebound.testbed.message_link import message_link
from wirebound.testbed.processor_cost import ProcessorCost, contended_step, measure_processor_cost
from wirebound.testbed.ranks import GlooRanks
from wirebound.testbed.training_case import TrainingCase, profile_job, profiled_techniques, with_codec

_CALIBRATION_ROUNDS = 3
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is known of a number of ranks before anything is predicted, from one rate only.

    `workloads` are by model, batch size and technique, `codecs` by what the command line calls the compressor.
    """

    calibration: Calibration
    processor: ProcessorCost
    workloads: dict[tuple[str, int, str], Workload]
    codecs: dict[str, Codec]


@dataclass(frozen=True, slots=True)
class Prediction:
    """A case's step, and the workload as communication slows it down."""

    case: TrainingCase
    step: Step
    workload: Workload


def prepare(
    group: GlooRanks, cases: Sequence[TrainingCase], rate_Bps: float, steps: int, bucket_cap_bytes: float
) -> Preparation:
    """Calibrate the network at one rate, profile the cases' models, and time their compressors, in the group's ranks.

    Raises `WireboundError` when a process fails.
    """
    calibration = calibrate(group, rate_Bps, rounds=_CALIBRATION_ROUNDS)
    processor = measure_processor_cost(group, rate_Bps)
    workloads: dict[tuple[str, int, str], Workload] = {}

    def profiled(model: str, batch_size: int, technique: str, compressor: Compressor | None = None) -> Workload:
        job = profile_job(
            model, batch_size, technique, steps=steps, bucket_cap_bytes=bucket_cap_bytes, compressor=compressor
        )
        answers = group.ask({"do": "profile", "job": asdict(job)}, time_limit_s=300)
        return profiled_workload(model, batch_size, answers)

    for case in cases:
        for technique in profiled_techniques(case.method):
            key = (case.model, case.batch_size, technique)
            if key not in workloads:
                workloads[key] = profiled(*key)
    codecs: dict[str, Codec] = {}
    for case in cases:
        compressor = case.method.compressor
        if compressor is None or compressor.label in codecs:
            continue
        if compressor.name in CODED_IN_PLACE:
            plain = workloads[case.model, case.batch_size, "ddp"]
            coded = profiled(case.model, case.batch_size, "ddp", compressor)
            codecs[compressor.label] = codec_in_place(plain, coded, compressor)
        else:
            codecs[compressor.label] = measure_codec(group, compressor)
    return Preparation(calibration, processor, workloads, codecs)


def predict_training(case: TrainingCase, prepared: Preparation) -> Prediction:
    """Return the engine's step for a case, from the profile and the calibration at one rate."""
    method = case.method
    if method.compressor is not None:
        method = with_codec(method, prepared.codecs[method.compressor.label])
    found = [prepared.workloads[case.model, case.batch_size, name] for name in profiled_techniques(method)]
    workload = found[-1]
    # Which messages there are may depend on the link, and which link describes them on the messages.
    sizes: list[float] = list(workload.sizes)
    for _ in range(_ROUNDS):
        link = message_link(prepared.calibration, sizes, case.rate_Bps)
        cluster = Cluster(nodes=case.ranks, inter=link)
        step, slowed = contended_step(workload, cluster, method, prepared.processor, cores=usable_cores() or 1)
        sizes = [message.size / step.wire_ratio for message in step.messages]
        if len(found) == 2:
            workload = between_profiles(found[0], found[1], len(sizes))
    return Prediction(case, step, slowed)
