"""What a training run writes: its predictions, and what was measured. Times in seconds, rates in bytes per second."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from wirebound.testbed.training_case import TrainingCase
from wirebound.testbed.training_measurement import TrainedCase
from wirebound.testbed.training_prediction import Prediction, Preparation


def predictions_document(
    predictions: Sequence[Prediction], prepared: Mapping[int, Preparation], tier: str
) -> dict[str, Any]:
    """Return what is written and hashed before training: what is known, and what follows from it."""
    return {
        "schema": "wirebound-testbed-training-predictions",
        "version": 1,
        "tier": tier,
        "calibrations": [
            asdict(one.calibration)
            | {
                "processor": asdict(one.processor),
                "gathers": None if one.gathers is None else asdict(one.gathers),
                "served": None if one.served is None else asdict(one.served[0]) | {"processor": asdict(one.served[1])},
                "codecs": {
                    f"{model}:{batch_size} {label}": asdict(codec)
                    for (model, batch_size, label), codec in one.codecs.items()
                },
                "profiles": [
                    {
                        "model": model,
                        "batch_size": batch_size,
                        "technique": technique,
                        "gradient_bytes": workload.size,
                        "forward_s": workload.forward_s,
                        "backward_s": workload.backward_s,
                        "optimizer_s": workload.optimizer_s,
                    }
                    for (model, batch_size, technique), workload in one.workloads.items()
                ],
            }
            for one in prepared.values()
        ],
        "predictions": [
            case_document(one.case)
            | {
                "iteration_s": one.step.iteration_s,
                "forward_s": one.workload.forward_s,
                "backward_s": (one.step.backward_end_s or one.workload.ready_s)[-1],
                "optimizer_s": one.workload.optimizer_s,
                "messages": [
                    {
                        "bytes": message.size,
                        "ready_s": message.ready_s,
                        "start_s": message.start_s,
                        "end_s": message.end_s,
                        "tensors": [message.tensors[0], message.tensors[-1]],
                    }
                    for message in one.step.messages
                ],
            }
            for one in predictions
        ],
    }


def case_document(case: TrainingCase) -> dict[str, Any]:
    """Return what identifies a case."""
    compressor = case.method.compressor
    return {
        "model": case.model,
        "batch_size": case.batch_size,
        "ranks": case.ranks,
        "servers": case.servers,
        "rate_Bps": case.rate_Bps,
        "method": case.method.name,
        "compressor": None if compressor is None else compressor.label,
    }


def measured_document(prediction: Prediction, trained: TrainedCase, calibration_rate_Bps: float) -> dict[str, Any]:
    """Return a case with what was predicted and what was measured."""
    predicted_s = prediction.step.iteration_s
    return case_document(prediction.case) | {
        "held_out": prediction.case.rate_Bps != calibration_rate_Bps,
        "predicted_s": predicted_s,
        "measured_s": trained.measured_s,
        "spread_s": trained.spread_s,
        "error": predicted_s / trained.measured_s - 1,
        "steps": trained.steps,
        "forward_s": trained.forward_s,
        "backward_s": trained.backward_s,
        "rest_s": trained.rest_s,
        "messages": [
            {
                "kind": message.kind,
                "bytes": message.size,
                "ready_s": message.ready_s,
                "start_s": message.start_s,
                "end_s": message.end_s,
                "tensors": [message.tensors[0], message.tensors[-1]],
            }
            for message in trained.messages
        ],
    }
