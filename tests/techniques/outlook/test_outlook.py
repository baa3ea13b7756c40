"""Rounds, exchange, training and correlation against closed forms and against torch's own SGD."""

import math

import pytest
import torch

from wirebound.errors import InputError, WireboundError
from wirebound.techniques.compress.difference import Difference
from wirebound.techniques.compress.ef_signsgd import EfSignSgd
from wirebound.techniques.compress.onebit import OneBit
from wirebound.techniques.compress.randomk import RandomK
from wirebound.techniques.compress.topk import TopK
from wirebound.techniques.learning.data import data_set
from wirebound.techniques.learning.evaluation import endless_batches, shard
from wirebound.techniques.learning.models import learning_model, mean_loss
from wirebound.techniques.outlook import rounds
from wirebound.techniques.outlook.correlation import TimeCorrelation, neighbour_correlation
from wirebound.techniques.outlook.exchange import ByTensor, Exchange
from wirebound.techniques.outlook.train import Job, sizes_of, train

JOB = Job("digits", "mlp", workers=3, batch_size=8, steps=12, learning_rate=0.1, decay_steps=(8,))
DENSE = ByTensor({})


def gaussian(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_dense_training_equals_torchs_sgd_on_the_whole_batch():
    data, model = data_set("digits"), learning_model("mlp", data_set("digits"), 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [8])
    batches = [endless_batches(*shard(data, worker, 3), 8, seed=worker) for worker in range(3)]
    losses = []
    for _ in range(12):
        pairs = [next(batch) for batch in batches]
        loss = mean_loss(model, torch.cat([pair[0] for pair in pairs]), torch.cat([pair[1] for pair in pairs]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    curve = train(JOB, DENSE)
    assert curve.train_loss == pytest.approx(losses[-1], rel=1e-4)
    with torch.no_grad():
        test_loss = mean_loss(model, data.test_inputs, data.test_targets).item()
    assert curve.last.loss == pytest.approx(test_loss, rel=1e-4)
    assert curve.sent_bytes == curve.dense_bytes == 12 * 3 * 4 * sum(sizes_of(JOB).values())


def test_momentum_at_the_sender_is_the_same_without_compression():
    at_sender = train(Job("digits", "mlp", steps=10, momentum_at="sender"), DENSE)
    at_receiver = train(Job("digits", "mlp", steps=10), DENSE)
    assert at_sender.last.loss == pytest.approx(at_receiver.last.loss, rel=1e-4)


def test_sending_everything_as_a_difference_changes_nothing():
    curve = train(JOB, ByTensor({}, Difference(TopK(1.0))))
    assert curve.last.loss == pytest.approx(train(JOB, DENSE).last.loss, rel=1e-4)
    assert curve.sent_bytes == 2 * curve.dense_bytes  # an index for each value


def test_the_same_seed_gives_the_same_curve_and_another_seed_another():
    plan = ByTensor({}, TopK(0.01))
    first = train(JOB, plan, evaluate_every=5)
    assert first == train(JOB, plan, evaluate_every=5)
    assert [point.step for point in first.points] == [5, 10, 12]
    assert first != train(Job("digits", "mlp", seed=1, steps=12), plan, evaluate_every=5)


def test_only_the_tensors_that_a_plan_names_are_compressed():
    sizes = sizes_of(JOB)
    largest = max(sizes, key=sizes.get)
    curve = train(JOB, ByTensor({largest: TopK(0.01)}))
    kept = math.ceil(0.01 * sizes[largest])
    assert curve.sent_bytes == 12 * 3 * (4 * (sum(sizes.values()) - sizes[largest]) + 8 * kept)


@pytest.mark.parametrize("compressor", [TopK(0.1), RandomK(0.1), OneBit(), EfSignSgd()], ids=lambda c: type(c).__name__)
def test_a_tensor_that_is_sent_whole_takes_along_what_was_kept(compressor):
    """With error feedback nothing is lost: what all steps brought adds up to all gradients."""

    class Alternating(ByTensor):
        def compressor(self, name, step):
            return compressor if step % 3 else None

    exchange = Exchange(Alternating({}), workers=2)
    gradients = [[gaussian((50,), 2 * step + worker) for worker in range(2)] for step in range(7)]
    total = torch.stack([exchange.mean("t", step, pair) for step, pair in enumerate(gradients)]).sum(0)
    expected = torch.stack([torch.stack(pair).mean(0) for pair in gradients]).sum(0)
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-5)


def test_schedules_send_the_same_bytes_in_another_order():
    counts = {"a": [100, 100, 5, 5, 100, 5, 5], "b": [7, 1, 1, 1, 1, 1, 1]}
    schedules = [rounds.early(counts), rounds.late(counts), rounds.constant(counts)]
    assert schedules[0]["a"] == [100, 100, 100, 5, 5, 5, 5]
    assert schedules[1]["a"] == [5, 5, 5, 5, 100, 100, 100]
    for schedule in schedules:
        assert {name: sum(steps) for name, steps in schedule.items()} == {"a": 320, "b": 13}
    assert max(schedules[2]["a"]) - min(schedules[2]["a"]) <= 1


@pytest.mark.parametrize("elements", [1, 3, 7, 10, 1000, 100_352])
def test_top_keeps_exactly_so_many(elements):
    for count in {1, elements // 3 or 1, elements - 1 or 1, elements}:
        compressor = rounds.top(count, elements)
        assert compressor.encode(gaussian((elements,)), compressor.new_state(0, 0, 0)).nbytes == 8 * count
    with pytest.raises(InputError, match="cannot be kept"):
        rounds.top(elements + 1, elements)


def test_accordion_by_hand():
    """Norms of the windows 4, 1, 1.2, 0.3: a change of half or more makes the next window mild."""
    plan = rounds.Accordion({"t": 100}, mild=0.5, strong=0.01, window=2, threshold=0.5)
    for step, norm in enumerate([2, 2, 0.5, 0.5, 0.6, 0.6, 0.15, 0.15, 0.15, 0.15]):
        plan.compressor("t", step)
        mean = torch.zeros(100)
        mean[0] = norm
        plan.observe("t", step, mean)
    assert plan.counts["t"] == [50, 50, 50, 50, 50, 50, 1, 1, 50, 50]


def test_accordion_is_mild_when_the_learning_rate_falls():
    plan = rounds.Accordion({"t": 100}, mild=0.5, strong=0.01, window=2, decay_steps=(7,))
    for step in range(10):
        plan.compressor("t", step)
        plan.observe("t", step, torch.ones(100))
    assert plan.counts["t"] == [50, 50, 50, 50, 1, 1, 50, 50, 1, 1]


def test_accordions_counts_replayed_give_the_same_training():
    sizes = sizes_of(JOB)
    plan = rounds.Accordion(sizes, mild=0.2, strong=0.01, window=3)
    adaptive = train(JOB, plan)
    assert adaptive == train(JOB, rounds.Scheduled(plan.counts, sizes))
    early = train(JOB, rounds.Scheduled(rounds.early(plan.counts), sizes))
    assert early.sent_bytes == adaptive.sent_bytes


def test_correlation_of_made_gradients():
    """At an angle of 60° with equal norms the difference has the energy of the gradient; at 0° none, at 180° four."""
    half, root = 0.5, math.sqrt(3) / 2
    watch = TimeCorrelation()
    for step, vector in enumerate([(1.0, 0.0), (half, root), (half, root), (-half, -root), (0.0, 0.0), (1.0, 0.0)]):
        watch(step, {"t": [torch.tensor(vector)]})
    assert [row[0] for row in watch.rows] == [1, 2, 3]
    assert [row[2] for row in watch.rows] == pytest.approx([0.5, 1.0, -1.0])
    assert [row[3] for row in watch.rows] == pytest.approx([1.0, 0.0, 4.0], abs=1e-6)
    assert [row[4] for row in watch.rows] == pytest.approx([1.0, 1.0, 1.0])


def test_neighbours():
    assert neighbour_correlation(torch.ones(5)) is None
    assert neighbour_correlation(torch.ones(5, 1)) is None
    assert neighbour_correlation(torch.ones(5, 3)) is None  # constant: no correlation is defined
    assert neighbour_correlation(torch.arange(10.0).view(1, 10)) == pytest.approx(1.0)
    assert neighbour_correlation(torch.tensor([[1.0, -1.0, 1.0, -1.0]])) == pytest.approx(-1.0)
    assert abs(neighbour_correlation(gaussian((200, 200)))) < 0.03


def test_mistakes():
    with pytest.raises(InputError, match="workers"):
        Job("digits", "mlp", workers=0)
    with pytest.raises(InputError, match="momentum"):
        Job("digits", "mlp", momentum=1.0)
    with pytest.raises(InputError, match="window"):
        rounds.Accordion({}, mild=0.1, strong=0.01, window=0)
    with pytest.raises(InputError, match="strong"):
        rounds.Accordion({}, mild=0.1, strong=0.2, window=1)
    with pytest.raises(WireboundError, match="infinite or not a number"):
        train(Job("digits", "mlp", learning_rate=1e6, steps=30), ByTensor({}, TopK(0.5)))
