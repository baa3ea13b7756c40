"""Who goes first on the cores: only what was asked for, in a process of its own, and it says whether it was allowed."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, threading
from wirebound.testbed.scheduling import communicate_promptly, compute_before_others
end = threading.Event()
thread = threading.Thread(target=end.wait)
thread.start()
prompt, before = communicate_promptly(), compute_before_others()
print(json.dumps({
    "prompt": prompt,
    "before": before,
    "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "main": os.sched_getscheduler(os.getpid()) == os.SCHED_RR,
    "thread": os.sched_getscheduler(thread.native_id) == os.SCHED_RR,
}))
end.set()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="real-time turns and nice values as on Linux")
def test_communication_goes_before_compute_and_compute_before_others():
    # In a session of its own, for its nice value is the session's.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, start_new_session=True)
    found = json.loads(done.stdout)
    assert found["thread"] == found["prompt"]
    assert not found["main"]
    assert (found["nice"] == -20) == found["before"]
