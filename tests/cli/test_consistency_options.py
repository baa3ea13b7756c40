"""predict with --consistency, --compute-spread, --straggler and --seed."""

import json

import pytest

from wirebound.cli import main
from wirebound.model import Cluster, Link, method_named
from wirebound.model.compute_time import ComputeTime
from wirebound.model.library import builtin_workload
from wirebound.simulate.consistency_graphs import spectral_gap
from wirebound.simulate.consistency_job import simulate_job
from wirebound.simulate.consistency_protocols import consistency_named

JOB = ["predict", "--workload", "resnet50", "--gpus", "8", "--bandwidth", "10 Gbps", "--method", "wfbp-ps"]


@pytest.fixture
def wirebound(capsys):
    """Run the command line in this process: (exit code, standard output, standard error)."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main([*JOB, *arguments])
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return run


@pytest.fixture
def document(wirebound):
    """Run predict with --json and return its one document."""

    def run(*arguments):
        code, out, err = wirebound(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return run


def test_predict_says_what_the_simulation_says(document):
    found = document("--consistency", "ssp:3", "--compute-spread", "0.2", "--straggler", "2", "--seed", "7")
    expected = simulate_job(
        builtin_workload("resnet50"),
        Cluster(8, Link(1.25e9)),
        method_named("wfbp-ps"),
        consistency_named("ssp:3"),
        ComputeTime(1.0, "lognormal", 0.2, factors=(2.0,)),
        seed=7,
    )
    said = found["consistency"]
    assert (said["protocol"], said["compute_spread"], said["straggler"], said["seed"]) == ("ssp:3", 0.2, 2, 7)
    assert said["period_s"] == expected.period_s
    assert said["period_ci95_s"] == list(expected.period_interval_s)
    assert said["samples_per_s"] == expected.steps_per_s * 32
    assert said["waiting"]["max"] == max(expected.waiting)
    assert said["staleness_updates"]["mean"] == expected.staleness.mean
    assert said["age_clocks"]["max"] == 3
    assert said["steady"] is True
    assert "worker 0 computes 2 times as long" in found["assumptions"]


def test_nothing_changes_without_these_options(document):
    plain = document()
    assert "consistency" not in plain
    equal = document("--consistency", "bsp")
    said = equal.pop("consistency")
    assert said["period_s"] == pytest.approx(plain["iteration_s"], rel=1e-12)
    assert said["samples_per_s"] == pytest.approx(plain["samples_per_s"], rel=1e-12)
    assert equal.pop("assumptions")[:-1] == plain.pop("assumptions")
    assert equal == plain


def test_a_spread_or_a_straggler_alone_is_under_bsp(document):
    plain = document()
    said = document("--straggler", "3")["consistency"]
    assert said["protocol"] == "bsp"
    assert said["period_s"] == pytest.approx(plain["iteration_s"] + 2 * plain["compute_s"], rel=1e-12)
    assert document("--compute-spread", "0.1")["consistency"]["period_s"] > plain["iteration_s"]


def test_gossip_names_the_price_of_its_graph(document):
    graph = document("--consistency", "gossip:exponential")["consistency"]["graph"]
    assert graph["degree"] == 3
    assert graph["spectral_gap"] == spectral_gap("exponential", 8) == pytest.approx(0.5)
    assert graph["mixing_iterations"] == pytest.approx(3.3219, abs=1e-4)  # log2(10)


def test_accumulated_passes_count_as_samples(document):
    said = document("--consistency", "asp", "--accumulation", "4")["consistency"]
    assert said["samples_per_s"] == pytest.approx(said["steps_per_s"] * 32 * 4)


def test_for_people(wirebound):
    code, out, err = wirebound("--consistency", "asp", "--straggler", "2")
    assert (code, err) == (0, "")
    assert "  consistency     asp: a step every " in out
    assert "  staleness       7 updates of others missed on average" in out
    assert "  waiting         " in out
    assert "staleness" not in wirebound("--consistency", "bsp")[1]


def test_a_seed_alone_changes_nothing(wirebound):
    code, out, err = wirebound("--seed", "3")
    assert (code, err) == (0, "--seed changes nothing without --consistency, --compute-spread or --straggler\n")
    assert out == wirebound()[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--consistency", "sssp:3"], "unknown consistency protocol 'sssp'"),
        (["--consistency", "ssp"], "consistency 'ssp' needs a number: write ssp:3"),
        (["--consistency", "gossip:tours"], "did you mean 'torus'"),
        (["--consistency", "gossip:8"], "gossip:8 on 8 nodes: each has only 7 others"),
        (["--consistency", "asp", "--method", "ddp"], "asp needs parameter servers"),
        (["--consistency", "local-sgd:999999999"], "more than 10,000,000"),
        (["--compute-spread", "-0.1"], "--compute-spread -0.1"),
        (["--compute-spread", "nan"], "--compute-spread nan"),
        (["--straggler", "0.5"], "--straggler 0.5"),
        (["--straggler", "inf"], "--straggler inf"),
        (["--seed", "x"], "'x'"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(wirebound, arguments, complaint):
    code, out, err = wirebound(*arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1
