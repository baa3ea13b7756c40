"""What a run was made with: parameters, versions, machine, and a digest of every file."""

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import wirebound
from wirebound.profile.machine import memory_bytes, processor_name, usable_cores

SCHEMA = "wirebound-run"
VERSION = 1

#: The packages whose versions may change a figure.
PACKAGES = (
    "ipykernel",
    "matplotlib",
    "myst-nb",
    "nbclient",
    "numpy",
    "pandas",
    "papermill",
    "pyarrow",
    "pytask",
    "scipy",
    "seaborn",
    "torch",
)


def machine_record() -> dict[str, Any]:
    """Return the processor, cores, memory in GiB and system: no host name, user or path, and nothing that varies."""
    memory = memory_bytes()
    return {
        "processor": processor_name(),
        "cores": usable_cores(),
        "memory_gib": None if memory is None else round(memory / 2**30),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "architecture": platform.machine(),
    }


def package_versions() -> dict[str, str]:
    """Return the installed versions of `PACKAGES` without build suffixes; what is not installed is left out."""
    versions = {}
    for name in sorted(PACKAGES):
        try:
            versions[name] = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return versions


def environment_record() -> dict[str, Any]:
    """Return the versions and the machine that execute chapters now."""
    return {
        "wirebound": wirebound.__version__,
        "python": platform.python_version(),
        "packages": package_versions(),
        "machine": machine_record(),
    }


def make_manifest(
    *,
    name: str,
    full: bool,
    live: bool,
    environment: Mapping[str, Any],
    records: Mapping[str, Mapping[str, Any]],
    stale: frozenset[str],
    files: Mapping[str, str],
) -> dict[str, Any]:
    """Return the manifest of a run, without the time of its publication.

    `environment` is the `environment_record` of the last execution; `records` maps each chapter to its ``parameters``
    and when it was ``executed``; `stale` names chapters that were left out and no longer match the others; `files` maps
    each file's path in the run folder to its SHA-256.
    """
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "name": name,
        "set": "full" if full else "quick",
        "live": live,
        **environment,
        "parameters": {chapter: record["parameters"] for chapter, record in records.items()},
        "executed": {chapter: record["executed"] for chapter, record in records.items()},
        "stale": sorted(stale),
        "files": dict(sorted(files.items())),
    }
