"""Wrong rules: one edit each of a module of `wirebound.simulate`, for `mutate` to try."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """One wrong rule: `old` stands exactly once in `file` of `wirebound.simulate`, or `count` times."""

    name: str
    file: str
    old: str
    new: str
    count: int = 1


MUTANTS = (
    # collectives
    Mutant("ring-steps", "collectives.py", "2 * (workers - 1) * latency", "2 * workers * latency"),
    Mutant(
        "ring-bytes",
        "collectives.py",
        "latency + 2 * (workers - 1) / workers * size / bandwidth",
        "latency + 2 * size / bandwidth",
        2,
    ),
    Mutant(
        "ring-additions",
        "collectives.py",
        "return [(workers - 1, size / workers)]",
        "return [(workers, size / workers)]",
    ),
    Mutant(
        "halving-surplus",
        "collectives.py",
        "seconds += 2 * latency + 2 * size / bandwidth",
        "seconds += 2 * latency + size / bandwidth",
    ),
    Mutant(
        "halving-rounds",
        "collectives.py",
        "2 * rounds * latency + 2 * (power - 1)",
        "rounds * latency + 2 * (power - 1)",
    ),
    Mutant("intra-latency", "collectives.py", "2 * (per_node - 1) * intra_latency", "(per_node - 1) * intra_latency"),
    Mutant(
        "blueconnect-shards", "hierarchical.py", "        reached *= factors[index]\n        steps", "        steps"
    ),
    Mutant("flat-ring-hop", "hierarchical.py", "max(hop_s, inter_latency", "(hop_s + inter_latency"),
    Mutant("byteps-idle-servers", "byteps.py", "    servers = min(servers, workers)\n    links", "    links"),
    Mutant("switch-latency", "in_network.py", "return 2 * latency + size / rate", "return latency + size / rate"),
    Mutant(
        "gather-self",
        "gather.py",
        "return (workers - 1) * latency + (workers - 1) * size / bandwidth",
        "return (workers - 1) * latency + workers * size / bandwidth",
    ),
    # servers
    Mutant(
        "server-worker-link",
        "servers.py",
        "max(size / bandwidth, workers * size / (servers * bandwidth))",
        "workers * size / (servers * bandwidth)",
    ),
    Mutant("push-pull-overlap", "servers.py", "(2 - overlap) * one_way", "(1 + overlap) * one_way"),
    Mutant(
        "incast-of-one",
        "servers.py",
        "bandwidth * (1 - incast) if workers > 2",
        "bandwidth * (1 - incast) if workers > 1",
    ),
    # what a message costs
    Mutant(
        "additions-compressed",
        "cost.py",
        "exchange(size / compression) + add(size)",
        "exchange(size / compression) + add(size / compression)",
    ),
    Mutant("additions-unsharded", "cost.py", "between(size / per_node, nodes)", "between(size, nodes)"),
    Mutant("cards-ignored", "cost.py", "between(wire / cards))", "between(wire))"),
    Mutant(
        "latency-only-once",
        "cost.py",
        "exchange(wire, nodes, latency, bandwidth)",
        "exchange(wire, nodes, latency / 2, bandwidth)",
    ),
    Mutant("slowest-candidate", "cost.py", "lambda size: min(cost(size)", "lambda size: max(cost(size)"),
    # which gradients travel together
    Mutant("horovod-window", "schedules.py", "elapsed >= window", "elapsed > window"),
    Mutant("horovod-threshold", "schedules.py", "held >= threshold", "held > threshold"),
    Mutant("horovod-clock", "schedules.py", "            elapsed = 0.0\n", ""),
    Mutant("ddp-threshold", "schedules.py", "held >= bound", "held > bound"),
    Mutant("ddp-first-bucket", "schedules.py", "bound = first_limit", "bound = limit"),
    Mutant("ddp-limit-stays-small", "schedules.py", "            bound = limit\n", ""),
    Mutant("mg-wfbp-strict", "schedules.py", "wait < startup", "wait <= startup"),
    Mutant("mg-wfbp-zero-wait", "schedules.py", "wait <= 0 or", "wait < 0 or"),
    Mutant("mg-wfbp-never-waits", "schedules.py", "wait <= 0 or wait < startup", "wait <= 0"),
    Mutant(
        "mg-wfbp-free-network",
        "schedules.py",
        "free = start + startup + seconds_per_byte * held",
        "free = start + startup",
    ),
    Mutant(
        "partition-rest", "schedules.py", "    pieces.append(left)\n", "    pieces.append(limit if pieces else left)\n"
    ),
    # the order on the wire, and the step
    Mutant(
        "message-ready-early",
        "messages.py",
        "PlannedMessage(total, ready[end - 1]",
        "PlannedMessage(total, ready[first]",
    ),
    Mutant(
        "fifo-starts-when-ready", "step.py", "start_s = ready_s if ready_s > free_s else free_s", "start_s = ready_s"
    ),
    Mutant("overlap-dropped", "step.py", "max(backward_s, messages[-1].end_s)", "(backward_s + messages[-1].end_s)"),
    Mutant("optimizer-forgotten", "step.py", "messages[-1].end_s) + optimizer_s", "messages[-1].end_s)"),
    Mutant("accumulation-once-more", "step.py", "(accumulation - 1) *", "accumulation *"),
    Mutant("cards-not-in-utilization", "step.py", "bandwidth * cluster.nics_per_node", "bandwidth"),
    Mutant("priority-inverted", "priority_kernel.py", "arrived - urgency[arrived] * count", "arrived"),
    Mutant(
        "priority-of-the-late",
        "priority_kernel.py",
        "arrived < count and ready[arrived] <= now:",
        "arrived < count and ready[arrived] < now or arrived == len(sent):",
    ),
    Mutant("credit-ignored", "priority_kernel.py", "handed_bytes + sizes[index] > credit", "False"),
    Mutant("credit-strict", "priority_kernel.py", "sizes[index] > credit", "sizes[index] >= credit"),
    Mutant("credit-never-returned", "priority_kernel.py", "            handed_bytes -= sizes[sent[finished][0]]\n", ""),
    Mutant("forward-waits-for-all", "priority_kernel.py", "max(now, arrived[index])", "max(now, *arrived)"),
    Mutant("optimizer-forgotten-in-forward", "priority_kernel.py", "+ optimizer_s * sizes[index] / size", ""),
    # coding and stages
    Mutant(
        "decode-one-payload", "coding.py", "codec.decode_s_per_byte * size * payloads", "codec.decode_s_per_byte * size"
    ),
    Mutant("pull-compressed", "coding.py", "return load.own, load.raw", "return load.own, load.own"),
    Mutant(
        "pull-behind-all-pushes",
        "device.py",
        "pull_start[sent] = push_free if push_free > pull_free else pull_free",
        "pull_start[sent] = push_free",
    ),
    Mutant("decode-after-backward", "device.py", "while back < sent and end[back] <= now:", "while False:"),
    Mutant(
        "tictac-no-barrier",
        "tictac.py",
        "sorted(range(count), key=lambda message: (-last[message], message))",
        "list(range(count))",
    ),
)

#: Edits that one might try and that change no result.
EQUIVALENT = {
    "`if workers > 1` to `> 0` in one_way_s": "a node alone uses no server, so no step asks for one worker",
    "`max(…) + optimizer_s` to `max(… + optimizer_s)` in simulate_step": (
        "the last message ends after its gradient, so after backward: the greater of the two is always its end"
    ),
    "no reset of handed_bytes in priority_order": "it removes only what rounding left over, below one byte",
    "`max(compute_s, …)` in simulate_step": "the steady-state period is never shorter but by rounding",
    "`max(0, …)` of the slope in _mg_wfbp": (
        "with a slope of 0 or less a message is over before the next one, which was worth no wait of α, is ready"
    ),
}
