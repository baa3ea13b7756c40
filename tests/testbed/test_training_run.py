"""Models really train on slowed links, after their predictions were written; what is reported is what happened."""

import hashlib
import json
from pathlib import Path

import psutil
import pytest

from wirebound.cli import main as cli
from wirebound.simulate.compressors import compressor_named
from wirebound.testbed.tiers import default_tier
from wirebound.testbed.training_case import TrainingCase, training_method
from wirebound.testbed.training_run import TrainingRun, run_training
from wirebound.testbed_figures import write_figures

MBPS = 125_000.0
RATE_BPS = 200 * MBPS
MLP_BYTES, MLP_TENSORS = 820_874 * 4, 6
#: Pacing lets the first packets after a pause pass at once.
BURSTS = 0.9
needs_rates = pytest.mark.skipif(default_tier() == "loopback", reason="no tier of this system limits the rate")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainingRun, Path]:
    out = tmp_path_factory.mktemp("training") / "run"
    methods = [
        training_method("ddp"),
        training_method("wfbp-a2a"),
        training_method("mg-wfbp"),
        training_method("bytescheduler-a2a"),
        training_method("ddp", compressor=compressor_named("topk:0.01")),
        training_method("bsp-ps"),
    ]
    cases = [TrainingCase("mlp", 4, 2, RATE_BPS, method) for method in methods]
    run = run_training(cases, tier=default_tier(), out=out, steps=4, profile_steps=4, calibration_rate_Bps=400 * MBPS)
    write_figures(out, run.document, run.predictions_document)
    return run, out


@needs_rates
def test_predictions_are_written_before_the_first_worker_starts(done: tuple[TrainingRun, Path]):
    run, out = done
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    file = out / "predictions.json"
    assert results["predictions_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert results["predictions_written_unix_s"] == file.stat().st_mtime < results["workers_started_unix_s"]
    assert results["workers_started_unix_s"] < results["measured_unix_s"]
    predictions = json.loads(file.read_text(encoding="utf-8"))["predictions"]
    keys = ("model", "ranks", "servers", "rate_Bps", "method", "compressor")
    assert [[case[key] for key in keys] for case in predictions] == [
        [case[key] for key in keys] for case in results["cases"]
    ]
    assert [case["iteration_s"] for case in predictions] == [case["predicted_s"] for case in results["cases"]]
    assert results == json.loads(json.dumps(run.document))
    assert all(case["held_out"] for case in results["cases"])


@needs_rates
def test_no_process_is_left(done: tuple[TrainingRun, Path]):
    left = [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    assert not [child for child in left if "wirebound.testbed.worker" in child.cmdline()]


@needs_rates
def test_traffic_is_really_limited(done: tuple[TrainingRun, Path]):
    """A ring of two sends each gradient once; a server's link carries those of two workers, there and back."""
    run, _ = done
    for case in run.document["cases"]:
        if case["compressor"] is None:
            times = 4 if case["servers"] else 1
            assert case["measured_s"] > BURSTS * times * MLP_BYTES / RATE_BPS
    plain, compressed = run.trained[0].measured_s, run.trained[4].measured_s
    assert compressed < plain  # a hundredth of the values, with their places


@needs_rates
def test_every_message_is_seen_with_its_bytes_and_its_order(done: tuple[TrainingRun, Path]):
    run, _ = done
    for prediction, trained in zip(run.predictions, run.trained, strict=True):
        kinds = {message.kind for message in trained.messages}
        assert kinds == ({"push", "pull"} if prediction.case.servers else {"all-reduce"})
        for kind in kinds:
            mine = [message for message in trained.messages if message.kind == kind]
            assert sum(message.size for message in mine) == MLP_BYTES
            assert {tensor for message in mine for tensor in message.tensors} == set(range(MLP_TENSORS))
            assert len(mine) == len(prediction.step.messages)
        for message in trained.messages:
            assert message.end_s > message.start_s
            assert message.start_s >= message.ready_s or message.kind == "pull"
    wfbp, bytescheduler = run.trained[1], run.trained[3]
    assert [message.tensors for message in wfbp.messages] == [(tensor,) for tensor in range(MLP_TENSORS)]
    assert len(bytescheduler.messages) > MLP_TENSORS  # the first layer is sent in partitions


@needs_rates
def test_predictions_are_near_where_the_link_decides(done: tuple[TrainingRun, Path]):
    """A wide band, for the machine may be busy; the mlp computes some milliseconds and sends for a hundred."""
    run, _ = done
    for case in run.document["cases"][:4]:
        assert 0.5 < case["predicted_s"] / case["measured_s"] < 1.2


@needs_rates
def test_figures_are_written_beside(done: tuple[TrainingRun, Path]):
    _, out = done
    for name in ("comparison.svg", "timeline.svg"):
        assert (out / name).read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--kind", "trainin"], "did you mean 'training'"),
        (["--models", "mlp"], "--models is for training: add --kind training"),
        (["--kind", "training", "--workload", "vgg16"], "--workload is for replays"),
        (["--kind", "training", "--models", "resnet2"], "--models: unknown model 'resnet2': did you mean 'resnet20'"),
        (["--kind", "training", "--models", "mlp:x"], "--models: 'mlp:x' has no batch size after the colon"),
        (["--kind", "training", "--methods", "horovod"], "--methods: unknown method 'horovod'"),
        (["--kind", "training", "--compressor", "topk"], "--compressor: compressor 'topk' needs the share"),
        (["--kind", "training", "--ranks", "1"], "ranks = 1 must be between 2"),
        (["--kind", "training", "--batch", "1"], "--batch: batch size 1 must be between 2"),
        (["--kind", "training", "--bucket-cap", "1"], "--bucket-cap: size '1' has no unit"),
        (["--kind", "training", "--rates", "1 bps"], "must be between 1 Mbps and 100 Gbps"),
        (["--kind", "training", "--calibrate-at", "fast"], "--calibrate-at: 'fast' is not a bandwidth"),
        (["--kind", "training", "--tier", "loopback"], "cannot limit the rate"),
    ],
)
def test_a_mistake_is_one_line(options: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as end:
        cli(["testbed", "run", "--out", str(tmp_path / "run"), *options])
    said = capsys.readouterr()
    assert (end.value.code, said.out, len(said.err.splitlines())) == (2, "", 1)
    assert named in said.err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_something_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "mine.txt").write_text("kept", encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        cli(["testbed", "run", "--kind", "training", "--out", str(tmp_path)])
    assert end.value.code == 2
    assert "name a new or an empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
