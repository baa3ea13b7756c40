"""A program that tests interrupt: it sets up and takes down networks of one tier, or runs all-reduces on one.

python disturbed.py TIER cycle|allreduce
"""

import itertools
import signal
import subprocess
import sys

from wirebound.testbed.ranks import gloo_ranks
from wirebound.testbed.speed import time_allreduces
from wirebound.testbed.tiers import open_network


def cycle(tier: str) -> None:
    for count in itertools.count():
        with open_network(tier, 3) as network:
            for endpoint in network.endpoints:
                network.start_process([*endpoint.prefix, sys.executable, "-c", "input()"])
            print(count, flush=True)


def allreduce(tier: str) -> None:
    with open_network(tier, 2) as network:
        print("up", flush=True)
        with gloo_ranks(network) as ranks:
            print("started", flush=True)
            time_allreduces(ranks, [2**20], repetitions=10**9, budget_s=50)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where whoever started us ignores it
    assert subprocess.run(["true"], check=False).returncode == 0
    {"cycle": cycle, "allreduce": allreduce}[sys.argv[2]](sys.argv[1])
