"""The most memory that training took: what was allocated on a GPU, or what this process had in memory."""

import sys
from pathlib import Path

from wirebound.profile.observations import PeakMemory


class MemoryWatch:
    """Counts from its making; `peak()` tells the most memory since then.

    On CUDA that is `torch.cuda.max_memory_allocated`, the tensors alone (kind ``cuda-allocated``). Elsewhere it is the
    resident memory of the whole process, the libraries included: since the watch was made where the system can count
    anew (Linux), else since the process began (kind ``process-resident``). `before` is the same figure at the start.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        if device.startswith("cuda"):
            import torch

            torch.cuda.reset_peak_memory_stats(device)
            self._before: int | None = int(torch.cuda.memory_allocated(device))
        else:
            _count_anew()
            self._before = _resident("VmRSS")

    def peak(self) -> PeakMemory | None:
        """Return the peak in bytes, None where this system tells none."""
        if self._device.startswith("cuda"):
            import torch

            return PeakMemory("cuda-allocated", int(torch.cuda.max_memory_allocated(self._device)), self._before)
        peak = _resident("VmHWM") or _lifetime_peak()
        return None if peak is None else PeakMemory("process-resident", peak, self._before)


def _count_anew() -> None:
    """Set the process's highest resident size back to the present one (Linux; see proc(5), clear_refs)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return  # then the peak is that of the process's whole life


def _resident(field: str) -> int | None:
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return None


def _lifetime_peak() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        try:
            import psutil
        except ImportError:
            return None
        return int(psutil.Process().memory_info().peak_wset)
    # In bytes on macOS, in KiB elsewhere.
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)
