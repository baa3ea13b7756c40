"""What the names and categories of a PyTorch trace stand for."""

import re

COMMUNICATION, GLOO, AUTOGRAD, OPTIMIZER, STEP, LAUNCH = (1 << bit for bit in range(6))

#: Categories in lower case; the older layouts write ``Kernel``, ``Memcpy``, ``Runtime`` and ``Operator``.
_CATEGORIES = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memset": "copy",
    "memset": "copy",
    "cuda_runtime": "launch",
    "cuda_driver": "launch",
    "hip_runtime": "launch",
    "runtime": "launch",
    "cpu_op": "operation",
    "operator": "operation",
    "user_annotation": "annotation",
    "gpu_user_annotation": "device annotation",
}
_COMMUNICATION_KERNEL = re.compile(r"nccl|rccl|msccl", re.IGNORECASE)
_HOST_COMMUNICATION = re.compile(r"(?:c10d::|record_param_comms|nccl:|gloo:|mpi:|ucc:)")
_GLOO = re.compile(r"(?:gloo|mpi|ucc):")
_BACKWARD = re.compile(r"\w*Backward\d*$")
_LAUNCH = re.compile(r"launch|memcpy|memset", re.IGNORECASE)


def category_kind(category: object) -> str:
    """Return what a category stands for: one of the kinds above, empty for what is of no interest."""
    return _CATEGORIES.get(category.lower(), "") if isinstance(category, str) else ""


def name_class(name: str) -> int:
    """Return the classes of a name as a sum of bits, 0 for a name of no interest."""
    if name.startswith("ProfilerStep"):
        return STEP
    found = 0
    if _HOST_COMMUNICATION.match(name) or _COMMUNICATION_KERNEL.search(name):
        found |= COMMUNICATION
    if _GLOO.match(name):
        found |= GLOO
    if name.startswith("autograd::engine::evaluate_function") or _BACKWARD.fullmatch(name):
        found |= AUTOGRAD
    if name.startswith("Optimizer.step"):
        found |= OPTIMIZER
    if _LAUNCH.search(name):
        found |= LAUNCH
    return found


def step_number(name: str) -> str:
    """Return the number in ``ProfilerStep#5`` as text; older traces have none."""
    return name.partition("#")[2]
