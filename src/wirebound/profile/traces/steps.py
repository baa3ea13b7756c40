"""Where training steps begin and end in a PyTorch trace, and how each divides into forward, backward and the rest.

A step runs from one ``ProfilerStep`` mark to the next. On a GPU the device lags behind the host, so each step's device
activity is found through its launches: what was launched before the mark belongs to the step before. Then, in the
clock of the device (of a trace without device activity: of the host),

- the step begins at its mark, or when the activity of the step before has ended, whichever is later;
- backward begins with the first computation launched since autograd's first operation of the step;
- a gradient message is ready when its collective starts; where that had to queue behind another one, when it was
  asked for on the host, and not before the message ahead of it;
- the step was waiting for communication where, after the last gradient was ready, nothing was computed until the last
  transfer ended, and computation went on right then.

With gradient accumulation backward begins with the first pass's, so that the passes are not told apart.
"""

import bisect
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from wirebound.profile.traces.intervals import within
from wirebound.profile.traces.kineto import KinetoTrace
from wirebound.profile.traces.summary import Collective

#: A mark shorter than this share of the longest is the rest of a recording, not a step.
_STUB = 0.1
#: A collective that starts within this many µs after the one before it had queued behind it.
_QUEUED_US = 30.0
#: Computation that goes on within this many µs (or 1 % of the step) after a transfer was waiting for it.
_RESUMED_US = 200.0


@dataclass(frozen=True, slots=True)
class TracedStep:
    """One training step, times in µs: forward, then when each gradient message was ready since backward began.

    `rest_us` is what follows the last gradient, without the waiting for communication (`waited_us`); so
    forward + last ready + waited + rest is the step's `duration_us`. `queued` counts messages whose ready time is
    the host's. `messages` are the gradient all-reduces in the order in which they were ready.
    """

    number: str
    duration_us: float
    forward_us: float
    ready_us: tuple[float, ...]
    waited_us: float
    rest_us: float
    queued: int
    messages: tuple[Collective, ...]


def whole_steps(trace: KinetoTrace) -> list[tuple[str, float, float]]:
    """Return number, start and end of each marked step in order of time, stubs left out; the end is the next start.

    The end of a step whose next one is not marked is the end of its own mark.
    """
    marks = sorted((start, end, number) for number, (start, end) in trace.step_marks.items())
    longest = max((end - start for start, end, _ in marks), default=0.0)
    steps = []
    for index, (start, end, number) in enumerate(marks):
        if end - start < _STUB * longest or end <= start:
            continue
        if index + 1 < len(marks):
            after, _, next_number = marks[index + 1]
            if number.isdecimal() and next_number.isdecimal() and int(next_number) == int(number) + 1:
                end = max(after, start)
        steps.append((number, start, end))
    return steps


def traced_steps(trace: KinetoTrace) -> list[TracedStep]:
    """Return the steps that could be divided: those with a backward pass and gradient all-reduces."""
    found = []
    for (number, _, _), window in zip(whole_steps(trace), _windows(trace), strict=True):
        step = _divided(trace, number, window)
        if step is not None:
            found.append(step)
    return found


@dataclass(slots=True)
class _Window:
    """One step: the host's bounds, and in the device's clock its bounds and what is between."""

    host_start: float
    host_end: float
    host_backward: float | None
    host_optimizer: float
    start: float = 0.0
    end: float = 0.0
    backward: float = math.inf
    computed_until: float = -math.inf
    goes_on: float = math.inf


def _windows(trace: KinetoTrace) -> list[_Window]:
    steps = whole_steps(trace)
    backward, optimizer = sorted(trace.backward), sorted(start for start, _ in trace.optimizer)
    windows = []
    for _, start, end in steps:
        first = _first_within(backward, start, end)
        last = _first_within(optimizer, start if first is None else first, end)
        windows.append(_Window(start, end, first, end if last is None else last))
    if trace.on_device:
        _fill_from_device(trace, windows)
        return windows
    for window in windows:
        window.start, window.end = window.host_start, window.host_end
        window.backward = math.inf if window.host_backward is None else window.host_backward
        window.goes_on = window.host_optimizer
    return windows


