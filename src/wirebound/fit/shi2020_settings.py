"""The settings of the published runs: workloads, methods, and how ByteScheduler over all-reduce works.

The scripts are those of HKBU-HPML/ddl-benchmarks (commit 565964a).
"""

import dataclasses
import math
from dataclasses import dataclass

from wirebound.fit.shi2020_runs import Run
from wirebound.model import Method, Workload, method_named
from wirebound.model.library import builtin_workload

_BYTES_PER_ELEMENT = 4
_FUSION_BYTES = 512 * 2**20
_BYTEPS_PARTITION_BYTES = 4_096_000
_MERGE_BELOW_BYTES = 8192 * _BYTES_PER_ELEMENT
#: Horovod's fusion buffer up to release 0.20; 0.21 changed it to 128 MiB, and the cycle from 5 to 1 ms (its notes).
HOROVOD_FUSION_BYTES = 64 * 2**20
HOROVOD_CYCLE_S = 5e-3
#: Host time of a tensor, from a report on other hardware (bytedance/byteps, issue 339, December 2020): ResNet-50, batch
#: 32, 8 GPUs on PCIe in one machine ran 180 to 200 images a second and GPU with ByteScheduler, and 254 without. The
#: 161 tensors share the difference.
HOST_S_PER_TENSOR = (32 / 190 - 32 / 254) / 161


@dataclass(frozen=True, slots=True)
class ByteScheduler:
    """What ByteScheduler over all-reduce is taken to do. The defaults are what the source code and reports say.

    - `sizes_in_elements`: partition (4,000,000) and credit (16,000,000) count gradient elements, not bytes: the task's
      size is its number of elements (bytescheduler/pytorch/horovod_task.py).
    - `fused`: Horovod fuses what it is handed within a cycle, as its defaults are not switched off in this script: a
      start-up is paid per 64 MiB, not per tensor.
    - `overlaps_backward`: a Python thread of rank 0 hands over each tensor. Every step ends in torch.cuda.synchronize,
      which in PyTorch 1.4 waits for the GPU without releasing the interpreter lock (pytorch/pytorch, issue 24963,
      mended in 2023), so that the thread stands still until backward has ended.
    - `overlaps_forward`: the next forward pass waits layer by layer, as designed.
    - `host_s_per_tensor`: time of the polling thread for one tensor. It overlaps with the network; it does not overlap
      with compute, whose kernels need the same interpreter lock for their launch.
    """

    sizes_in_elements: bool = True
    fused: bool = True
    overlaps_backward: bool = False
    overlaps_forward: bool = True
    host_s_per_tensor: float = HOST_S_PER_TENSOR

    @property
    def method(self) -> Method:
        """The engine's method, with partition and credit in bytes."""
        unit = _BYTES_PER_ELEMENT if self.sizes_in_elements else 1
        schedule = "priority" if self.overlaps_forward else "wfbp"
        return method_named(
            "bytescheduler-a2a",
            schedule=schedule,
            partition_bytes=4_000_000 * unit,
            credit_bytes=16_000_000 * unit,
        )

    def workload(self, workload: Workload) -> Workload:
        """Return the workload with every gradient ready at the end of backward, where nothing overlaps with it."""
        if self.overlaps_backward:
            return workload
        tensors = tuple(
            dataclasses.replace(tensor, gap_s=0.0 if index else workload.backward_s, forward_s=forward_s)
            for index, (tensor, forward_s) in enumerate(zip(workload.tensors, workload.forward_gaps_s, strict=True))
        )
        return dataclasses.replace(workload, tensors=tensors)


#: Ways in which ByteScheduler over all-reduce could work, the chosen one last; chapter 6 shows what each predicts.
MECHANISMS = {
    "as designed, sizes in bytes": ByteScheduler(
        sizes_in_elements=False, fused=False, overlaps_backward=True, host_s_per_tensor=0.0
    ),
    "as designed, sizes in elements": ByteScheduler(fused=False, overlaps_backward=True, host_s_per_tensor=0.0),
    "and fused by Horovod": ByteScheduler(overlaps_backward=True, host_s_per_tensor=0.0),
    "fused, nothing under backward": ByteScheduler(host_s_per_tensor=0.0),
    "fused, nothing under backward or forward": ByteScheduler(overlaps_forward=False, host_s_per_tensor=0.0),
    "fused, host time of a reported run": ByteScheduler(overlaps_backward=True),
    "fused, a cycle of 5 ms for each tensor": ByteScheduler(host_s_per_tensor=HOROVOD_CYCLE_S),
    "fused, nothing under backward, host time of a reported run": ByteScheduler(),
}


def workload_of(run: Run) -> Workload:
    """Return the workload of a run, one step taking the measured time of one GPU.

    ResNet-50 has the shape that Zhang et al. (2020) measured, scaled; BERT's is proportional to operations.
    """
    return builtin_workload(run.workload).with_batch(run.samples_per_gpu).with_compute_s(run.compute_s)


def method_of(run: Run) -> Method:
    """Return the method with the settings of the published scripts.

    BSP fills buffers of 512 MiB, so that BERT-Large goes in three messages: the closing rule of DDP's buckets with
    that limit. (The published optimizer compares this limit with a number of elements, which would make one message;
    the calibration runs speak for three.) ByteScheduler-PS was BytePS with scheduling on the servers, and its rows
    equal those of WFBP-PS: it is treated as WFBP-PS, without overlap with the next forward pass. MG-WFBP plans with
    the message cost of this cluster, as its paper has it; the published code holds constants of other clusters.
    """
    partition = _BYTEPS_PARTITION_BYTES if run.architecture == "parameter-server" else math.inf
    if run.method.startswith("bsp"):
        return method_named(
            run.method,
            schedule="ddp",
            first_bucket_bytes=_FUSION_BYTES,
            bucket_cap_bytes=_FUSION_BYTES,
            partition_bytes=partition,
        )
    if run.method in ("wfbp-ps", "bytescheduler-ps"):
        return method_named("wfbp-ps", partition_bytes=partition)
    if run.method == "mg-wfbp":
        return method_named("mg-wfbp", merge_below_bytes=_MERGE_BELOW_BYTES)
    if run.method == "bytescheduler-a2a":
        return ByteScheduler().method
    return method_named(run.method)


def hook_s_per_tensor(run: Run) -> float:
    """Return the time from the end of forward to the end of the step, per gradient tensor, in seconds.

    For ByteScheduler over all-reduce on one node this is 1.4–1.7 ms with every workload, from 161 tensors of
    ResNet-50 to 398 of BERT-Large, whose gradients are 13 times as large: what a tensor costs there is work of the
    host, where a polling thread and the gradient hooks share one interpreter lock, and not bytes.
    """
    workload = workload_of(run)
    return (run.iteration_s - workload.forward_s) / len(workload.tensors)
