"""--collective and --nics-per-node of predict, need and messages."""

import json

import pytest

from wirebound.model import Cluster, Link, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.step import simulate_step

JOB = ["--workload", "resnet50", "--gpus", "64", "--bandwidth", "10 Gbps", "--method", "wfbp-a2a"]
JOB += ["--latency", "20 us", "--gpus-per-node", "4", "--intra-bandwidth", "100 Gbps"]


@pytest.mark.parametrize(
    ("collective", "says"),
    [
        ("ring", "a ring over the nodes' shared links"),
        ("flat-ring", "one flat ring of all P workers"),
        ("byteps:20", "extra servers: 20, at most one a node;"),
        ("byteps", "extra servers: as many as nodes;"),
        ("in-network:128x256", "for free, with 128 slots of 256 B, each taken for twice the latency"),
        ("in-network:@30us", "512 slots of 256 B, each taken for 30 us"),
        ("blueconnect", "a stage for each prime factor of the nodes"),
        ("blueconnect:4x4", "stages of 4x4 nodes"),
        ("tree", "then a tree over"),
        ("tree", "fills in no time"),
        ("auto", "then an automatic choice over"),
        ("pipelined-tree", "the best number of pieces"),
        ("auto:nccl", "the fastest of ring, pipelined-tree"),
    ],
)
def test_predict_with_a_collective_says_what_the_engine_says(wirebound, collective, says):
    code, out, err = wirebound("predict", *JOB, "--collective", collective, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    cluster = Cluster(16, Link(1.25e9, 2e-5), 4, Link(12.5e9))
    step = simulate_step(builtin_workload("resnet50"), cluster, method_named("wfbp-a2a", collective=collective))
    assert found["iteration_s"] == step.iteration_s
    assert found["node_wire_bytes"] == step.node_wire_bytes
    assert found["job"]["collective"] == collective
    assert says in "; ".join(found["assumptions"])
    assert sum(row["messages"] for row in found["collectives"]) == found["messages"]
    assert sum(row["bytes"] for row in found["collectives"]) == found["job"]["gradient_bytes"]


def test_predict_tells_which_collective_carried_what(wirebound):
    code, out, _ = wirebound("predict", *JOB, "--collective", "auto", "--json")
    rows = json.loads(out)["collectives"]
    assert code == 0
    assert len(rows) > 1
    code, out, _ = wirebound("predict", *JOB, "--collective", "auto")
    assert "wfbp-a2a with auto" in out
    for row in rows:
        assert f"{row['name']} {row['messages']} message" in out


def test_cards_of_a_node(wirebound):
    code, out, _ = wirebound("predict", *JOB, "--nics-per-node", "4", "--json")
    found = json.loads(out)
    cluster = Cluster(16, Link(1.25e9, 2e-5), 4, Link(12.5e9), 4)
    step = simulate_step(builtin_workload("resnet50"), cluster, method_named("wfbp-a2a"))
    assert code == 0
    assert (found["iteration_s"], found["link_utilization"]) == (step.iteration_s, step.link_utilization)
    assert found["job"]["nics_per_node"] == 4
    assert "the nodes' 4 network cards, 1/4 of it each" in "; ".join(found["assumptions"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--collective", "rign"], "--collective: unknown collective 'rign': did you mean 'ring'"),
        (["--collective", "byteps:x"], "--collective: collective 'byteps:x': 'x' is not a whole number"),
        (["--collective", "blueconnect:3x5"], "'blueconnect:3x5' is for 15 nodes, not for 16"),
        (["--nics-per-node", "3"], "--nics-per-node 3 does not divide --gpus-per-node 4"),
        (["--nics-per-node", "0"], "--nics-per-node 0 must be between 1"),
    ],
)
@pytest.mark.parametrize("command", [["predict"], ["messages"], ["need", "--target", "0.9", "--solve", "compression"]])
def test_mistakes_are_one_line(wirebound, command, options, message):
    code, out, err = wirebound(*command, *JOB, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_servers_take_no_collective(wirebound):
    job = ["wfbp-ps" if word == "wfbp-a2a" else word for word in JOB]
    code, out, err = wirebound("predict", *job, "--collective", "tree", "--nics-per-node", "2", "--json")
    found = json.loads(out)
    assert (code, err.strip()) == (0, "--collective changes nothing with the method wfbp-ps")
    assert (found["job"]["collective"], found["collectives"]) == (None, [])
    assert "2 network cards, 1/2 of it each; they have as many" in "; ".join(found["assumptions"])


def test_more_cards_need_less_bandwidth_and_messages_know_the_collective(wirebound):
    answers = []
    for options in ([], ["--nics-per-node", "4"], ["--collective", "flat-ring"]):
        code, out, _ = wirebound(
            "need", *JOB, *options, "--latency", "1 us", "--target", "0.5", "--solve", "bandwidth", "--json"
        )
        assert code == 0
        answers.append(json.loads(out)["value"])
    assert answers[1] < answers[0] < answers[2]
    ends = []
    for name in ("ring", "auto"):
        _, out, _ = wirebound("messages", *JOB, "--collective", name, "--json")
        ends.append(json.loads(out)["messages"][-1]["end_s"])
    assert ends[1] < ends[0]
