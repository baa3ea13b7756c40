"""The calibration of parameter servers for training: messages of the very code that trains, at one rate."""

import time

from wirebound.profile.spread import median
from wirebound.testbed.calibration import SIZES, Calibration, fit_trains
from wirebound.testbed.processor_cost import ProcessorCost, fit_processor_cost, require_paced
from wirebound.testbed.ranks import GlooRanks
from wirebound.testbed.speed import set_rate
from wirebound.testbed.trains import PAUSE_S, Train, messages_of_a_train

_TIMEOUT_S = 120.0


def calibrate_served(
    group: GlooRanks, rate_Bps: float, *, servers: int, rounds: int
) -> tuple[Calibration, ProcessorCost]:
    """Time messages that are pushed to `servers` and pulled, at `rate_Bps` bytes per second, and fit them.

    The last `servers` ranks serve. Returns what explains the times, and what a message takes of a worker's processor.
    Raises `WireboundError` when a process fails or no connection can be slowed down.
    """
    set_rate(group, rate_Bps)
    workers = group.network.ranks - servers
    counts = {size: messages_of_a_train(size) for size in SIZES}
    pace_Bps = group.network.pace_Bps(max(workers, servers))
    order = {
        "do": "serve",
        "workers": workers,
        "servers": servers,
        "sizes": list(SIZES),
        "counts": counts,
        "rounds": rounds,
        "pause_s": PAUSE_S,
        "seed": 1,
        "store": str(group.network.folder / f"store{time.monotonic_ns()}"),
        "timeout_s": _TIMEOUT_S,
        "pace_Bps": pace_Bps,
    }
    answers = group.ask(order, time_limit_s=300)
    require_paced(answers, pace_Bps)
    found: dict[int, list[tuple[float, float]]] = {}
    for size in SIZES:
        readings = [[of_round[str(size)] for of_round in answer["rounds"]] for answer in answers[:workers]]
        found[size] = [
            (
                (max(last_s for _, last_s, _ in of_round) - max(first_s for first_s, _, _ in of_round))
                / (counts[size] - 1),
                sum(busy_s for _, _, busy_s in of_round) / (workers * counts[size]),
            )
            for of_round in zip(*readings, strict=True)
        ]
    trains = [Train(size, counts[size], tuple(took_s for took_s, _ in times)) for size, times in found.items()]
    busy_s = {float(size): median([busy for _, busy in times]) for size, times in found.items()}
    return fit_trains(trains, workers, rate_Bps, servers=servers), fit_processor_cost(busy_s)
