"""Which tiers can be tested here: the others are skipped, with the reason."""

import pytest

from wirebound.testbed.tiers import tier_available


@pytest.fixture
def working_tier(request: pytest.FixtureRequest) -> str:
    """The tier named by the parameter, where it works."""
    answer = tier_available(request.param)
    if not answer.works:
        pytest.skip(f"{request.param}: {answer.reason}")
    return request.param
