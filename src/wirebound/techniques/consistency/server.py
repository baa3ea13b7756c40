"""A parameter server that owns the model: it applies gradients and decides who may go on.

BSP applies the mean of all gradients at once. SSP and ASP apply each gradient as it comes; a worker that is more than
the bound ahead of the slowest gets its parameters only when that one has caught up (Ho et al. 2013).
"""

import queue
import threading
from functools import partial

import torch
from torch import Tensor
from torch import distributed as dist

from wirebound.techniques.consistency.learner import clock, pause_until
from wirebound.techniques.consistency.plan import Applied, Plan
from wirebound.techniques.process_group import PATIENT, Group, one_line

#: Instead of a version: enough updates have been applied, go home.
STOP = -1.0


class Server:
    """Serves ranks 0 … P − 1 of `group` with the parameters `values`, until the updates of the plan are applied."""

    def __init__(self, plan: Plan, group: Group, values: Tensor) -> None:
        self._plan, self._group, self._values = plan, group, values
        self._bound = {"bsp": 0, "ssp": plan.parameter, "asp": plan.updates}[plan.protocol] or 0
        self._clocks = [0] * plan.workers
        self._version = 0
        self._read = [0] * plan.workers  # the version that each worker has
        self._ahead = [0] * plan.workers  # how far ahead of the slowest it was when it read
        self._waiting: set[int] = set()
        self._gradients = [torch.empty_like(values) for _ in range(plan.workers)]
        self._come: queue.SimpleQueue[tuple[int, float] | BaseException] = queue.SimpleQueue()
        self._goes_on: list[queue.SimpleQueue[bool]] = [queue.SimpleQueue() for _ in range(plan.workers)]
        self._answers: list[tuple[Tensor, dist.Work] | None] = [None] * plan.workers
        self.applied: list[Applied] = []
        self.snapshots: list[tuple[int, float, Tensor]] = [(0, clock(), values.clone())]

    def serve(self) -> None:
        """Apply gradients until there are enough, then send every worker home."""
        receivers = [
            threading.Thread(target=partial(self._receive, worker), name=f"from-{worker}", daemon=True)
            for worker in range(self._plan.workers)
        ]
        for receiver in receivers:
            receiver.start()
        while len(self.applied) < self._plan.updates:
            worker, come_s = self._next()
            taken_s = clock()
            pause_until(taken_s + self._plan.server_s)
            if self._plan.protocol == "bsp":
                self._collect(worker)
            else:
                self._apply(worker)
            self._let_go_on()
            self.applied[-1] = self.applied[-1]._replace(come_s=come_s, taken_s=taken_s, free_s=clock())
        at_work = set(range(self._plan.workers)) - self._waiting
        for worker in self._waiting:
            self._answer(worker, STOP)
        for _ in at_work:  # their last gradients come too late
            self._answer(self._next()[0], STOP)
        for sent in self._answers:
            if sent is not None:
                sent[1].wait()
        for receiver in receivers:
            receiver.join()

    def _receive(self, worker: int) -> None:
        """Receive the gradients of one worker, the next after its answer, until it is sent home."""
        try:
            with one_line(f"lost worker {worker}"):
                going_on = True
                while going_on:
                    self._group.recv([self._gradients[worker]], worker, 0).wait(PATIENT)
                    self._come.put((worker, clock()))
                    going_on = self._goes_on[worker].get()
        except BaseException as error:
            self._come.put(error)

    def _next(self) -> tuple[int, float]:
        """Return whose gradient has come, and when."""
        come = self._come.get()
        if isinstance(come, BaseException):
            raise come
        return come

    def _apply(self, worker: int) -> None:
        rate = self._plan.learning_rate / self._plan.workers
        self._values.sub_(self._gradients[worker], alpha=rate)
        self._note(worker, self._version - self._read[worker])
        self._version += 1
        self._keep()

    def _collect(self, worker: int) -> None:
        """BSP: nothing changes before the last gradient is there; they are added in the order of the workers."""
        self._note(worker, 0)
        if min(self._clocks) == max(self._clocks):
            mean = torch.stack(self._gradients).mean(dim=0)
            self._values.sub_(mean, alpha=self._plan.learning_rate)
            self._version += self._plan.workers
            self._keep()

    def _note(self, worker: int, staleness: int) -> None:
        self.applied.append(Applied(worker, self._clocks[worker], staleness, self._ahead[worker], 0.0, 0.0, 0.0))
        self._clocks[worker] += 1
        self._waiting.add(worker)

    def _let_go_on(self) -> None:
        """Answer whoever waits and is within the bound; the last updates are answered by a goodbye."""
        if len(self.applied) == self._plan.updates:
            return
        slowest = min(self._clocks)
        for worker in sorted(self._waiting):
            if self._clocks[worker] - slowest <= self._bound:
                self._waiting.remove(worker)
                self._read[worker], self._ahead[worker] = self._version, self._clocks[worker] - slowest
                self._answer(worker, float(self._version))

    def _answer(self, worker: int, version: float) -> None:
        """Send the parameters and their version, which a 32-bit number holds exactly up to 2²⁴."""
        self._goes_on[worker].put(version != STOP)
        answer = torch.cat([self._values, torch.tensor([version])])
        with one_line(f"lost worker {worker}"):
            # The worker has what was sent before: it has sent a gradient since.
            self._answers[worker] = (answer, self._group.send([answer], worker, 0))

    def _keep(self) -> None:
        plan, count, due = self._plan, self._version, len(self.snapshots)
        if due <= plan.snapshots and count >= due * plan.updates / plan.snapshots:
            self.snapshots.append((count, clock(), self._values.clone()))
