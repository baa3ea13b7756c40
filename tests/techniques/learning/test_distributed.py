"""Real runs of four processes: the same seed gives the same curve, bytes are those of the layouts, nothing hangs.

All runs are trained by one start of the processes.
"""

import dataclasses
import json

import pytest
import torch

from wirebound.errors import InputError
from wirebound.model import Compressor, Tensor, Workload
from wirebound.simulate.compressors import compressor_named, gradient_of, payload_bytes
from wirebound.techniques.compress.topk import TopK
from wirebound.techniques.learning.data import data_set, load, save
from wirebound.techniques.learning.distributed import train_runs
from wirebound.techniques.learning.evaluation import endless_batches, evaluate, shard
from wirebound.techniques.learning.journal import append, read
from wirebound.techniques.learning.models import learning_model, mean_loss
from wirebound.techniques.learning.runs import Curve, LearningRun, Point, curve_of
from wirebound.techniques.learning.train import settings_of

PLAIN = LearningRun("digits", "mlp", steps=12, learning_rate=0.05, seed=3, points=4)
SPARSE = ("topk:0.01", "randomk:0.01", "qsgd:16", "onebit", "dgc:0.01")
#: The first step sends the weights beyond all bounds: later gradients are infinite or not a number.
WILD = dataclasses.replace(PLAIN, learning_rate=1e30)


def coded(run: LearningRun, text: str, **more: object) -> LearningRun:
    return dataclasses.replace(run, compressor=compressor_named(text), **more)


RUNS = [
    PLAIN,
    dataclasses.replace(PLAIN, momentum=0.8),
    *(coded(PLAIN, text) for text in SPARSE),
    coded(PLAIN, "powersgd:2"),
    coded(PLAIN, "topk:0.01", error_feedback=False),
    coded(PLAIN, "dgc:0.01", warm_up_steps=2),
    WILD,
    *(coded(WILD, text) for text in ("topk:0.01", "qsgd:16", "powersgd:4", "gtopk:0.01", "signsgd")),
]


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    return tmp_path_factory.mktemp("learning") / "curves.jsonl"


@pytest.fixture(scope="module")
def curves(journal):
    return dict(zip(RUNS, train_runs(RUNS, journal=journal, time_limit_s=280), strict=True))


def test_uncompressed_training_is_that_of_one_worker_with_the_whole_batch(curves):
    """The mean of four workers' gradients is the gradient of their batches together."""
    data = data_set("digits")
    model = learning_model("mlp", data, PLAIN.seed)
    sources = [endless_batches(*shard(data, rank, 4), 16, 4 * PLAIN.seed + rank) for rank in range(4)]
    velocity = [torch.zeros_like(parameter) for parameter in model.parameters()]
    losses = {0: evaluate(model, data).loss}
    for step in range(1, PLAIN.steps + 1):
        batches = [next(source) for source in sources]
        model.zero_grad()
        mean_loss(model, *(torch.cat(part) for part in zip(*batches, strict=True))).backward()
        with torch.no_grad():
            for parameter, moving in zip(model.parameters(), velocity, strict=True):
                moving.mul_(0.9).add_(parameter.grad)
                parameter.sub_(moving, alpha=0.05)
        losses[step] = evaluate(model, data).loss
    points = curves[PLAIN].points
    assert [point.step for point in points] == [0, 3, 6, 9, 12]
    assert [point.loss for point in points] == pytest.approx([losses[point.step] for point in points], rel=1e-4)
    assert points[-1].accuracy > 0.5


@pytest.mark.parametrize("text", ["none", *SPARSE, "powersgd:2"])
def test_bytes_are_those_of_the_documented_layout(curves, text):
    shapes = [tuple(parameter.shape) for parameter in learning_model("mlp", data_set("digits"), 0).parameters()]
    tensors = [
        Tensor(f"t{n}", 4 * shape.numel(), 0.001, shape=shape) for n, shape in enumerate(map(torch.Size, shapes))
    ]
    workload = Workload("mlp", 1, tuple(tensors), forward_s=0.001)
    dense = workload.size
    if text == "none":
        curve, step_bytes = curves[PLAIN], dense
    else:
        compressor = compressor_named(text)
        curve = curves[coded(PLAIN, text)]
        sizes = [payload_bytes(compressor, gradient_of(workload, tensor)) for tensor in tensors]
        step_bytes = sum(tensor.size if size is None else size for tensor, size in zip(tensors, sizes, strict=True))
    first = 2 if text.startswith("powersgd") else 0  # torch's hook compresses from the third step on
    expected = [max(0, point.step - first) * step_bytes + min(point.step, first) * dense for point in curve.points]
    assert [point.sent_bytes for point in curve.points] == expected


