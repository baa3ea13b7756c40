"""What a hook counts is what really leaves: the kernel's count of the sockets' bytes, read beside it."""

import json
import sys
from pathlib import Path

import pytest

from wirebound.profile.counters import TcpCounter
from wirebound.techniques.launch import started_processes, wait_for

TEXTS = ("fp16", "ef-signsgd", "onebit", "qsgd:7", "terngrad", "topk:0.01", "dgc:0.01", "gtopk:0.01", "randomk:0.01")
WORKER = Path(__file__).with_name("wire_worker.py")


@pytest.mark.skipif(not TcpCounter.available(), reason="only Linux counts the bytes of a connection")
def test_hooks_count_what_the_sockets_send(tmp_path):
    commands = {f"worker {rank}": [sys.executable, str(WORKER), str(tmp_path), str(rank), *TEXTS] for rank in range(2)}
    with started_processes(commands, tmp_path) as started:
        wait_for(started, 240)
    for rank in range(2):
        counts = json.loads((tmp_path / f"counts-{rank}.json").read_text(encoding="utf-8"))
        for text in TEXTS:
            # What TCP sends again counts again, so that the leanest of the steps is the one to compare.
            leanest = min(wire / counted for wire, counted in counts[text])
            assert 1 <= leanest < 1.05, (text, counts[text])
