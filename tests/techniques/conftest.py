"""A job of one worker inside this process, on loopback."""

import sys

import pytest
from torch.distributed import HashStore

from wirebound.techniques.process_group import Meeting


@pytest.fixture
def meeting(monkeypatch) -> Meeting:
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    if loopback:
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", loopback)
    return Meeting(HashStore(), 0, 1, timeout_s=60)
