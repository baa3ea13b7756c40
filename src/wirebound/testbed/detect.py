"""What this system offers for slow links, and its settings that a record needs."""

import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: Where administrators' programs are, whether or not a user's path names it.
_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin")
#: The commonest value of Linux distributions, taken where the kernel does not tell.
USUAL_HZ = 250

#: All that the bridged tiers ask of a kernel, tried in a namespace that vanishes with the command.
_TRIAL = """set -e
{ip} link add name bridge0 type bridge
{ip} link add name port0 type veth peer name wire0
{ip} link set port0 master bridge0
{tc} qdisc replace dev port0 root tbf rate 100mbit burst 50kb latency 50ms
"""
_TUN_TRIAL = _TRIAL.partition("{tc}")[0] + "{ip} tuntap add name wire1 mode tun\n"


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a tier works here, why or why not, and what would make it work."""

    works: bool
    reason: str
    remedy: str = ""


def tool(name: str) -> str | None:
    """Return the path of a system program, None where it is not installed."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(_FOLDERS))


@cache
def namespaces_available(*, as_root: bool, with_tun: bool = False) -> Availability:
    """Try a bridge, a virtual cable and a shaper (or a TUN device) in a namespace of its own, which leaves nothing."""
    if sys.platform != "linux":
        return Availability(False, f"{sys.platform} has no network namespaces", "use Linux, or the tier loopback")
    tools = {name: tool(name) for name in ("ip", "tc", "unshare", "nsenter", "sh")}
    missing = [name for name, path in tools.items() if path is None]
    if missing:
        package = "iproute2" if {"ip", "tc"} & set(missing) else "util-linux"
        return Availability(False, f"the program {missing[0]} is missing", f"install {package}")
    if as_root and os.geteuid() != 0:
        return Availability(False, "needs root", "run it as root, or use the tier user-namespaces or pacing")
    script = (_TUN_TRIAL if with_tun else _TRIAL).format(ip=tools["ip"], tc=tools["tc"])
    flags = ["--net", "--mount"] if as_root else ["--user", "--map-root-user", "--net"]
    try:
        done = subprocess.run(
            [str(tools["unshare"]), *flags, str(tools["sh"]), "-c", script],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Availability(False, f"namespaces cannot be tried: {error}", "use the tier pacing")
    if done.returncode == 0:
        return Availability(True, "namespaces, virtual cables and " + ("TUN devices work" if with_tun else "tbf work"))
    said = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
    if said.startswith("unshare"):
        remedy = "allow them (capability CAP_SYS_ADMIN)" if as_root else "allow user namespaces (sysctl), or be root"
        return Availability(False, f"no permission for namespaces ({said})", f"{remedy}, or use the tier pacing")
    return Availability(False, f"the kernel lacks what links are made of ({said})", "use the tier pacing")


@cache
def kernel_hz() -> int | None:
    """Return the kernel's timer frequency, None where it does not tell (``CONFIG_HZ`` of its configuration)."""
    for path in (Path("/proc/config.gz"), Path(f"/boot/config-{platform.release()}")):
        try:
            raw = path.read_bytes()
            text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", errors="replace")
        except (OSError, EOFError):
            continue
        if found := re.search(r"^CONFIG_HZ=([0-9]+)$", text, re.MULTILINE):
            return int(found[1])
    return None


def interface_mtu(name: str) -> int | None:
    """Return the largest packet of a network interface in bytes, None where it is not told."""
    try:
        return int(Path(f"/sys/class/net/{name}/mtu").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
