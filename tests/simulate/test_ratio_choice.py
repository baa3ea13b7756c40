"""The choice of what to compress: against every possible choice, closed forms, and what no search may do."""

import itertools
import random
from dataclasses import replace

import pytest

from wirebound.errors import InputError
from wirebound.model import Cluster, Codec, Link, method_named
from wirebound.simulate.compressors import compressor_named
from wirebound.simulate.ratio_choice import choose_ratios, lost_values
from wirebound.simulate.step import simulate_step

from .jobs import UNIT_CLUSTER, made

WFBP = method_named("wfbp-a2a")
#: On two workers an all-gather of half the bytes (a quarter of the values) takes half of a ring's S seconds.
QUARTER = compressor_named("topk:0.25")


def every_choice(workload, cluster, method, options):
    """(seconds, values lost, option of each tensor) of all choices, each simulated on its own."""
    losses = [lost_values(workload, option) for option in (None, *options)]
    for chosen in itertools.product(range(len(options) + 1), repeat=len(workload.tensors)):
        pairs = tuple(
            (tensor.name, options[option - 1])
            for tensor, option in zip(workload.tensors, chosen, strict=True)
            if option
        )
        step = simulate_step(workload, cluster, replace(method, compressors_by_tensor=pairs))
        yield step.iteration_s, sum(losses[option][at] for at, option in enumerate(chosen)), chosen


def random_job(seed, tensors, shares=(0.1, 0.02)):
    """A job in which about a third of the best choices compress some tensors and not others."""
    draw = random.Random(seed)
    sizes = [4 * draw.randint(1, 400) for _ in range(tensors)]
    workload = made([draw.uniform(0, 1) for _ in sizes], sizes, forward_s=0.1)
    cluster = Cluster(draw.choice([2, 4, 8]), Link(draw.uniform(1000, 6000), draw.uniform(0, 0.02)))
    codec = Codec(draw.uniform(0, 0.05), draw.uniform(0, 3e-4), 0.0, draw.uniform(0, 3e-5))
    options = [compressor_named(f"dgc:{share}", codec) for share in shares]
    return workload, cluster, method_named(draw.choice(["wfbp-a2a", "bsp-a2a", "ddp", "wfbp-ps"])), options


@pytest.mark.parametrize(("tensors", "shares", "enough"), [(4, (0.1, 0.02), 24), (6, (0.1,), 21), (7, (0.02,), 21)])
def test_against_every_choice(tensors, shares, enough):
    """Never better than the best of all choices, at most 10 % longer, and nearly always the best in both aims."""
    best = 0
    for seed in range(24):
        workload, cluster, method, options = random_job(seed, tensors, shares)
        choice = choose_ratios(workload, cluster, method, options)
        all_choices = list(every_choice(workload, cluster, method, options))
        shortest_s = min(seconds for seconds, _, _ in all_choices)
        fewest = min(lost for seconds, lost, _ in all_choices if seconds <= shortest_s * (1 + 1e-9))
        ratio = choice.step.iteration_s / shortest_s
        assert 1 - 1e-9 <= ratio <= 1.1
        best += ratio <= 1 + 1e-9 and round(choice.lost_share * workload.size / 4) == fewest
    assert best >= enough


def test_only_what_is_exposed_is_compressed():
    """Ready at 100, 200, 300 s, 80 s on the wire each: the first two are hidden, the last is halved (free coding)."""
    workload = made([100.0, 100.0, 100.0], [80, 80, 80])
    choice = choose_ratios(workload, UNIT_CLUSTER, WFBP, [QUARTER])
    assert [name for name, _ in choice.compressors_by_tensor] == ["t2"]
    assert choice.step.iteration_s == pytest.approx(300 + 80 / 2)
    assert choice.compressed_share == pytest.approx(1 / 3)
    assert choice.lost_share == pytest.approx(1 / 4)  # 15 of its 20 values


