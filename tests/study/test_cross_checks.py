"""The independent checks of chapter 17 are exact where they must be, and notice a wrong equation."""

import pytest

from wirebound.simulate.collectives import double_tree_all_reduce, ring_all_reduce
from wirebound.study.cross_checks import cross_checks, least_load, played_s, ring_rounds


def test_every_check_agrees():
    table = cross_checks().set_index("what")
    assert len(table) == 6
    published = table.loc["what-if scaling factors of ResNet-50"]
    assert published["points"] == 90
    assert published["largest_percent"] < 0.01  # six published digits, and a microsecond of a message more or less
    assert table.drop(index=published.name)["largest_percent"].max() < 1e-6


@pytest.mark.parametrize(("workers", "servers", "expected"), [(2, 0, 1), (2, 2, 1), (8, 0, 2 * 7 / 8), (8, 8, 1)])
def test_least_load_has_its_known_ends(workers, servers, expected):
    """Without servers it is an all-reduce's, with as many as workers S each way at the same time."""
    assert least_load(workers, servers) == pytest.approx(expected)


def test_a_wrong_equation_would_be_seen():
    played = played_s(ring_rounds(1e6, 8), 8, 1e-5, 1e9)
    assert ring_all_reduce(1e6, 8, 1e-5, 1e9) == pytest.approx(played, rel=1e-12)
    assert double_tree_all_reduce(1e6, 8, 1e-5, 1e9) != pytest.approx(played, rel=1e-2)
