"""A training step played out: a process computes and lets gradients go, another sends them."""

import math
from dataclasses import dataclass

import simpy

from .exchange import Network
from .fusion import rule_of
from .job import Job, job_of
from .transport import CreditedTransport, FifoTransport

#: Steps played with priorities, where a step begins before the one before it has ended; the last period counts.
STEPS = 6


@dataclass(frozen=True)
class Sent:
    size: float
    ready_s: float
    start_s: float
    end_s: float
    tensors: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    iteration_s: float
    compute_s: float
    worker_bytes: float
    node_bytes: float
    utilization: float
    messages: list[Sent]

    @property
    def communication_s(self):
        return sum(message.end_s - message.start_s for message in self.messages)


@dataclass
class Piece:
    """What the network carries at a time; `done` fires when it has arrived."""

    step: int
    size: float
    tensors: tuple[int, ...]
    ready_s: float
    done: simpy.Event
    start_s: float = 0.0
    end_s: float = 0.0


def pieces_of(sizes, tensors, limit):
    """Cut the bytes of `tensors`, laid end to end, every `limit` bytes: (size, tensors that it has a part of)."""
    total = sum(sizes[t] for t in tensors)
    count = max(1, math.ceil(total / limit - 1e-9))  # a crumb left by rounding is no piece
    cuts = []
    for number in range(count):
        begin, end = number * limit if number else 0.0, (number + 1) * limit if number < count - 1 else total
        inside, at = [], 0
        for tensor in tensors:
            if at < end and at + sizes[tensor] > begin:
                inside.append(tensor)
            at += sizes[tensor]
        cuts.append((end - begin, tuple(inside)))
    return cuts


class Training:
    """One worker that stands for all of them, since they do the same at the same time."""

    def __init__(self, job: Job, method, network, accumulation):
        self.job, self.method, self.network, self.accumulation = job, method, network, accumulation
        # the clock reads 0 when the first backward pass that communicates begins, so that no rounding precedes it
        self.env = simpy.Environment()
        self.priority = method.schedule == "priority"
        transport = CreditedTransport if self.priority else FifoTransport
        self.transport = transport(self.env, network, method.credit_bytes)
        self.sent = []
        self.backward_began = []

    def backward(self, step):
        """The backward pass that communicates; ends when its last gradient is ready."""
        env, job = self.env, self.job
        began = env.now
        self.backward_began.append(began)
        rule = rule_of(job, self.method, self.network)
        for index, gap in enumerate(job.gaps):
            yield env.timeout(gap)
            for group in rule.ready(index, job.sizes[index], env.now - began):
                self.let_go(step, group)
        for group in rule.over():
            self.let_go(step, group)

    def let_go(self, step, group):
        for size, tensors in pieces_of(self.job.sizes, group, self.method.partition_bytes):
            piece = Piece(step, size, tensors, self.env.now, self.env.event())
            self.sent.append(piece)
            self.transport.submit(piece)

    def arrived(self, step, tensor=None):
        """An event: the pieces of this step (of this tensor) have arrived."""
        mine = [p.done for p in self.sent if p.step == step and (tensor is None or tensor in p.tensors)]
        return simpy.AllOf(self.env, mine)

    def forward_waiting_for_all(self, step):
        yield self.arrived(step)
        yield self.env.timeout(self.job.optimizer_s)
        yield self.env.timeout(self.job.forward_s)

    def forward_layer_by_layer(self, step):
        """The first layer's gradient was the last to become ready; each is updated right before it is used."""
        for tensor in reversed(range(len(self.job.sizes))):
            yield self.arrived(step, tensor)
            yield self.env.timeout(self.job.optimizer_shares[tensor])
            yield self.env.timeout(self.job.forwards[tensor])

    def run(self, steps):
        forward = self.forward_layer_by_layer if self.priority else self.forward_waiting_for_all

        def trainer():
            for step in range(steps):
                yield from self.backward(step)
                yield from forward(step)
                for _pass in range(self.accumulation - 1):
                    yield self.env.timeout(self.job.backward_s)
                    yield self.env.timeout(self.job.forward_s)
            self.backward_began.append(self.env.now)

        self.env.run(until=self.env.process(trainer()))
        return self.backward_began[-1] - self.backward_began[-2]


def second_step(workload, cluster, method, *, include_vector_add=True, accumulation=1) -> Result:
    """One step in steady state, in SI units; the same question as `wirebound.simulate.step.simulate_step` answers."""
    job = job_of(workload)
    compute = accumulation * (job.forward_s + job.backward_s) + job.optimizer_s
    if cluster.nodes * cluster.accelerators_per_node == 1:
        return Result(compute, compute, 0.0, 0.0, 0.0, [])
    network = Network(cluster, method, job.add_table if include_vector_add else [])
    training = Training(job, method, network, accumulation)
    steps = STEPS if training.priority else 1
    period = training.run(steps)
    began = training.backward_began[steps - 1]
    last = sorted((p for p in training.sent if p.step == steps - 1), key=lambda p: p.order)
    messages = [Sent(p.size, p.ready_s - began, p.start_s - began, p.end_s - began, p.tensors) for p in last]
    node = sum(network.exchange(p.size).node_bytes for p in last)
    worker = sum(network.exchange(p.size).worker_bytes for p in last)
    return Result(
        period, compute, worker, node, node / (cluster.inter.bandwidth * cluster.nics_per_node * period), messages
    )
