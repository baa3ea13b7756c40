"""The CUDA clock, with a stand-in for the device: no GPU is needed, and the times are known exactly.

The stand-in is a stream: work is issued at once and done later, one piece after the other; an event completes when the
work issued before it is done, and tells no time before that.
"""

import pytest
import torch
from torch import nn

from wirebound.errors import InputError
from wirebound.profile.backward import profile_backward, profile_batches
from wirebound.profile.clock import Clock, CpuClock, CudaClock, clock_of
from wirebound.profile.job import make_job
from wirebound.profile.training import profile_of, profile_training


class Stream:
    """A device that works behind the host: it has done nothing of what was issued until somebody synchronizes."""

    def __init__(self) -> None:
        self.issued_ms = 0.0
        self.done_ms = 0.0
        self.synchronized = 0
        self.events = 0

    def launch(self, milliseconds: float) -> None:
        self.issued_ms += milliseconds

    def synchronize(self) -> None:
        self.done_ms = self.issued_ms
        self.synchronized += 1

    def event(self) -> "Event":
        self.events += 1
        return Event(self)


class Event:
    """What `torch.cuda.Event(enable_timing=True)` does, on the stand-in's stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.at_ms: float | None = None

    def record(self) -> None:
        self.at_ms = self._stream.issued_ms

    def query(self) -> bool:
        return self.at_ms is not None and self.at_ms <= self._stream.done_ms

    def elapsed_time(self, later: "Event") -> float:
        if not (self.query() and later.query()):
            raise RuntimeError("device not ready: the event has not completed")
        return later.at_ms - self.at_ms


class Kernel(torch.autograd.Function):
    """Passes values on; issues work to the stream in forward, and other work in backward."""

    @staticmethod
    def forward(context, values, stream, forward_ms, backward_ms):
        context.stream, context.backward_ms = stream, backward_ms
        stream.launch(forward_ms)
        return values.clone()

    @staticmethod
    def backward(context, gradient):
        context.stream.launch(context.backward_ms)
        return gradient, None, None, None


class Layer(nn.Module):
    """One weight; its forward and backward work are known, in milliseconds of the stream.

    The weight's gradient is ready once the work behind it (nearer to the loss) and the layer's own is issued.
    """

    def __init__(self, stream: Stream, forward_ms: float, backward_ms: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.work = (stream, forward_ms, backward_ms)

    def forward(self, values):
        return Kernel.apply(values * self.weight, *self.work)


class Optimizer(torch.optim.SGD):
    """SGD whose step is 3 ms of work."""

    def __init__(self, stream: Stream, parameters) -> None:
        super().__init__(parameters, lr=0.0)
        self.stream = stream

    def step(self, closure=None):
        self.stream.launch(3.0)
        return super().step(closure)


FORWARD_MS, BACKWARD_MS = (1.0, 2.0, 4.0), (0.5, 8.0, 2.5)


@pytest.fixture
def stream():
    return Stream()


@pytest.fixture
def clock(stream):
    return CudaClock(stream.event, stream.synchronize, device_type="cpu")


def network(stream):
    return nn.Sequential(*(Layer(stream, f, b) for f, b in zip(FORWARD_MS, BACKWARD_MS, strict=True)))


def total(model):
    return model(torch.ones(4)).sum()


def test_events_tell_when_the_device_was_done_not_when_the_host_asked(stream, clock):
    model = network(stream)
    profile = profile_backward(model, total, Optimizer(stream, model.parameters()), steps=6, warmup=1, clock=clock)
    assert [tensor.name for tensor in profile.tensors] == ["2.weight", "1.weight", "0.weight"]
    # The host took microseconds for all of this: every figure is of the stand-in's work alone.
    assert [tensor.gap_s for tensor in profile.tensors] == pytest.approx([0.0025, 0.008, 0.0005], abs=1e-9)
    assert [tensor.forward_s for tensor in profile.tensors] == pytest.approx([0.004, 0.002, 0.001], abs=1e-9)
    assert profile.forward_s == pytest.approx(0.007, abs=1e-9)
    assert profile.optimizer_s == pytest.approx(0.003, abs=1e-9)
    assert profile.backward_samples_s == pytest.approx([0.011] * 6, abs=1e-9)
    assert profile.hook_overhead.ratio == pytest.approx(1.0)
    assert not profile.disturbed or all("spread" not in warning for warning in profile.warnings)


def test_the_host_waits_once_a_step_and_after_it(stream, clock):
    model = network(stream)
    waits = []

    def loss(model):
        waits.append(stream.synchronized)
        return total(model)

    profile_backward(model, loss, Optimizer(stream, model.parameters()), steps=4, warmup=2, clock=clock)
    # Two steps of warm-up, four with hooks and four without: each begins after exactly one more wait.
    assert waits == list(range(10))
    assert stream.synchronized == 10


def test_events_are_used_again(stream, clock):
    model = network(stream)
    optimizer = Optimizer(stream, model.parameters())
    profile_backward(model, total, optimizer, steps=2, warmup=1, clock=clock)
    made = stream.events
    profile_backward(model, total, optimizer, steps=9, warmup=1, clock=clock)
    # Four for the step, one a gradient, one a layer.
    assert made == stream.events == 4 + 3 + 3


def test_an_event_that_has_not_completed_tells_nothing(stream):
    first, second = stream.event(), stream.event()
    first.record()
    stream.launch(5.0)
    second.record()
    with pytest.raises(RuntimeError, match="not ready"):
        first.elapsed_time(second)
    lazy = CudaClock(stream.event, lambda: None, device_type="cpu")
    marks = [lazy.mark(), lazy.mark()]
    with pytest.raises(RuntimeError, match="not ready"):
        lazy.seconds(marks)
    stream.synchronize()
    assert first.elapsed_time(second) == 5.0


def test_single_precision_of_events_never_puts_a_gradient_outside_of_backward(stream):
    class Rounded(Event):
        def elapsed_time(self, later):
            return super().elapsed_time(later) * (1 + 1e-6 * (later.at_ms % 7))

    clock = CudaClock(lambda: Rounded(stream), stream.synchronize, device_type="cpu")
    model = network(stream)
    profile = profile_backward(model, total, Optimizer(stream, model.parameters()), steps=8, clock=clock)
    for tensor in profile.tensors:
        assert all(0 <= sample <= 1 for sample in tensor.ready_samples)
        assert tensor.gap_s >= 0


def test_batches_are_timed_by_the_device(stream, clock):
    model = network(stream)

    def loss(model, batch):
        stream.launch(batch * 0.25)
        return total(model)

    optimizer = Optimizer(stream, model.parameters())
    timings = profile_batches(model, loss, optimizer, [4, 16], steps=3, warmup=1, clock=clock)
    assert [timing.forward_s for timing in timings] == [pytest.approx([0.008] * 3), pytest.approx([0.011] * 3)]
    assert timings[0].backward_s == pytest.approx([0.011] * 3)


def test_a_whole_profile_by_the_stand_in(stream, clock):
    model = network(stream)

    def function():
        return model, lambda model, batch: model(batch).sum(), torch.ones(4), Optimizer(stream, model.parameters())

    measured = profile_training(make_job("stand-in", function), clock=clock, steps=6)
    profile = profile_of(measured, name="stand-in", source="a test", machine={})
    assert profile.clock == "cuda-events"
    assert profile.workload().compute_s == pytest.approx(0.021, abs=1e-8)


def test_a_model_elsewhere_than_its_clock_is_refused():
    clock = CudaClock(lambda: None, lambda: None)
    with pytest.raises(InputError, match="weight is on cpu: move the model to the cuda"):
        profile_backward(nn.Linear(2, 2), total, None, clock=clock)


def test_the_clock_of_a_device():
    assert isinstance(clock_of("cpu"), CpuClock)
    assert isinstance(clock_of("mps"), CpuClock)
    with pytest.raises(TypeError):
        Clock()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device: its events never ran here")
def test_real_events():
    model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(4))).cuda()
    inputs = torch.ones(256, 2048, device="cuda")
    profile = profile_backward(
        model, lambda model: model(inputs).sum(), torch.optim.SGD(model.parameters(), lr=0.0), clock=CudaClock()
    )
    assert [tensor.name for tensor in profile.tensors] == [f"{layer}.weight" for layer in (3, 2, 1, 0)]
    assert all(tensor.gap_s > 0 for tensor in profile.tensors)
