"""What machine a measurement was made on: hardware, versions, settings and load; no host name, user or path."""

import os
import platform
import subprocess
import sys
from pathlib import Path

from wirebound.profile.schema import Scalar


def machine_record() -> dict[str, Scalar]:
    """Return the machine record: plain names and values, None for what this system does not tell.

    Memory is in bytes. ``kernel`` is the release family only (such as ``6.8``). PyTorch's version and thread count are
    there if PyTorch is installed; importing it takes a second or two.
    """
    record: dict[str, Scalar] = {
        "system": platform.system(),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "architecture": platform.machine(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": memory_bytes(),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "congestion_control": _first_line("/proc/sys/net/ipv4/tcp_congestion_control"),
        "load_1min": load_average(),
        "python": platform.python_version(),
    }
    try:
        import torch
    except ImportError:
        record |= {"torch": None, "torch_threads": None}
    else:
        # The part after "+" names a build, not a version of the code.
        record |= {"torch": str(torch.__version__).partition("+")[0], "torch_threads": torch.get_num_threads()}
    return record


def accelerator_record(device: str) -> dict[str, Scalar]:
    """Return what there is to say about a CUDA device: its name, memory in bytes, CUDA version; empty for others."""
    if not device.startswith("cuda"):
        return {}
    import torch

    properties = torch.cuda.get_device_properties(device)
    return {
        "accelerator": properties.name,
        "accelerator_memory_bytes": properties.total_memory,
        "accelerators": torch.cuda.device_count(),
        "cuda": torch.version.cuda,
    }


def processor_name() -> str:
    """Return the processor's trade name where the system tells it, else its architecture."""
    if sys.platform == "linux":
        try:
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        for line in lines:
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model", "cpu model") and value.strip():
                return value.strip()
    elif sys.platform == "darwin":
        try:
            answer = subprocess.run(
                ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, timeout=5, check=True
            )
        except (OSError, subprocess.SubprocessError):
            pass
        else:
            return answer.stdout.strip()
    return platform.processor() or platform.machine()


def usable_cores() -> int | None:
    """Return the number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def memory_bytes() -> int | None:
    """Return the machine's memory in bytes, None where it cannot be told."""
    if hasattr(os, "sysconf"):
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (OSError, ValueError):
            pass
    try:
        import psutil
    except ImportError:
        return None
    return int(psutil.virtual_memory().total)


def load_average() -> float | None:
    """Return the number of runnable processes, averaged over the last minute, None where there is no such figure."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
