"""One rank of four that runs every compressor in turn, in worlds of 1 to 4: `python world_worker.py FOLDER RANK`.

Writes what it saw to ``rank-RANK.pt`` in the folder: the test judges it. Ends when its standard input closes.
"""

import os
import sys
import threading
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from wirebound.errors import WireboundError
from wirebound.simulate.compressors import compressor_named
from wirebound.techniques.compress import hooks, powersgd
from wirebound.techniques.compress.compressor import compressor_of
from wirebound.techniques.compress.dgc import Dgc
from wirebound.techniques.compress.difference import Difference

SHAPES = {"scalar": (1,), "bias": (7,), "matrix": (33, 5), "filter": (4, 3, 3, 3), "long": (1001,)}
TEXTS = (
    "fp16",
    "bf16",
    "onebit",
    "signsgd",
    "ef-signsgd",
    "qsgd:7,100",
    "terngrad",
    "terngrad-shared",
    "randomk:0.1",
    "topk:0.05",
    "gtopk:0.1",
    "dgc:0.02",
    "powersgd:1",
)
STEPS = 5
WORLDS = (1, 2, 3, 4)


class Given(nn.Module):
    """A model whose gradients are the tensors that it is called with."""

    def __init__(self):
        super().__init__()
        for name, shape in SHAPES.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    def forward(self, gradients):
        return sum((getattr(self, name) * gradients[name]).sum() for name in SHAPES)


def given(rank, step):
    """The gradients of a rank in a step; some elements are the same everywhere, some 0 on a rank."""
    generator = torch.Generator().manual_seed(1000 * rank + step)
    common = torch.Generator().manual_seed(step)
    found = {}
    for name, shape in SHAPES.items():
        values = torch.randn(shape, generator=generator) + 0.5 * torch.randn(shape, generator=common)
        found[name] = torch.where(torch.randn(shape, generator=generator) > 1.5, 0.0, values)
    return found


def compressor(text, world):
    if text.startswith("dgc"):
        return Dgc(0.02, clip_norm=30.0, workers=world, warm_up_steps=1)
    return compressor_named(text)


def wrapped(text, group, **options):
    """A fresh model with its hook; small buckets, except for PowerSGD."""
    bucket_cap_mb = 100 if text.startswith("powersgd") else 0.001
    model = DistributedDataParallel(Given(), process_group=group, bucket_cap_mb=bucket_cap_mb, **options)
    return model, hooks.register(model, compressor(text, group.size()), group, seed=11)


def run(model, rank, steps):
    """Gradients after the hook, per step; the parameters move as plain SGD moves them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in steps:
        optimizer.zero_grad()
        model(given(rank, step)).backward()
        seen.append({name: parameter.grad.clone() for name, parameter in model.module.named_parameters()})
        optimizer.step()
    return seen


def saved_state(state):
    if isinstance(state, hooks.HookState):
        return state.state_dict()
    return powersgd.state_dict(state)


def load_state(state, saved):
    if isinstance(state, hooks.HookState):
        state.load_state_dict(saved)
    else:
        powersgd.load_state_dict(state, saved)


def resumed(text, rank, group):
    """Gradients of an uninterrupted run, and of one that stopped and went on in a new model."""
    # DDP then never rearranges its buckets, so that sums are taken in the same order in all models.
    options = {} if text.startswith("powersgd") else {"find_unused_parameters": True}
    model, _ = wrapped(text, group, **options)
    whole = run(model, rank, range(STEPS))
    model, state = wrapped(text, group, **options)
    first = run(model, rank, range(3))
    saved = saved_state(state)
    model, state = wrapped(text, group, **options)
    if text.startswith("powersgd"):
        run(model, rank, [0])  # see powersgd.state_dict
    load_state(state, saved)
    return whole, first + run(model, rank, range(3, STEPS))


def message_of_broken_gradient(text, rank, group):
    model, _ = wrapped(text, group)
    broken = given(rank, 0)
    broken["filter"][1, 2, 0, 0] = float("nan")
    try:
        model(broken).backward()
    except WireboundError as error:
        return str(error)
    return None


def torchs_own(hook, rank, group):
    model = DistributedDataParallel(Given(), process_group=group, bucket_cap_mb=0.001)
    model.register_comm_hook(group, hook)
    return run(model, rank, range(STEPS))


def differences(rank, group):
    """Gradients of differences to the last step, sparse and gathered, and in half precision and summed."""
    found = {}
    for text in ("topk:0.1", "fp16"):
        model = DistributedDataParallel(Given(), process_group=group, bucket_cap_mb=0.001)
        hooks.register(model, Difference(compressor_of(compressor_named(text)), extrapolation=0.5), group)
        found[text] = run(model, rank, range(STEPS))
    return found


def one(text, rank, group):
    model, state = wrapped(text, group)
    result = {"gradients": run(model, rank, range(STEPS))}
    result["parameters"] = {name: p.detach().clone() for name, p in model.module.named_parameters()}
    result["state"] = saved_state(state)
    result["sent_bytes"] = getattr(state, "sent_bytes", None)
    result["whole"], result["resumed"] = resumed(text, rank, group)
    if not text.startswith("powersgd"):
        result["message"] = message_of_broken_gradient(text, rank, group)
    return result


def end_with_parent():
    while os.read(0, 1):
        pass
    os._exit(3)


def main(folder, rank):
    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), max(WORLDS))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=max(WORLDS), timeout=timedelta(seconds=240))
    groups = {world: dist.new_group(list(range(world))) for world in WORLDS}
    found = {}
    for world, group in groups.items():
        if rank < world:
            found[world] = {text: one(text, rank, group) for text in TEXTS}
            found[world]["differences"] = differences(rank, group)
            found[world]["torch fp16"] = torchs_own(fp16_compress_hook, rank, group)
        dist.barrier()
    torch.save(found, folder / f"rank-{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
