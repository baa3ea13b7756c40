"""How many random jobs a test tries: the same ones in every run, unless more are asked for.

`WIREBOUND_EXAMPLES=20 pytest tests/second tests/laws` tries twenty times as many, other ones in each run.
"""

import os

from hypothesis import HealthCheck, Phase, settings

_TIMES = float(os.environ.get("WIREBOUND_EXAMPLES", "1"))
#: Who only wants to know whether a test fails, as the mutation check does, can do without the smallest example.
_PHASES = set(Phase) - ({Phase.shrink, Phase.explain} if os.environ.get("WIREBOUND_SHRINK") == "0" else set())


def tries(examples: int) -> settings:
    """Settings for about this many random jobs; no deadline, since a test machine may be busy."""
    return settings(
        max_examples=max(1, round(examples * _TIMES)),
        derandomize=_TIMES == 1,
        phases=_PHASES,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
