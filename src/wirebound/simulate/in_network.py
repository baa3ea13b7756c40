"""Cost of letting a switch add the vectors that pass through it (SwitchML, Sapio et al. 2021; ATP, Lao et al. 2021).

Leaf functions, in the units of `wirebound.simulate.collectives`.
"""

#: Slots of a job's pool in the switch: SwitchML's for 100 Gbps (Sapio et al. 2021 take 128 at 10 Gbps).
DEFAULT_SLOTS = 512
#: Bytes of the vector in one slot, which is one packet: 64 values of 4 bytes, as in SwitchML's published P4 program.
DEFAULT_SLOT_BYTES = 256


def in_network_all_reduce(
    size: float, workers: int, latency: float, bandwidth: float, slots: float, slot_bytes: float, round_trip: float
) -> float:
    """Seconds until each worker has the sum from the switch: 2α + S / min(B, slots·slot_bytes/RTT), whatever P is.

    A slot is taken from the moment a worker sends its packet until the sum is back, `round_trip` seconds, so that no
    more than slots·slot_bytes bytes are under way (Sapio et al. 2021; with a round trip of 0 slots do not limit). The
    way up and the way down cost α each, as with servers. The switch must hold all workers: a tree of switches takes the
    same time but for its longer round trip.
    """
    if workers == 1:
        return 0.0
    rate = bandwidth
    if slots * slot_bytes < bandwidth * round_trip:
        rate = slots * slot_bytes / round_trip
    return 2 * latency + size / rate


def in_network_sent_bytes(size: float, workers: int) -> float:
    """Bytes that a worker sends to the switch: S, once, where there is anyone to sum with."""
    return size if workers > 1 else 0.0


def slots_needed(bandwidth: float, slot_bytes: float, round_trip: float) -> float:
    """Slots with which the switch keeps a link of `bandwidth` full: B·RTT/slot_bytes."""
    return bandwidth * round_trip / slot_bytes
