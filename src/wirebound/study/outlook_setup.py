"""How the outlook's experiments were set up, in words, from what was recorded."""

from collections.abc import Iterable, Mapping
from typing import Any

from wirebound.units import format_bandwidth

MODELS = {"mlp": "three dense layers", "cnn": "two convolutions, then two dense layers"}
KINDS = {"weight": "weights", "bias": "biases"}


def layer_names(tensors: Iterable[str]) -> dict[str, str]:
    """Return a readable name for each tensor, such as ``weights of layer 2`` for ``3.weight``; layers count from 1.

    Tensors are named ``PLACE.weight`` or ``PLACE.bias``, where places grow from the input on.
    """
    parts = {tensor: tensor.split(".") for tensor in tensors}
    places = sorted({int(place) for place, _ in parts.values()})
    return {tensor: f"{KINDS[kind]} of layer {places.index(int(place)) + 1}" for tensor, (place, kind) in parts.items()}


def setup_rows(outlook: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the set-up of all that was trained: a row for each setting, with a column for each task."""
    by_task = {task: _setup(outlook, task) for task in outlook["selective"]}
    settings = next(iter(by_task.values()))
    return [{"setting": name} | {task: found[name] for task, found in by_task.items()} for name in settings]


def _setup(outlook: Mapping[str, Any], task: str) -> dict[str, str]:
    selective, rounds, senders, correlation = (
        outlook[part][task] for part in ("selective", "rounds", "senders", "correlation")
    )
    job, changing, tuned, watched = selective["job"], rounds["settings"], senders["settings"], correlation["settings"]
    values = sum(tensor["bytes"] for tensor in selective["timing"]["tensors"]) // 4
    falls = ", ".join(str(step) for step in rounds["job"]["decay_steps"])
    return {
        "model": f"{MODELS[job['model']]}; {values:,} values",
        "workers": f"{job['workers']}, simulated",
        "batch of a worker": str(job["batch_size"]),
        "steps": str(job["steps"]),
        "momentum": f"{job['momentum']:g}",
        "seeds": str(len(selective["settings"]["seeds"])),
        "ratios by tensor: link": f"{format_bandwidth(selective['bandwidth'], 3)}, no latency",
        "ratios by tensor: learning rate": f"{job['learning_rate']:g}",
        "ratios over rounds: learning rate": f"{rounds['job']['learning_rate']:g}, a tenth of it from step {falls} on",
        "ratios over rounds: shares kept": f"{_percent([changing['mild'], changing['strong']])}",
        "senders: learning rate": f"best of {', '.join(f'{rate:g}' for rate in tuned['learning_rates'])} for each",
        "senders: share kept": _percent([tuned["share"]]),
        "time correlation": f"1 worker, batches of {', '.join(map(str, watched['batches']))}; {watched['steps']} steps,"
        " 1 seed",
    }


def _percent(shares: Iterable[float]) -> str:
    return ", ".join(f"{100 * share:g} %" for share in shares)
