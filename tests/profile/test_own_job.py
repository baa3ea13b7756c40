"""A user's own job: what its function may return, how its batches come, and how its mistakes are told."""

import collections
import os
import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from wirebound.errors import InputError
from wirebound.profile import job_profile
from wirebound.profile.feed import Feed
from wirebound.profile.job import batch_of, is_batch, load_job, make_job
from wirebound.profile.machine import accelerator_record
from wirebound.profile.memory import MemoryWatch
from wirebound.profile.observations import PeakMemory
from wirebound.profile.training import profile_of, profile_training

LINEAR = "torch.nn.Linear(4, 2)"


def mean(model, batch):
    return model(batch).mean()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, whose modules can be imported and are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if not name.startswith(("torch", "wirebound", "numpy")):
            del sys.modules[name]


def write(folder, text, name="job.py"):
    (folder / name).write_text(f"import torch\nfrom torch import nn\n\n\n{text}", encoding="utf-8")


def test_a_function_of_the_current_folder(folder):
    write(
        folder,
        "def make(batch_size=8):\n"
        "    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))\n"
        "    return model, lambda m, b: m(b).square().mean(), torch.randn(batch_size, 4)\n",
    )
    job = load_job("job:make", batch_size=16, seed=3)
    assert job.batch_size == 16
    assert job.data.shape == (16, 4)
    assert isinstance(job.optimizer, torch.optim.SGD)
    assert torch.equal(load_job("job:make", seed=3).data, load_job("job:make", seed=3).data)
    assert not torch.equal(load_job("job:make", seed=3).data, load_job("job:make", seed=4).data)
    profile = profile_of(
        profile_training(job, steps=6, batches=(2, 4), batch_steps=3), name="j", source="a test", machine={}
    )
    assert profile.batch_size == 16
    assert [tensor.name for tensor in profile.tensors] == ["1.bias", "1.weight", "0.bias", "0.weight"] or {
        tensor.size for tensor in profile.tensors
    } == {8, 24, 12, 48}
    assert [timing.batch_size for timing in profile.batch_samples] == [2, 4]
    assert profile.loading_s is None
    assert profile.device == "cpu"
    assert profile.clock == "cpu-timer"
    assert profile.workload().size == (4 * 3 + 3 + 3 * 2 + 2) * 4


def test_a_module_in_a_package(folder):
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("", encoding="utf-8")
    write(folder / "package", f"def make():\n    return {LINEAR}, lambda m, b: m(b).sum(), torch.ones(3, 4)\n")
    assert load_job("package.job:make").name == "package.job:make"


WRONG = [
    ("job.py:make", "", "name a function as package.module:function"),
    ("job", "", "name a function as package.module:function"),
    ("nowhere:make", "", "there is no module 'nowhere'"),
    ("job.deeper:make", "x = 1", "there is no module 'job.deeper'"),
    ("job:make", "import not_there_at_all\n", "raised ModuleNotFoundError: No module named 'not_there_at_all'"),
    ("job:make", "def make(:\n", "raised SyntaxError: invalid syntax (job.py, line 5)"),
    ("job:make", "raise SystemExit(3)\n", "importing job raised SystemExit: 3"),
    ("job:other", "def make():\n    pass\n", "has no function 'other': it has make"),
    ("job:other", "x = 1\n", "has no function 'other': it has none of its own"),
    ("job:make", "make = 3\n", "is of type int, not a function"),
    ("job:make", "def make(size):\n    pass\n", "needs the parameter 'size'"),
    (
        "job:make",
        "def make():\n    raise ValueError('too\\nbad')\n",
        "job:make raised ValueError: too bad (job.py, line 6)",
    ),
    (
        "job:make",
        f"def make():\n    return {LINEAR}\n",
        "what it returns is of type Linear: it must return (model, loss, data)",
    ),
    (
        "job:make",
        f"def make():\n    return {LINEAR}, 1\n",
        "is a tuple of 2: it must return (model, loss, data)",
    ),
    ("job:make", "def make():\n    return 1, 2, 3\n", "its model is of type int, not a torch.nn.Module"),
    ("job:make", f"def make():\n    return {LINEAR}, 2, [1]\n", "its loss is of type int, not a function"),
    ("job:make", f"def make():\n    return {LINEAR}, print, 3\n", "its data is of type int"),
    ("job:make", f"def make():\n    return {LINEAR}, print, [1], 4\n", "its optimizer is of type int"),
    ("job:make", "def make():\n    return nn.ReLU(), print, [1]\n", "no parameters that need a gradient"),
]


