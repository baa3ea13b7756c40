"""The recorded outlook: complete, of the present settings; what can be computed or trained again comes out again."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from wirebound.errors import InputError
from wirebound.fit.codec_document import load_codec
from wirebound.study import record_outlook
from wirebound.study.outlook_choice import (
    ChoiceSettings,
    SelectiveSettings,
    choice_row,
    matched_ratios,
    rounded,
    workload_of,
)
from wirebound.study.outlook_training import (
    JOBS,
    CorrelationSettings,
    DifferenceSettings,
    RoundSettings,
    correlation,
    difference_row,
    rounds,
    senders,
)
from wirebound.techniques.learning.data import data_set

RECORDED = Path(__file__).parents[2] / "data" / "recorded"
PRIVATE = re.compile(r"/home|/root|/tmp|/Users|\\Users|\d+\.\d+\.\d+\.\d+|hostname")
#: Sums in another order, on another processor, train another model after some hundred steps: so far apart at most.
ELSEWHERE = 0.05


@pytest.fixture(scope="module")
def recorded():
    return json.loads((RECORDED / "outlook.json").read_text(encoding="utf-8"))


def as_json(value):
    return json.loads(json.dumps(value))


def test_all_parts_are_there_with_the_present_settings(recorded):
    text = (RECORDED / "outlook.json").read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    assert not PRIVATE.search(text)
    assert recorded["choice"]["settings"] == as_json(asdict(ChoiceSettings()))
    for part, settings in (
        ("selective", SelectiveSettings()),
        ("rounds", RoundSettings()),
        ("correlation", CorrelationSettings()),
        ("senders", DifferenceSettings()),
    ):
        assert set(recorded[part]) == set(record_outlook.TASKS)
        for task in record_outlook.TASKS:
            assert recorded[part][task]["settings"] == as_json(asdict(settings))
            assert recorded[part][task]["machine"]["cores"] >= 1
            used = recorded[part][task]["job"]
            assert as_json(asdict(JOBS[task])) | {"decay_steps": []} == used | {"decay_steps": []}


def test_data_are_those_of_today(recorded):
    assert recorded["data_sha256"] == {name: data_set(name).sha256 for name in record_outlook.TASKS}


def test_every_seed_is_there(recorded):
    for task in record_outlook.TASKS:
        names = {row["variant"] for row in recorded["senders"][task]["rows"]}
        assert names == set(senders(DifferenceSettings()))
        assert len(recorded["senders"][task]["rows"]) == 5 * len(names)
        assert len(recorded["rounds"][task]["rows"]) == 5 * 4
        assert len(recorded["selective"][task]["curves"]) == 5 * 3


def test_schedules_sent_the_same_bytes(recorded):
    for task in record_outlook.TASKS:
        for seed in RoundSettings().seeds:
            sent = {row["sent_bytes"] for row in recorded["rounds"][task]["rows"] if row["seed"] == seed}
            assert len(sent) == 1


def test_senders_sent_the_same_bytes_but_for_dgcs_counts(recorded):
    for task in record_outlook.TASKS:
        rows = [row for row in recorded["senders"][task]["rows"] if row["variant"] != "dense" and row["sent_bytes"]]
        assert len({row["sent_bytes"] for row in rows if row["variant"] != "DGC"}) == 1
        (dgc,) = {row["sent_bytes"] for row in rows if row["variant"] == "DGC"}
        assert 1 < dgc / rows[0]["sent_bytes"] < 1.15


def test_a_predicted_row_comes_out_again(recorded):
    settings = ChoiceSettings()
    row = next(row for row in recorded["choice"]["rows"] if row["workload"] == "vgg16" and row["gbps"] == 25)
    assert rounded(choice_row(settings, "vgg16", row["workers"], row["gbps"])) == pytest.approx(row)
    assert len(recorded["choice"]["rows"]) == 3 * 2 * 3


def test_no_chosen_step_is_longer_than_what_it_was_compared_with(recorded):
    for row in recorded["choice"]["rows"]:
        assert row["chosen_s"] <= 1.0101 * min(row["nothing_s"], row["everything_s"])
        assert row["chosen_lost_share"] <= row["everything_lost_share"] + 1e-9
    for task in record_outlook.TASKS:
        assert recorded["selective"][task]["chosen_s"] <= recorded["selective"][task]["uniform_s"] * (1 + 1e-6)


@pytest.mark.parametrize("task", record_outlook.TASKS)
def test_chosen_shares_come_out_again(recorded, task):
    part = recorded["selective"][task]
    codec = load_codec(RECORDED / "codec_cpu_2core.json", "topk:0.01")
    again = rounded(matched_ratios(workload_of(part), 4, SelectiveSettings(), codec))
    assert again["uniform_s"] == pytest.approx(part["uniform_s"], rel=1e-5)
    assert set(again["chosen_shares"]) == set(part["chosen_shares"])
    assert again["chosen_lost_share"] == pytest.approx(part["chosen_lost_share"], abs=0.01)


def test_a_run_comes_out_again(recorded):
    rows = recorded["senders"]["digits"]["rows"]
    row = next(row for row in rows if row["variant"] == "gradient, difference" and row["seed"] == 0)
    job = replace(JOBS["digits"], decay_steps=())
    again = difference_row(job, row["variant"], DifferenceSettings(), 0, row["learning_rate"])
    assert again["sent_bytes"] == row["sent_bytes"]
    assert again["accuracy"] == pytest.approx(row["accuracy"], abs=ELSEWHERE)


def test_a_run_that_overflows_guesses():
    row = difference_row(replace(JOBS["digits"], steps=60), "gradient, extrapolated", DifferenceSettings(), 0, 1e8)
    assert (row["accuracy"], row["sent_bytes"]) == (0.1, 0)


def test_rounds_of_a_short_job_send_the_same_bytes_and_repeat():
    job = replace(JOBS["digits"], steps=24, decay_steps=(12,))
    settings = RoundSettings(window=4)
    rows = rounds(job, settings, seed=3)
    assert [row["variant"] for row in rows] == ["adaptive", "constant", "dense first", "dense last"]
    assert len({row["sent_bytes"] for row in rows}) == 1
    assert rows == rounds(job, settings, seed=3)


def test_correlation_of_a_short_job():
    settings = CorrelationSettings(steps=9, stages=3)
    rows = correlation(JOBS["digits"], settings, 64, "gradient")
    smooth = correlation(JOBS["digits"], settings, 64, "velocity")
    assert len(rows) == 6 * 3
    assert all(-1 <= row["cosine"] <= 1 and row["energy"] >= 0 for row in rows)
    last = [sum(row["cosine"] for row in found if row["stage"] == 2) for found in (rows, smooth)]
    assert last[1] > last[0]  # momentum makes steps alike
    assert all((row["neighbours"] is None) == row["tensor"].endswith("bias") for row in rows)


def test_mistakes(tmp_path, capsys):
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    assert record_outlook.main(["--out", str(other), "--part", "choice"]) == 2
    assert "remove it" in capsys.readouterr().err
    assert record_outlook.main(["--out", str(tmp_path / "new.json"), "--part", "senders", "--sender", "dgc"]) == 2
    assert "unknown sender" in capsys.readouterr().err
    assert not (tmp_path / "new.json").exists()
    with pytest.raises(InputError, match="unknown data set"):
        rounds(replace(JOBS["digits"], data="cifar"), RoundSettings(), 0)
