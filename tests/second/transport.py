"""Who goes on the wire next: first come first served, or most urgent first with a credit (ByteScheduler)."""

import simpy


class FifoTransport:
    """One piece at a time, in the order in which they were let go."""

    def __init__(self, env, network, credit=None):
        self.env, self.network = env, network
        self.queue = simpy.Store(env)
        self.order = 0
        env.process(self._carry())

    def submit(self, piece):
        self.queue.put(piece)

    def _carry(self):
        while True:
            piece = yield self.queue.get()
            piece.order, self.order = self.order, self.order + 1
            piece.start_s = self.env.now
            yield self.env.timeout(self.network.seconds(piece.size))
            piece.end_s = self.env.now
            piece.done.succeed()
            self.finished(piece)

    def finished(self, piece):
        """Nothing to do; a credited transport gets its credit back."""


class CreditedTransport(FifoTransport):
    """Hands pieces over to the first-come-first-served wire, most urgent first, as far as the credit reaches.

    Most urgent is the gradient that became ready last: its layer comes first in the next forward pass. What was handed
    over cannot be overtaken. With nothing handed over, one piece may go however large.
    """

    def __init__(self, env, network, credit):
        super().__init__(env, network)
        self.credit = credit
        self.waiting, self.handed_over = [], []
        self.news = env.event()
        env.process(self._hand_over())

    def submit(self, piece):
        self.waiting.append(piece)
        self._wake()

    def finished(self, piece):
        self.handed_over.remove(piece)
        self._wake()

    def _wake(self):
        if not self.news.triggered:
            self.news.succeed()

    def _hand_over(self):
        while True:
            yield self.news
            self.news = self.env.event()
            while self.env.peek() == self.env.now:  # whatever else happens now, happens first
                yield self.env.timeout(0)
            while self.waiting:
                # a stable choice: pieces of one gradient, and of an earlier step first, in their order
                urgent = max(self.waiting, key=lambda piece: (-piece.step, piece.tensors[0]))
                if self.handed_over and sum(p.size for p in self.handed_over) + urgent.size > self.credit:
                    break
                self.waiting.remove(urgent)
                self.handed_over.append(urgent)
                self.queue.put(urgent)