@pytest.mark.parametrize(("reference", "text", "part"), WRONG)
def test_mistakes_are_told_in_one_line(folder, reference, text, part):
    write(folder, text)
    with pytest.raises(InputError) as caught:
        load_job(reference)
    message = str(caught.value)
    assert part in message
    assert message.count("(job.py, line ") <= 1
    assert "\n" not in message
    assert str(folder) not in message


def bad_forward(model, batch):
    return model(torch.ones(3, 5))


def forgotten(model, batch):
    return None


STEPS = [
    (bad_forward, "job: the loss raised RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
    (forgotten, "the loss is of type NoneType, not a tensor"),
    (lambda model, batch: model(batch), "the loss has the shape (3, 2): it must be one number"),
    (lambda model, batch: model(batch).detach().sum(), "does not depend on any parameter"),
    (lambda model, batch: model.weight.sum(), "parameter bias got no gradient"),
    (lambda model, batch: torch.exp(model(batch)).sqrt_().sum(), "backward raised RuntimeError: one of the variables"),
]


@pytest.mark.parametrize(("loss", "part"), STEPS)
def test_mistakes_in_a_step_are_told_in_one_line(loss, part):
    job = make_job("job", lambda: (nn.Linear(4, 2), loss, torch.ones(3, 4)))
    with pytest.raises(InputError) as caught:
        profile_training(job, steps=2)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_where_in_the_users_file_it_went_wrong():
    job = make_job("job", lambda: (nn.Linear(4, 2), bad_forward, torch.ones(3, 4)))
    line = bad_forward.__code__.co_firstlineno + 1
    with pytest.raises(InputError, match=rf"\(test_own_job\.py, line {line}\)$"):
        profile_training(job, steps=2)


def test_a_data_loader_starts_again_and_its_time_is_apart():
    data = TensorDataset(torch.randn(10, 4))
    job = make_job("job", lambda: (nn.Linear(4, 2), lambda m, b: m(b[0]).mean(), DataLoader(data, batch_size=4)))
    measured = profile_training(job, steps=6)
    # 3 of warm-up, 6 with hooks and 6 without, each with a batch of its own; an epoch has 3, the last of 2 samples.
    assert len(measured.loading_samples_s) == 15
    assert all(seconds > 0 for seconds in measured.loading_samples_s)
    assert measured.batch_size == 4
    profile = profile_of(measured, name="j", source="a test", machine={})
    assert profile.loading_s == pytest.approx(sorted(profile.loading_samples_s)[7])


def test_data_that_ends_early_says_after_how_many():
    batches = (torch.ones(3, 4) for _ in range(5))
    job = make_job("job", lambda: (nn.Linear(4, 2), mean, batches))
    with pytest.raises(InputError, match="its data ended after 5 batches: return a DataLoader"):
        profile_training(job, steps=6)


@pytest.mark.parametrize("data", [iter([]), DataLoader(TensorDataset(torch.ones(2, 4)), batch_size=3, drop_last=True)])
def test_data_that_gives_nothing(data):
    with pytest.raises(InputError, match="its data gave no batch at all"):
        profile_training(make_job("job", lambda: (nn.Linear(4, 2), mean, data)), steps=2)


def test_data_that_raises():
    def broken():
        yield torch.ones(3, 4)
        raise OSError("the disk is gone")

    with pytest.raises(InputError, match="job: loading a batch raised OSError: the disk is gone"):
        profile_training(make_job("job", lambda: (nn.Linear(4, 2), mean, broken())), steps=2)


class Faulty(torch.utils.data.Dataset):
    """The third sample cannot be loaded."""

    def __init__(self, raise_):
        self.raise_ = raise_

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == 2:
            self.raise_()
        return torch.ones(4)


class OddError(Exception):
    def __init__(self, sample, why):
        super().__init__(f"sample {sample}: {why}")


def bad_value():
    raise ValueError("bad sample 37\nof 40")


def missing_key():
    raise KeyError("label")


def odd():
    raise OddError(37, "no label")


def wrapped():
    try:
        bad_value()
    except ValueError as error:
        raise OSError("cannot be read") from error


def in_a_library():
    torch.ones(2) @ torch.ones(3)


def silent():
    raise AssertionError


def noted():
    error = AssertionError()
    error.add_note("of: label")
    raise error


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("raise_", "said", "after"),
    [
        (bad_value, "ValueError: bad sample 37 of 40", 1),
        (missing_key, "KeyError: 'label'", 1),
        (odd, "OddError: sample 37: no label", 1),
        (wrapped, "OSError: cannot be read", 4),
        (in_a_library, "RuntimeError: .*", 1),
        (silent, "AssertionError", 1),
        (noted, "AssertionError(: of: label)?", 3),
    ],
)
def test_an_error_of_a_loading_process_is_told_as_its_own(raise_, said, after, workers):
    line = raise_.__code__.co_firstlineno + after
    loader = DataLoader(Faulty(raise_), num_workers=workers)
    job = make_job("job", lambda: (nn.Linear(4, 2), mean, loader))
    with pytest.raises(InputError, match=rf"^job: loading a batch raised {said} \(test_own_job\.py, line {line}\)$"):
        profile_training(job, steps=6)


