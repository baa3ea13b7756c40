"""A calibrated prediction of the 252 runs of Shi et al. (2020).

The engine predicts every run; a few effective figures of the cluster, which nobody published, are calibrated on the
runs of four methods at 4 and 16 GPUs. This module gathers the parts that notebooks, commands and tests use:

- `shi2020_runs`: the measurements and the protocol that splits them;
- `shi2020_settings`: what the published scripts ran, and how ByteScheduler over all-reduce works;
- `shi2020_model`: the calibrated figures and the step that follows from them;
- `shi2020_calibration`: the fit, its intervals, and its cross-validation.
"""

from wirebound.fit.shi2020_calibration import (
    FIGURES,
    at_bound,
    bootstrap,
    by_method,
    by_setting,
    calibrate,
    cross_validated_errors,
    intervals,
    prediction_factors,
    values_of,
)
from wirebound.fit.shi2020_model import Calibration, predict_iteration_s
from wirebound.fit.shi2020_runs import (
    CALIBRATION_GPUS,
    CALIBRATION_METHODS,
    GPUS_PER_NODE,
    NETWORKS,
    TECHNIQUES,
    Run,
    read_runs,
    shuffled,
)
from wirebound.fit.shi2020_settings import (
    HOST_S_PER_TENSOR,
    MECHANISMS,
    ByteScheduler,
    hook_s_per_tensor,
    method_of,
    workload_of,
)

__all__ = [
    "CALIBRATION_GPUS",
    "CALIBRATION_METHODS",
    "FIGURES",
    "GPUS_PER_NODE",
    "HOST_S_PER_TENSOR",
    "MECHANISMS",
    "NETWORKS",
    "TECHNIQUES",
    "ByteScheduler",
    "Calibration",
    "Run",
    "at_bound",
    "bootstrap",
    "by_method",
    "by_setting",
    "calibrate",
    "cross_validated_errors",
    "hook_s_per_tensor",
    "intervals",
    "method_of",
    "predict_iteration_s",
    "prediction_factors",
    "read_runs",
    "shuffled",
    "values_of",
    "workload_of",
]
