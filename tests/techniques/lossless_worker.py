"""One process of the lossless tests: runs every technique on every case for several numbers of workers.

`python lossless_worker.py FOLDER RANK WORKERS SERVERS` writes FOLDER/rank-RANK.json. The first n of the workers make
the runs with n workers; the servers serve all.
"""

import contextlib
import json
import sys
import threading
import time
from pathlib import Path

import torch
from lossless_cases import CASES, STEPS, Case, built, single_process
from torch.distributed import PrefixStore, TCPStore

from wirebound.techniques.catalogue import Choices, needs_servers, synchronizer
from wirebound.techniques.process_group import Meeting
from wirebound.techniques.server import serve
from wirebound.techniques.synchronizer import backward_order
from wirebound.techniques.training import parameters_sha256
from wirebound.techniques.worker import end_with_parent, run_guarded

#: Name of a run → technique and choices. Partitions of 500 and 1004 B hold no whole number of doubles.
RUNS = {
    "bsp-ps": ("bsp-ps", {}),
    "bsp-a2a": ("bsp-a2a", {}),
    "wfbp-ps": ("wfbp-ps", {}),
    "wfbp-a2a": ("wfbp-a2a", {}),
    "mg-wfbp": ("mg-wfbp", {}),
    "bytescheduler-ps": ("bytescheduler-ps", {"partition_bytes": 500, "credit_bytes": 1000}),
    "bytescheduler-a2a": ("bytescheduler-a2a", {"partition_bytes": 500, "credit_bytes": 1000}),
}
VARIANTS = {
    "bsp-ps, partitions": ("bsp-ps", {"partition_bytes": 1004}),
    "wfbp-ps, pipelined": ("wfbp-ps", {"pipelined": True}),
    "bytescheduler-a2a, whole": ("bytescheduler-a2a", {}),
}


def runs(workers: int):
    """The runs with a number of workers: each case with 2, one case with all difficulties with every number."""
    for case in CASES if workers == 2 else ("everything",):
        for run, (technique, choices) in (RUNS | (VARIANTS if (workers, case) == (2, "everything") else {})).items():
            yield f"{workers}/{case}/{run}", CASES[case], technique, choices


def chosen(case: Case, choices: dict) -> Choices:
    names = backward_order(built(case))
    groups = [names[start : start + 3] for start in range(0, len(names), 3)]
    return Choices(groups=groups, unused_parameters=case.unused, **choices)


def trained(case: Case, technique: str, choices: dict, meeting: Meeting):
    # Other weights than worker 0's: everybody must start from those.
    model = built(case, seed=meeting.rank)
    optimizer = case.optimizer(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if case.schedule else None
    with synchronizer(technique, model, optimizer, meeting, chosen(case, choices)) as sync:
        for step in range(STEPS):
            for micro in range(case.accumulation):
                loss = case.loss(model, step, meeting.rank, micro) / case.accumulation
                with contextlib.nullcontext() if micro == case.accumulation - 1 else sync.no_sync():
                    loss.backward()
            sync.step(optimizer)
            if schedule is not None:
                schedule.step()
    return model


def met(folder: Path, rank: int) -> TCPStore:
    """A store on a port that the system chooses; processes with nothing to do wait in it without polling."""
    file = folder / "port"
    if rank == 0:
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        (folder / "port.new").write_text(str(store.port), encoding="utf-8")
        (folder / "port.new").replace(file)
        return store
    while not file.exists():
        time.sleep(0.05)
    return TCPStore("127.0.0.1", int(file.read_text(encoding="utf-8")))


def main(folder: Path, rank: int, workers: int, servers: int) -> None:
    torch.set_num_threads(1)
    store = met(folder, rank)
    told = {}
    for count in range(1, workers + 1):
        if count <= rank < workers:
            continue
        mine = rank if rank < workers else count + rank - workers
        meeting = Meeting(PrefixStore(f"world-{count}", store), mine, count, servers, timeout_s=600)
        for run, case, technique, choices in runs(count):
            if meeting.is_server:
                if needs_servers(technique):
                    told[run] = serve(meeting.with_servers(), count)._asdict()
                    told[run]["threads"] = threading.active_count()
                continue
            model = trained(case, technique, choices, meeting)
            told[run] = {"sha256": parameters_sha256(model)}
            if mine == 0:
                state, alone = model.state_dict(), single_process(case, count).state_dict()
                told[run]["difference"] = max((state[key] - value).abs().max().item() for key, value in alone.items())
    (folder / f"rank-{rank}.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    end_with_parent()
    place, *counts = sys.argv[1:]
    sys.exit(run_guarded(lambda: main(Path(place), *map(int, counts))))