def test_a_loading_process_that_dies_has_no_place():
    loader = DataLoader(Faulty(lambda: os._exit(3)), num_workers=1)
    job = make_job("job", lambda: (nn.Linear(4, 2), mean, loader))
    with pytest.raises(InputError, match=r"a batch raised RuntimeError: .*(exited|ended) unexp[^(]*$"):
        profile_training(job, steps=6)


Pair = collections.namedtuple("Pair", "images labels")


def test_what_is_a_batch_and_how_large_it_is():
    for batch, size in [
        (torch.ones(5, 4), 5),
        ([torch.ones(3, 4), torch.ones(3)], 3),
        ({"ids": torch.ones(7, 2), "n": 3}, 7),
        (Pair(torch.tensor(1.0), torch.ones(2)), 2),
        ({"name": "none"}, None),
        (torch.tensor(1.0), None),
    ]:
        assert is_batch(batch)
        assert batch_of(batch) == size
    assert not is_batch(DataLoader(TensorDataset(torch.ones(2, 4))))
    assert not is_batch(x for x in [])


def test_batches_keep_their_form_on_the_way_to_the_device():
    class Encoding(dict):
        def to(self, device):
            return Encoding({**self, "moved": device})

    assert Feed("job", Encoding(a=1), "cpu").batch["moved"] == "cpu"
    moved = Feed("job", {"pair": Pair(torch.ones(2), [torch.zeros(1), "text"])}, "meta").batch
    assert moved["pair"].images.device.type == "meta"
    assert moved["pair"].labels[0].device.type == "meta"
    assert moved["pair"].labels[1] == "text"


def test_the_batch_size_must_be_that_of_the_data():
    job = make_job("job", lambda: (nn.Linear(4, 2), mean, torch.ones(3, 4)), batch_size=8)
    with pytest.raises(InputError, match="takes no parameter batch_size, and its batches have 3 samples, not 8"):
        profile_training(job, steps=2)
    with pytest.raises(InputError, match="other batch sizes cannot be timed"):
        profile_training(make_job("job", lambda: (nn.Linear(4, 2), mean, torch.ones(3, 4))), batches=(2, 4))
    needed = make_job("job", lambda batch_size: (nn.Linear(4, 2), mean, torch.ones(batch_size, 4)))
    assert needed.batch_size == 32


