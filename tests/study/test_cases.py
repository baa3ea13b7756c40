"""The practitioners' questions against arithmetic done here by hand."""

import pytest

from wirebound.study.cases import CASES, practitioners_cases
from wirebound.study.data import load_table


@pytest.fixture(scope="module")
def answers():
    return practitioners_cases().set_index("case")


def test_every_question_has_an_answer():
    assert set(load_table("cases")["case"]) == set(CASES)


def test_answers_that_arithmetic_gives(answers):
    computed = answers["computed"]
    assert computed["two-gpus"] == pytest.approx(2 * 1.27 / 2.07)
    # A ring of 16 sends 2·15/16 of the gradients through each link: a seventeenth of the asker's 16 GB.
    assert computed["volume"] == pytest.approx(2 * 15 / 16 * 0.5)
    # Exposed communication once in four passes.
    assert computed["no-sync"] == pytest.approx(0.91 + (2.0 - 0.91) / 4, rel=0.02)


def test_bandwidth_of_a_network_bound_job_is_bytes_over_time(answers):
    """4 s a step, 0.5 s of it compute: at least 3.5 s and at most 4 s for 2·7/8 of BERT-Base's 440 MB."""
    bits = 8 * 2 * 7 / 8 * 440_425_712
    assert bits / 4.0e9 < answers.loc["one-layer", "computed"] < bits / 3.5e9


def test_what_agrees_is_what_lies_in_the_range(answers):
    for row in answers.itertuples():
        assert row.agrees == (row.observed_low <= row.computed <= row.observed_high)
    assert answers["agrees"].sum() >= 6
