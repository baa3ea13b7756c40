"""Steps with coding on the device and stages of servers, in both implementations."""

from hypothesis import assume, given

from .budget import tries
from .compare import assert_staged_engines_agree
from .strategies import staged_cases


@tries(150)
@given(staged_cases())
def test_on_random_jobs(case):
    assume(case[2].has_stages)
    assert_staged_engines_agree(*case)
