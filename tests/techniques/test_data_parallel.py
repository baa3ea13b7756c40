"""DistributedDataParallel behind the techniques' calls: it trains as they do, and tells what it sent."""

import itertools

import pytest

from wirebound.errors import InputError
from wirebound.techniques.job import Job
from wirebound.techniques.training import run_job

MLP_BYTES = 820_874 * 4
PATIENCE_S = 240


def test_it_trains_as_the_first_technique_does():
    options = {"workers": 2, "steps": 3, "warmup": 2, "batch_size": 4}
    ddp = run_job(Job("mlp", "ddp", choices={"bucket_cap_bytes": 2**18}, **options), time_limit_s=PATIENCE_S)
    bsp = run_job(Job("mlp", "bsp-a2a", **options), time_limit_s=PATIENCE_S)
    for one, other in zip(ddp.workers, bsp.workers, strict=True):
        assert one.losses == pytest.approx(other.losses, rel=1e-5)
    assert ddp.workers[0].parameters_sha256 == ddp.workers[1].parameters_sha256
    for step in range(3):
        mine = [message for message in ddp.workers[0].messages if message.step == step]
        assert sum(message.size for message in mine) == MLP_BYTES
        # The last layers' bucket is closed by the tensor with which it reaches its cap.
        assert [message.size for message in mine] == sorted(message.size for message in mine)
        for before, after in itertools.pairwise(mine):
            assert before.ready_s <= before.start_s <= before.end_s
            assert before.end_s <= after.end_s


@pytest.mark.parametrize("compressor", [{"name": "fp16"}, {"name": "powersgd", "parameter": 2}])
def test_compressors_are_hooks_of_it(compressor: dict[str, object]):
    choices = {"bucket_cap_bytes": 2.0**40, "compressor": compressor}
    done = run_job(Job("mlp", "ddp", steps=3, batch_size=4, choices=choices), time_limit_s=PATIENCE_S)
    assert done.workers[0].parameters_sha256 == done.workers[1].parameters_sha256
    assert all(message.size == MLP_BYTES for message in done.workers[0].messages)
    assert done.workers[0].losses != done.workers[1].losses  # each has images of its own


def test_it_has_no_servers():
    with pytest.raises(InputError, match="ddp with servers = 1"):
        run_job(Job("mlp", "ddp", servers=1))
