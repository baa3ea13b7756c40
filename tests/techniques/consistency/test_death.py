"""When a process dies, the others end with one line each, and none stays."""

import psutil
import pytest
from deaths import kill_the_second

from wirebound.errors import WireboundError
from wirebound.model.compute_time import ComputeTime
from wirebound.techniques.consistency.plan import Plan
from wirebound.techniques.consistency.run import prepare, run_plans
from wirebound.techniques.launch import started_processes
from wirebound.techniques.learning.data import data_set

ENDLESS = {
    "ssp": Plan("ssp", ComputeTime(0.01), 2, workers=2, steps=10**6),
    "gossip": Plan("gossip", ComputeTime(0.01), neighbours=((1,), (0,)), workers=2, steps=10**6),
}


@pytest.mark.parametrize("protocol", list(ENDLESS))
def test_when_a_worker_dies_the_others_end_with_one_line(protocol, tmp_path):
    plan = ENDLESS[protocol]
    with started_processes(prepare([plan], {"digits": data_set("digits")}, tmp_path), tmp_path) as started:
        kill_the_second(started, "WireboundError: lost")


def test_the_time_limit_ends_all_processes():
    with pytest.raises(WireboundError, match=r"did not end within 0\.5 s"):
        run_plans([ENDLESS["ssp"]], time_limit_s=0.5)
    children = psutil.Process().children(recursive=True)
    assert not [one for one in children if "wirebound.techniques.consistency.process" in one.cmdline()]