def _first_within(times: Sequence[float], start: float, end: float) -> float | None:
    index = bisect.bisect_left(times, start)
    return times[index] if index < len(times) and times[index] < end else None


def _fill_from_device(trace: KinetoTrace, windows: list[_Window]) -> None:
    starts = [window.host_start for window in windows]
    ended = [-math.inf] * (len(windows) + 1)  # when what was launched in each step has ended; first: before all
    for start, end, launch, computes in zip(trace.started, trace.ended, trace.launched, trace.computing, strict=True):
        index = bisect.bisect_right(starts, launch)
        if index == 0 or launch < windows[index - 1].host_end:
            ended[index] = max(ended[index], end)
        if index == 0 or not computes:
            continue
        window = windows[index - 1]
        if launch >= window.host_optimizer:
            window.goes_on = min(window.goes_on, start)
            continue
        window.computed_until = max(window.computed_until, end)
        if window.host_backward is not None and launch >= window.host_backward:
            window.backward = min(window.backward, start)
    busy_until = list(itertools.accumulate(ended, max))
    for index, window in enumerate(windows):
        window.start = max(window.host_start, busy_until[index])
        window.end = max(window.host_end, busy_until[index + 1])


def _divided(trace: KinetoTrace, number: str, window: _Window) -> TracedStep | None:
    messages = [
        collective
        for collective in trace.collectives
        if collective.kind == "all_reduce"
        and collective.duration_us is not None
        and _is_gradient(collective)
        and window.host_backward is not None
        and window.host_backward <= _asked(collective) < window.host_end
    ]
    if not messages or not math.isfinite(window.backward) or window.end <= window.start:
        return None
    ready, queued, before = [], 0, window.backward
    for index, message in enumerate(messages):
        moment = message.start_us if trace.on_device else _asked(message)
        # One that starts while another still runs is on a stream of its own and did not queue.
        if trace.on_device and index and -1 < message.start_us - messages[index - 1].end_us < _QUEUED_US:
            queued += 1
            moment = min(moment, _asked(message))
        before = max(before, moment)
        ready.append(before - window.backward)
    last_ready = window.backward + ready[-1]
    waited = _waited(trace, window, last_ready, max(message.end_us for message in messages))
    return TracedStep(
        number=number,
        duration_us=window.end - window.start,
        forward_us=max(0.0, window.backward - window.start),
        ready_us=tuple(ready),
        waited_us=waited,
        rest_us=max(0.0, window.end - last_ready - waited),
        queued=queued,
        messages=tuple(messages),
    )


def _is_gradient(collective: Collective) -> bool:
    """Whether its type may be a gradient's: floating point, or not known."""
    return collective.dtype is not None or collective.size is None


def _asked(collective: Collective) -> float:
    return collective.start_us if collective.launch_us is None else collective.launch_us


def _waited(trace: KinetoTrace, window: _Window, last_ready: float, transferred: float) -> float:
    if transferred <= last_ready:
        return 0.0
    if not trace.on_device:  # DDP's backward itself waits for gloo
        computed = within(trace.operations.union(), last_ready, transferred)
        return max(0.0, min(transferred, window.end) - last_ready - computed)
    tolerance = max(_RESUMED_US, 0.01 * (window.end - window.start))
    if not 0 <= window.goes_on - transferred <= tolerance:
        return 0.0
    return max(0.0, transferred - max(last_ready, window.computed_until))


def median_steps(steps: Sequence[TracedStep]) -> list[TracedStep]:
    """Return the steps whose messages have the sizes that most steps have."""
    sizes = [tuple(message.size for message in step.messages) for step in steps]
    most = statistics.mode(sizes)
    return [step for step, own in zip(steps, sizes, strict=True) if own == most]
