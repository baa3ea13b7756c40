"""Times over the batch: really measured here, read back, and what the recorded ones say."""

import json
from pathlib import Path

import pytest

from wirebound.errors import InputError
from wirebound.fit.batches import fit_batch_scaling
from wirebound.study.record_batches import BATCHES, load_batches, main, record_batches

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "batch_times_cpu_2core.json"


def test_a_recording_has_every_round_of_every_batch(tmp_path):
    pytest.importorskip("torch")
    out = tmp_path / "B.json"
    assert main(["--out", str(out), "--batches", "4,2", "--rounds", "2"]) == 0
    samples = load_batches(out)
    assert [one.batch_size for one in samples] == [2, 4]
    for one in samples:
        assert len(one.forward_s) == len(one.backward_s) == 2
        assert min(one.forward_s + one.backward_s) > 0
    assert "machine" in json.loads(out.read_text(encoding="utf-8"))


@pytest.mark.parametrize("arguments", [["--batches", "2,x"], ["--batches", "0,1"], ["--rounds", "0"]])
def test_mistakes_are_one_line_and_write_nothing(arguments, tmp_path, capsys):
    assert main(["--out", str(tmp_path / "B.json"), *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_no_batches_are_refused():
    with pytest.raises(InputError, match="batch sizes and rounds of 1"):
        record_batches([])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "wirebound-batches", "batches": [1]}'])
def test_another_file_is_refused(text, tmp_path):
    (tmp_path / "B.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"B\.json: is no recording of batches"):
        load_batches(tmp_path / "B.json")


def test_the_recorded_step_has_a_fixed_part():
    samples = load_batches(RECORDED)
    assert tuple(one.batch_size for one in samples) == BATCHES
    scaling = fit_batch_scaling(samples)
    for fit in (scaling.forward, scaling.backward):
        assert fit.fixed_ci95[0] > 0
        assert fit.per_sample_ci95[0] > 0
        # A single sample takes more than its share of a batch of 32.
        times = dict(zip(fit.batches, fit.times_s, strict=True))
        assert times[1] > 1.5 * times[32] / 32