def test_settings_change_what_they_should(curves):
    topk, forgetful = (curves[coded(PLAIN, "topk:0.01", error_feedback=on)] for on in (True, False))
    assert [point.sent_bytes for point in topk.points] == [point.sent_bytes for point in forgetful.points]
    assert [point.loss for point in topk.points] != [point.loss for point in forgetful.points]
    cold, warm = curves[coded(PLAIN, "dgc:0.01")], curves[coded(PLAIN, "dgc:0.01", warm_up_steps=2)]
    assert warm.points[1].sent_bytes > 6 * cold.points[1].sent_bytes  # 25, 25 and 6.25 % of the values, not 1 %
    growth = [curve.points[-1].sent_bytes - curve.points[-2].sent_bytes for curve in (cold, warm)]
    assert growth[0] == growth[1]
    assert curves[PLAIN].points[-1].loss != curves[dataclasses.replace(PLAIN, momentum=0.8)].points[-1].loss


def test_runs_that_diverge_are_told_and_the_next_ones_go_on(curves):
    wild = [run for run in RUNS if run.learning_rate == WILD.learning_rate]
    assert all(1 <= curves[run].diverged_at <= 3 for run in wild)
    assert all([point.step for point in curves[run].points] == [0] for run in wild)
    assert all(curves[run].last_accuracy == 0 for run in wild)
    assert all(curves[run].diverged_at is None for run in RUNS if run not in wild)


def test_the_same_seed_gives_the_same_curve_and_what_is_kept_is_not_trained_again(curves, journal, tmp_path):
    again = [PLAIN, coded(PLAIN, "qsgd:16"), coded(PLAIN, "powersgd:2"), coded(PLAIN, "topk:0.01")]
    other = dataclasses.replace(PLAIN, seed=4)
    trained = train_runs([*again, other], time_limit_s=280)
    assert [curve.points for curve in trained[:-1]] == [curves[run].points for run in again]
    assert trained[-1].points != curves[PLAIN].points
    before = journal.read_bytes()
    assert train_runs(again, journal=journal) == [curves[run] for run in again]
    assert journal.read_bytes() == before


def test_a_journal_that_was_cut_off_loses_one_curve(tmp_path):
    journal = tmp_path / "curves.jsonl"
    curve = Curve(coded(PLAIN, "qsgd:16"), (Point(0, 0.0, 2.3, 0.1), Point(3, 90.0, 1.5, 0.4)), None, 1.5)
    assert read(journal) == []
    append(journal, curve)
    with journal.open("a", encoding="utf-8") as stream:
        stream.write("\n" + json.dumps(curve.fields())[:40])
    append(journal, dataclasses.replace(curve, diverged_at=4))
    assert read(journal) == [curve, dataclasses.replace(curve, diverged_at=4)]
    assert curve_of(json.loads(json.dumps(curve.fields()))) == curve


def test_data_survive_a_file(tmp_path):
    data = data_set("digits")
    save(data, tmp_path / "digits.pt")
    assert load(tmp_path / "digits.pt").sha256 == data.sha256


def test_marks_are_spread_and_end_with_the_last_step():
    assert dataclasses.replace(PLAIN, steps=10, points=3).marks == (3, 7, 10)
    assert dataclasses.replace(PLAIN, steps=2, points=9).marks == (1, 2)


def test_without_error_feedback_nothing_is_kept():
    compressor = settings_of(coded(PLAIN, "topk:0.5", error_feedback=False))
    assert compressor == TopK(0.5, error_feedback=False)
    for text in ("topk:0.5", "randomk:0.5", "onebit", "ef-signsgd"):
        forgetful = settings_of(coded(PLAIN, text, error_feedback=False))
        gradient, state = torch.tensor([1.0, -3.0, 0.5, 2.0]), forgetful.new_state(0, 0, 0)
        first = forgetful.decode(forgetful.encode(gradient, state), (4,))
        assert state.residual is None
        if text != "randomk:0.5":  # draws other places every time
            assert torch.equal(forgetful.decode(forgetful.encode(gradient, state), (4,)), first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps = 0"),
        ({"learning_rate": float("nan")}, "learning rate = nan"),
        ({"momentum": 1.0}, "momentum = 1.0"),
        ({"test_samples": 3}, "test samples = 3"),
        ({"warm_up_steps": 3}, "choose dgc"),
        ({"model": "transformer"}, "transformer is for text only"),
        ({"data": "mnits"}, "mnits"),
        ({"compressor": Compressor("topkk", 0.1)}, "topkk"),
        ({"compressor": Compressor("fp16"), "error_feedback": False}, "fp16 has no error feedback"),
    ],
)
def test_mistakes_are_named_before_anything_starts(change, message):
    with pytest.raises(InputError, match=message):
        train_runs([dataclasses.replace(PLAIN, **change)])


def test_runs_of_different_sizes_are_refused():
    with pytest.raises(InputError, match="2, 4 workers"):
        train_runs([PLAIN, dataclasses.replace(PLAIN, workers=2)])