def test_a_queue_is_shortened_where_it_counts():
    """Both wait for the same link: halving either saves the same, and both are needed."""
    workload = made([10.0, 0.0], [800, 800])
    choice = choose_ratios(workload, UNIT_CLUSTER, WFBP, [QUARTER])
    assert len(choice.compressors_by_tensor) == 2
    assert choice.step.iteration_s == pytest.approx(10 + 800)


def test_nothing_is_lost_where_nothing_is_exposed():
    workload = made([10.0, 10.0], [8, 8], optimizer_s=1.0)
    fast = Cluster(2, Link(1e12))
    choice = choose_ratios(workload, fast, WFBP, [QUARTER], within=1e-6)
    assert choice.compressors_by_tensor == ()
    assert choice.lost_share == choice.compressed_share == 0


def test_coding_that_costs_more_than_the_network_is_left_out():
    workload = made([10.0, 10.0], [800, 800])
    slow = replace(QUARTER, codec=Codec(encode_s=2000.0))
    choice = choose_ratios(workload, UNIT_CLUSTER, WFBP, [slow])
    assert choice.compressors_by_tensor == ()
    assert choice.step.iteration_s == simulate_step(workload, UNIT_CLUSTER, WFBP).iteration_s


@pytest.mark.parametrize("seed", range(6))
def test_never_slower_than_nothing_or_everything_and_no_single_change_helps(seed):
    workload, cluster, method, options = random_job(1000 + seed, 9)
    choice = choose_ratios(workload, cluster, method, options)
    seconds = choice.step.iteration_s
    assert seconds == simulate_step(workload, cluster, choice.applied_to(method)).iteration_s
    assert seconds <= simulate_step(workload, cluster, method).iteration_s * (1 + 1e-9)
    losses = {None: lost_values(workload, None)} | {o: lost_values(workload, o) for o in options}
    chosen = dict(choice.compressors_by_tensor)
    for option in options:
        assert seconds <= simulate_step(workload, cluster, replace(method, compressor=option)).iteration_s * (1 + 1e-9)
    for at, tensor in enumerate(workload.tensors):
        now = chosen.get(tensor.name)
        for option in (None, *options):
            other = replace(method, compressors_by_tensor=tuple((chosen | {tensor.name: option}).items()))
            other_s = simulate_step(workload, cluster, other).iteration_s
            if losses[option][at] < losses[now][at]:
                assert other_s > seconds * (1 + 1e-10)


@pytest.mark.parametrize("within", [0.01, 0.1])
def test_a_longer_step_is_traded_for_fewer_lost_values(within):
    workload, cluster, method, options = random_job(7, 8)
    shortest = choose_ratios(workload, cluster, method, options)
    traded = choose_ratios(workload, cluster, method, options, within=within)
    assert traded.step.iteration_s <= shortest.step.iteration_s * (1 + within) * (1 + 1e-9)
    assert traded.lost_share <= shortest.lost_share


def test_lost_values_of_each_kind():
    workload = made([1.0, 1.0], [40, 4000])
    two = made([1.0, 1.0], [8, 4000])
    assert lost_values(workload, None) == (0, 0)
    assert lost_values(workload, compressor_named("topk:0.01")) == (9, 990)
    assert lost_values(workload, compressor_named("fp16")) == (10, 1000)
    assert lost_values(two, compressor_named("powersgd:1")) == (0, 1000)  # two values are a vector: uncompressed


def test_mistakes():
    workload = made([1.0], [4])
    with pytest.raises(InputError, match="no compressor"):
        choose_ratios(workload, UNIT_CLUSTER, WFBP, [])
    with pytest.raises(InputError, match="compresses already"):
        choose_ratios(workload, UNIT_CLUSTER, replace(WFBP, compressor=QUARTER), [QUARTER])
    with pytest.raises(InputError, match="within"):
        choose_ratios(workload, UNIT_CLUSTER, WFBP, [QUARTER], within=-1)
