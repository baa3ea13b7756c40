"""The comparison is alive: a few wrong rules turn it red. All mutants: `python -m tests.second.mutate`."""

import pytest

from .mutants import MUTANTS
from .mutate import AS_IT_IS, ROOT, survives

CHEAP = ("ring-steps", "ddp-first-bucket")
RANDOM_JOBS = ("tests/second/test_engines_agree.py::test_where_ties_are_exact",)


@pytest.mark.parametrize("name", CHEAP)
def test_a_wrong_rule_is_noticed(name):
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    assert not survives(mutant, RANDOM_JOBS)


def test_an_edit_that_changes_nothing_is_not_noticed():
    assert survives(AS_IT_IS, RANDOM_JOBS, examples="0.1")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_still_finds_its_rule(mutant):
    source = (ROOT / "src" / "wirebound" / "simulate" / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.old) == mutant.count, "the rule was rewritten: bring tests/second/mutants.py up to date"
    assert source.replace(mutant.old, mutant.new) != source
