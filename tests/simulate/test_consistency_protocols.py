"""Names of consistency protocols: what is read, and what is refused."""

import pytest

from wirebound.errors import InputError
from wirebound.simulate.consistency_protocols import PROTOCOLS, consistency_named

from .protocols import EVERY


@pytest.mark.parametrize("spec", [*EVERY, *(protocol.example for protocol in PROTOCOLS.values())])
def test_names_can_be_read_back(spec):
    assert consistency_named(str(consistency_named(spec))) == consistency_named(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sssp:3", "unknown consistency protocol 'sssp'"),
        ("", "unknown consistency protocol ''"),
        ("ssp", "'ssp' needs a number: write ssp:3"),
        ("local-sgd", "write local-sgd:8"),
        ("bsp:3", "'bsp:3': takes no parameter"),
        ("asp:", "'asp:': takes no parameter"),
        ("ssp:-1", "'-1' must be a whole number from 0"),
        ("ssp:two", "'two' must be a whole number from 0"),
        ("ssp:" + "9" * 5000, "must be a whole number"),
        ("local-sgd:0", "'0' must be a whole number from 1"),
        ("gossip:3", "must be even"),
        ("gossip:0", "from 2"),
        ("gossip:tours", "did you mean 'torus'"),
    ],
)
def test_names_that_are_none(spec, message):
    with pytest.raises(InputError, match=message) as raised:
        consistency_named(spec)
    assert "\n" not in str(raised.value)
