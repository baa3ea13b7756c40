"""A step whose device encodes and decodes beside computing, and whose wire pushes and pulls: played out with SimPy.

The device does one task at a time. A message is encoded right after its last gradient; what has arrived is decoded
before the next gradient, or the next layer, is begun. Push is first come first served or most urgent first, with a
credit that a message gives back when its push ends; the pull of one message runs beside the push of later ones.
"""

import math
from dataclasses import dataclass, field

import simpy

from .engine import pieces_of
from .fusion import Planned, mg_wfbp_plan, rule_of
from .job import job_of
from .stage_costs import StageCosts
from .transport import CreditedTransport, FifoTransport

#: More turns of the event loop than anything that happens at one instant needs to be told to everyone.
TURNS = 12
STEPS = 4


@dataclass
class Coded:
    """One message on its way."""

    step: int
    size: float
    tensors: tuple[int, ...]
    costs: object
    times: dict = field(default_factory=dict)
    order: int = -1


class Fifo(FifoTransport):
    """Push in turn; `after_push` hears of each that ends."""

    def __init__(self, env, credit, after_push):
        self.after_push = after_push
        super().__init__(env, None)

    def _carry(self):
        return carry(self)


class Credited(CreditedTransport):
    def __init__(self, env, credit, after_push):
        self.after_push = after_push
        super().__init__(env, None, credit)

    def _carry(self):
        return carry(self)


def carry(transport):
    """The push of one message after the other."""
    env = transport.env
    while True:
        message = yield transport.queue.get()
        message.order, transport.order = transport.order, transport.order + 1
        message.times["start"] = env.now
        yield env.timeout(message.costs.push)
        message.times["push_end"] = env.now
        transport.finished(message)
        transport.after_push(message)


class StagedTraining:
    def __init__(self, job, workload, cluster, method, costs, accumulation):
        self.env = simpy.Environment()
        self.job, self.method, self.costs, self.accumulation = job, method, costs, accumulation
        self.tictac = method.schedule == "tictac"
        self.layered = method.schedule in ("priority", "tictac")
        self.messages, self.arrived, self.pulling = [], [], simpy.Store(self.env)
        self.news = self.env.event()
        self.pushed = 0
        self.backward_over = False
        self.held_back = []
        kind = Credited if method.schedule == "priority" else Fifo
        self.transport = kind(self.env, method.credit_bytes, self.push_ended)
        self.env.process(self.pull())
        self.began = []

    def rule(self):
        if self.method.schedule == "tictac":
            return Planned(range(len(self.job.sizes)))
        if self.method.schedule != "mg-wfbp":
            return rule_of(self.job, self.method, None)
        job = self.job
        alpha = self.costs.seconds_of_share(0.0)
        beta = max(0.0, self.costs.seconds_of_share(1.0) - alpha) / sum(job.sizes)
        ready = [sum(job.gaps[: index + 1]) for index in range(len(job.gaps))]
        return Planned(mg_wfbp_plan(ready, job.sizes, alpha, beta, self.method.merge_below_bytes))

    # the wire

    def push_ended(self, message):
        if self.tictac:
            self.held_back.append(message)
            self.barrier()
        else:
            self.pulling.put(message)

    def barrier(self):
        """TicTac pulls when backward and every push are over, the first layer's message first."""
        if self.backward_over and len(self.held_back) == sum(m.step == len(self.began) - 1 for m in self.messages):
            for message in sorted(self.held_back, key=lambda m: -m.tensors[-1]):
                self.pulling.put(message)
            self.held_back = []

    def pull(self):
        while True:
            message = yield self.pulling.get()
            message.times["pull_start"] = self.env.now
            yield self.env.timeout(message.costs.pull)
            message.times["end"] = self.env.now
            self.arrived.append(message)
            if not self.news.triggered:
                self.news.succeed()

    # the device

    def settle(self):
        """Let everything that happens at this very instant be told first."""
        for _turn in range(TURNS):
            yield self.env.timeout(0)

    def decode_arrived(self, needed=None):
        """Decode what has arrived; with `needed`, only up to the last of these (TicTac: when a layer asks for it)."""
        yield from self.settle()
        while self.arrived and not (needed is not None and all("decoded" in m.times for m in needed)):
            message = self.arrived.pop(0)
            yield self.env.timeout(message.costs.decode)
            message.times["decoded"] = self.env.now
            yield from self.settle()

    def wait_for(self, step, tensor=None):
        """Decode until the messages of this step (of this tensor) are there."""
        mine = [m for m in self.messages if m.step == step and (tensor is None or tensor in m.tensors)]
        needed = mine if self.tictac else None
        yield from self.decode_arrived(needed)
        while not all("decoded" in m.times for m in mine):
            self.news = self.env.event()
            if not self.arrived:
                yield self.news
            yield from self.decode_arrived(needed)

    def encode(self, step, group):
        """The messages of a group; only uncompressed gradients are cut here, as P3 does."""
        sizes, limit = self.job.sizes, self.method.partition_bytes
        if limit == math.inf:
            made = [Coded(step, sum(sizes[t] for t in group), tuple(group), self.costs.of(group))]
        else:
            made = [Coded(step, size, part, self.costs.of_bytes(size)) for size, part in pieces_of(sizes, group, limit)]
        for message in made:
            message.times["ready"] = self.env.now
        self.messages += made
        return made

    def backward(self, step):
        rule, env, job = self.rule(), self.env, self.job
        self.began.append(env.now)
        self.backward_over = False
        elapsed = 0.0  # backward time: what the rules of fusion look at
        for index, gap in enumerate(job.gaps):
            yield from self.decode_arrived()
            yield env.timeout(gap)
            elapsed += gap
            groups = rule.ready(index, job.sizes[index], elapsed)
            if index == len(job.gaps) - 1:
                groups = groups + rule.over()
            for message in [message for group in groups for message in self.encode(step, group)]:
                yield env.timeout(message.costs.encode)
                message.times["encoded"] = env.now
                self.transport.submit(message)
        self.backward_over = True
        if self.tictac:
            yield from self.settle()
            self.barrier()

    def run(self, steps):
        job, env = self.job, self.env

        def device():
            for step in range(steps):
                yield from self.backward(step)
                if self.layered:
                    for tensor in reversed(range(len(job.sizes))):
                        yield from self.wait_for(step, tensor)
                        yield env.timeout(job.optimizer_shares[tensor])
                        yield env.timeout(job.forwards[tensor])
                else:
                    yield from self.wait_for(step)
                    yield env.timeout(job.optimizer_s)
                    yield env.timeout(job.forward_s)
                yield env.timeout((self.accumulation - 1) * (job.backward_s + job.forward_s))
            self.began.append(env.now)

        env.run(until=env.process(device()))
        return self.began[-1] - self.began[-2]


def second_staged_step(workload, cluster, method, *, include_vector_add=True, accumulation=1):
    """(period, messages of the last step in the order of sending, times since its backward began, StageCosts)."""
    job = job_of(workload)
    costs = StageCosts(workload, cluster, method, job.add_table if include_vector_add else [])
    training = StagedTraining(job, workload, cluster, method, costs, accumulation)
    steps = STEPS if training.layered else 1
    period = training.run(steps)
    began = training.began[steps - 1]
    last = sorted((m for m in training.messages if m.step == steps - 1), key=lambda m: m.order)
    for message in last:
        message.times = {name: time - began for name, time in message.times.items()}
    return period, last, costs
