"""All-reduce, first come first served: after backward in one message (BSP), or tensor by tensor during it (WFBP)."""

import queue
import threading
from collections.abc import Sequence

from torch import Tensor, nn
from torch import distributed as dist

from wirebound.techniques.layout import Message
from wirebound.techniques.process_group import Group, all_reduce, broadcast, finished, one_line
from wirebound.techniques.recorder import MessageRecord, Recorder
from wirebound.techniques.synchronizer import Synchronizer, backward_order


class AllReduce(Synchronizer):
    """Sums each message over the workers as soon as it is full and all messages before it have been handed over.

    `group` should run one collective at a time (`process_group.fifo_group`). All workers must send the same messages in
    the same order, or sums would mix: that is why a message may have to wait for one before it. The other arguments
    are those of `Synchronizer`.
    """

    def __init__(
        self,
        model: nn.Module,
        group: Group,
        groups: Sequence[Sequence[str]] | None = None,
        *,
        unused_parameters: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        self._group = group
        self._works: list[tuple[Message, dist.Work]] = []
        super().__init__(model, groups, unused_parameters=unused_parameters, recorder=recorder)
        self._watch = _Watch(recorder) if recorder is not None else None

    def _broadcast(self, tensor: Tensor) -> None:
        with one_line("the workers could not exchange their first parameters"):
            broadcast(self._group, tensor).wait()

    def _send(self, message: Message) -> None:
        for full in self._full_in_order():
            with one_line(f"the all-reduce of {full.names[0]} failed"):
                work = all_reduce(self._group, full.buffer)
            self._works.append((full, work))
            if self._watch is not None:
                self._watch.handed_over(full, work)

    def _wait(self) -> None:
        for message, work in self._works:
            with one_line(f"the all-reduce of {message.names[0]} failed"):
                work.wait()
            message.buffer /= self._group.size()
        self._works.clear()

    def close(self) -> None:
        super().close()
        if self._watch is not None:
            self._watch.close()
        with one_line("the workers could not part"):
            self._group.barrier().wait()


class _Watch:
    """A thread that waits for one message after the other and records when it ended."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._handed_over: queue.SimpleQueue[tuple[int, Message, dist.Work, float, float] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def handed_over(self, message: Message, work: dist.Work) -> None:
        """Watch a transfer that the group has just been given."""
        self._handed_over.put((message.step, message, work, message.ready_s, self._recorder.clock()))

    def close(self) -> None:
        """Record what is under way, then end."""
        self._handed_over.put(None)
        self._thread.join()

    def _run(self) -> None:
        before = 0.0
        while (item := self._handed_over.get()) is not None:
            step, message, work, ready_s, handed_over_s = item
            try:
                finished(work, message.buffer.device)
            except RuntimeError:
                return  # the training thread meets the same error and reports it
            start_s, before = max(handed_over_s, before), self._recorder.clock()
            self._recorder.add(MessageRecord("all-reduce", step, message.size, ready_s, start_s, before, message.names))


def bsp(
    model: nn.Module, group: Group, *, unused_parameters: bool = False, recorder: Recorder | None = None
) -> AllReduce:
    """Bulk-synchronous: one message with all gradients, which is full when backward ends."""
    return AllReduce(model, group, [backward_order(model)], unused_parameters=unused_parameters, recorder=recorder)


def wfbp(
    model: nn.Module,
    group: Group,
    order: Sequence[str] | None = None,
    *,
    unused_parameters: bool = False,
    recorder: Recorder | None = None,
) -> AllReduce:
    """Wait-free backpropagation (Zhang et al. 2017, Poseidon): one message per tensor, under the rest of backward.

    `order` names the parameters as their gradients become ready; against their registration if not given.
    """
    order = backward_order(model) if order is None else order
    return AllReduce(model, group, [[name] for name in order], unused_parameters=unused_parameters, recorder=recorder)
