"""What CONTRIBUTING shows about extending the engine works as it stands there."""

import re
from pathlib import Path

import pytest

from wirebound.model import Cluster, Link, Method
from wirebound.model.library import builtin_workload
from wirebound.simulate.collectives import ALL_REDUCES
from wirebound.simulate.compressors import COMPRESSORS, compressor_named
from wirebound.simulate.messages import SCHEDULES
from wirebound.simulate.step import simulate_step

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


NEW = ((SCHEDULES, "groups-of-ten"), (ALL_REDUCES, "central"), (COMPRESSORS, "int8"))


@pytest.fixture(autouse=True)
def _examples():
    """Run every Python block of the section, and take its registrations back afterwards."""
    text = CONTRIBUTING.read_text(encoding="utf-8").partition("## Extending the engine")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == len(NEW)
    for block in blocks:
        exec(compile(block, "CONTRIBUTING.md", "exec"), {})
    yield
    for registry, name in NEW:
        del registry[name]


def test_a_new_schedule():
    workload = builtin_workload("resnet50")
    step = simulate_step(workload, Cluster(4, Link(1.25e9)), Method("mine", "all-reduce", "groups-of-ten"))
    assert [len(message.tensors) for message in step.messages] == [10] * 16 + [1]


def test_a_new_collective():
    workload = builtin_workload("resnet50")
    method = Method("mine", "all-reduce", "bsp", collective="central")
    step = simulate_step(workload, Cluster(4, Link(1e9, 1e-3)), method, include_vector_add=False)
    assert step.exposed_s == pytest.approx(6e-3 + 6 * workload.size / 1e9)
    assert step.node_wire_bytes == 3 * workload.size


def test_a_new_compressor():
    workload = builtin_workload("resnet50")
    method = Method("mine", "all-reduce", "bsp", compressor=compressor_named("int8"))
    step = simulate_step(workload, Cluster(2, Link(1e9)), method, include_vector_add=False)
    payloads = sum(4 + tensor.size // 4 for tensor in workload.tensors)
    assert step.node_wire_bytes == payloads
    assert step.exposed_s == pytest.approx(payloads / 1e9)
