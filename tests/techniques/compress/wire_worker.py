"""One of two workers that train a large layer with each compressor, and count what their sockets send beside the hook.

Run as a program: folder, rank, texts of compressors.
"""

import json
import sys
from contextlib import closing
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from wirebound.profile.counters import TcpCounter
from wirebound.simulate.compressors import compressor_named
from wirebound.techniques.compress import hooks

folder, rank, texts = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
counts = {}
for text in texts:
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(2048, 1024, bias=False), bucket_cap_mb=100)
    state = hooks.register(model, compressor_named(text))
    inputs = torch.randn(4, 2048)
    with closing(TcpCounter()) as counter:
        rounds = []
        for _ in range(5):
            dist.barrier()
            wire, counted = counter.sent_bytes(), state.sent_bytes
            model(inputs).square().mean().backward()
            dist.barrier()
            rounds.append([counter.sent_bytes() - wire, state.sent_bytes - counted])
    counts[text] = rounds[2:]  # DDP rearranges its buckets after the first step
(folder / f"counts-{rank}.json").write_text(json.dumps(counts), encoding="utf-8")
dist.destroy_process_group()