def test_gradients_of_several_types_are_told():
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.narrow = nn.Linear(4, 64), nn.Linear(64, 2, dtype=torch.bfloat16)

        def forward(self, values):
            return self.narrow(self.wide(values).bfloat16())

    job = make_job("job", lambda: (Mixed(), lambda m, b: m(b).float().mean(), torch.ones(3, 4)))
    profile = profile_of(profile_training(job, steps=6), name="j", source="a test", machine={})
    assert profile.gradient_dtype == "fp32"
    assert any("several types (" in warning and "bf16" in warning for warning in profile.warnings)
    assert {tensor.name: tensor.size for tensor in profile.tensors}["narrow.weight"] == 64 * 2 * 2
    assert profile.workload().size == (4 * 64 + 64) * 4 + (64 * 2 + 2) * 2


def test_half_precision_models_and_lazy_layers():
    half = make_job(
        "job", lambda: (nn.Linear(4, 2, dtype=torch.bfloat16), mean, torch.ones(3, 4, dtype=torch.bfloat16))
    )
    assert profile_of(profile_training(half, steps=6), name="j", source="t", machine={}).gradient_dtype == "bf16"
    lazy = make_job("job", lambda: (nn.LazyLinear(2), mean, torch.ones(3, 4)))
    with pytest.raises(InputError, match="weight has no shape yet"):
        profile_training(lazy, steps=2)


def test_memory_counts_what_training_took():
    watch = MemoryWatch("cpu")
    held = torch.ones(2**26)  # 256 MiB, every page of it written
    peak = watch.peak()
    assert held.sum() == 2**26
    if peak is None or peak.before is None:
        pytest.skip("this system does not tell what is resident")
    assert peak.kind == "process-resident"
    assert peak.size - peak.before > 0.9 * 2**28


def test_memory_of_a_gpu_is_what_its_allocator_says(monkeypatch):
    """With a stand-in for the allocator, for want of a GPU: the peak counts from the watch's making."""
    held = {"now": 700, "peak": 5000}
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: held.update(peak=held["now"]))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: held["now"])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: held["peak"])
    watch = MemoryWatch("cuda:1")
    held.update(peak=900)
    assert watch.peak() == PeakMemory("cuda-allocated", 900, 700)


def test_the_gpu_of_a_rank_must_be_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert job_profile._checked_device("cuda:1") == "cuda:1"
    with pytest.raises(InputError, match="this machine has 2 CUDA devices, too few for local rank 2"):
        job_profile._checked_device("cuda:2")
    assert accelerator_record("cpu") == {}


def profiled(job, **options):
    return profile_of(profile_training(job, steps=4, **options), name="j", source="a test", machine={})


def test_batches_of_different_sizes_are_told():
    data = DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=8)
    job = make_job("f", lambda: (nn.Linear(4, 2), lambda model, batch: model(batch[0]).mean(), data))
    assert "batches have 4 to 8 samples" in profiled(job).warnings[0]


def test_a_loss_that_is_not_a_number_is_told():
    job = make_job("f", lambda: (nn.Linear(4, 2), lambda m, b: m(b).mean() * float("nan"), torch.ones(8, 4)))
    assert "the loss of the last step is nan" in profiled(job).warnings[0]


def test_a_batch_of_another_size_than_asked_for_is_refused():
    def make(batch_size=8):
        return nn.Linear(4, 2), mean, torch.ones(8, 4)

    with pytest.raises(InputError, match=r"f: batch_size=4 was asked for, and its batch has 8 samples"):
        profiled(make_job("f", make), batches=(4, 8))
    with pytest.raises(InputError, match=r"f: batch_size=16 was asked for, and its batch has 8 samples"):
        profiled(make_job("f", make, batch_size=16))


def test_an_optimizer_of_another_model_is_refused():
    with pytest.raises(InputError, match="its optimizer has none of the model's parameters"):
        make_job("f", lambda: (nn.Linear(4, 2), mean, torch.ones(8, 4), torch.optim.SGD(nn.Linear(4, 2).parameters())))
