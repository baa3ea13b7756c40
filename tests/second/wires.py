"""Ports and mailboxes: what a machine's network card does with a message."""

import simpy


class Port:
    """One direction of a link: serves one message at a time at `bandwidth` B/s, delivers it `latency` s later."""

    def __init__(self, env, link):
        self.env = env
        self.bandwidth = link.bandwidth * link.utilization
        self.latency = link.latency_s
        self.line = simpy.Resource(env, capacity=1)
        self.sent = 0.0

    def send(self, size, mailbox=None):
        """A process: put `size` bytes on the line when it is free; it is in `mailbox` when its last byte arrives."""
        with self.line.request() as turn:
            yield turn
            yield self.env.timeout(size / self.bandwidth)
        self.sent += size
        yield self.env.timeout(self.latency)
        if mailbox is not None:
            yield mailbox.put(size)


class Ranks:
    """`count` machines with a full-duplex port each and a mailbox for every sender, so that no message is mistaken."""

    def __init__(self, env, count, link):
        self.env = env
        self.count = count
        self.link = link
        self.ports = [Port(env, link) for _ in range(count)]
        self._boxes = {}

    def box(self, sender, receiver):
        if (sender, receiver) not in self._boxes:
            self._boxes[sender, receiver] = simpy.Store(self.env)
        return self._boxes[sender, receiver]

    def send(self, sender, receiver, size):
        """Start a transfer; the sender may go on, as a card with its own memory access lets it."""
        return self.env.process(self.ports[sender].send(size, self.box(sender, receiver)))

    def receive(self, sender, receiver):
        return self.box(sender, receiver).get()

    @property
    def busiest_sent(self):
        return max(port.sent for port in self.ports)


def everyone(env, processes):
    """An event that fires when all of these have ended."""
    return simpy.AllOf(env, [env.process(process) for process in processes])
