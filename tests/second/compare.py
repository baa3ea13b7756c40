"""What the two implementations must agree on, and how closely."""

import pytest

from .engine import second_step

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
