"""What the two implementations must agree on, and how closely."""

import pytest

from .engine import second_step
from .staged import second_staged_step

RELATIVE = 1e-9


def assert_engines_agree(workload, cluster, method, accumulation=1, include_vector_add=True):
    from wirebound.simulate.step import simulate_step

    options = {"accumulation": accumulation, "include_vector_add": include_vector_add}
    first = simulate_step(workload, cluster, method, **options)
    second = second_step(workload, cluster, method, **options)

    def close(value, unit):
        return pytest.approx(value, rel=RELATIVE, abs=RELATIVE * unit)

    period = second.iteration_s
    assert first.iteration_s == close(period, 0)
    assert first.compute_s == close(second.compute_s, 0)
    assert first.exposed_s == close(period - second.compute_s, period)
    assert first.communication_s == close(second.communication_s, period)
    assert first.wire_bytes_per_worker == close(second.worker_bytes, 1)
    assert first.node_wire_bytes == close(second.node_bytes, 1)
    assert first.link_utilization == close(second.utilization, 0)
    assert [m.tensors for m in first.messages] == [m.tensors for m in second.messages]
    for field in ("size", "ready_s", "start_s", "end_s"):
        ours = [getattr(m, field) for m in first.messages]
        assert ours == close([getattr(m, field) for m in second.messages], period), field


def assert_staged_engines_agree(workload, cluster, method, accumulation=1, include_vector_add=True):
    """The same, where the device encodes and decodes, or servers have stages."""
    from wirebound.simulate.step import simulate_step

    options = {"accumulation": accumulation, "include_vector_add": include_vector_add}
    first = simulate_step(workload, cluster, method, **options)
    period, messages, costs = second_staged_step(workload, cluster, method, **options)

    def close(value, unit=0.0):
        return pytest.approx(value, rel=RELATIVE, abs=RELATIVE * unit)

    assert [m.tensors for m in first.messages] == [m.tensors for m in messages]
    for name in ("ready", "start", "end"):
        assert [getattr(m, f"{name}_s") for m in first.messages] == close([m.times[name] for m in messages], period)
    for name in ("encoded", "push_end", "pull_start", "decoded"):
        assert [getattr(s, f"{name}_s") for s in first.stages] == close([m.times[name] for m in messages], period)
    assert first.encode_s == close(sum(m.costs.encode for m in messages), period)
    assert first.decode_s == close(sum(m.costs.decode for m in messages), period)
    assert first.iteration_s == close(period)
    worker, node = costs.sent()
    assert (first.wire_bytes_per_worker, first.node_wire_bytes) == close((worker, node), 1)
    cards = cluster.inter.bandwidth * cluster.nics_per_node
    assert first.link_utilization == close(node / (cards * period))
    payloads = sum(load.own for load in costs.whole().values()) / method.compression
    assert first.nominal_ratio == close(sum(t.size for t in workload.tensors) / payloads)
