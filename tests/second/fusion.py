"""When gradients are let go: each rule watches them become ready, one by one, and says which now leave together."""


class Bsp:
    """Everything, once backward is over."""

    def __init__(self, count):
        self.left = count
        self.held = []

    def ready(self, index, size, now):
        self.held.append(index)
        self.left -= 1
        return [self.held] if self.left == 0 else []

    def over(self):
        return []


class Wfbp:
    """Each gradient at once."""

    def ready(self, index, size, now):
        return [[index]]

    def over(self):
        return []


class Holding:
    """Hold gradients until `full` says that these may go; what is left goes at the end of backward."""

    def __init__(self):
        self.held, self.bytes = [], 0.0

    def ready(self, index, size, now):
        self.held.append(index)
        self.bytes += size
        if not self.full(now):
            return []
        return self.over()

    def over(self):
        gone, self.held, self.bytes = self.held, [], 0.0
        return [gone] if gone else []


class Horovod(Holding):
    """So many seconds of backward since the last emit, or so many bytes."""

    def __init__(self, window, threshold):
        super().__init__()
        self.window, self.threshold, self.emitted = window, threshold, 0.0

    def full(self, now):
        full = now - self.emitted >= self.window or self.bytes >= self.threshold
        if full:
            self.emitted = now
        return full


class Ddp(Holding):
    """Buckets that close when they reach their limit; the first has a limit of its own."""

    def __init__(self, first, limit):
        super().__init__()
        self.limits = iter([first])
        self.later = limit
        self.limit = next(self.limits)

    def full(self, now):
        full = self.bytes >= self.limit
        if full:
            self.limit = self.later
        return full


class Planned(Holding):
    """Groups decided before the step, from measured times."""

    def __init__(self, last_of_group):
        super().__init__()
        self.last = set(last_of_group)

    def full(self, now):
        return self.held[-1] in self.last


def mg_wfbp_plan(ready, sizes, alpha, beta, merge_below):
    """The last gradient of each group, by Shi et al. (2019): wait for the next one where it costs less than α."""
    last, network_free, held = [], 0.0, 0.0
    for index, size in enumerate(sizes):
        held += size
        start = max(network_free, ready[index])
        final = index == len(sizes) - 1
        if not final:
            waiting = ready[index + 1] - start
            if waiting <= 0 or waiting < alpha or size < merge_below:
                continue
        last.append(index)
        network_free = start + alpha + beta * held
        held = 0.0
    return last


def rule_of(job, method, network):
    if method.schedule == "bsp":
        return Bsp(len(job.sizes))
    if method.schedule in ("wfbp", "priority"):
        return Wfbp()
    if method.schedule == "horovod":
        return Horovod(method.fusion_window_s, method.fusion_bytes)
    if method.schedule == "ddp":
        return Ddp(method.first_bucket_bytes, method.bucket_cap_bytes)
    alpha = network.seconds(0)
    # measured additions are noisy: the whole may seem cheaper than nothing, but no byte has a negative cost
    beta = max(0.0, (network.seconds(sum(job.sizes)) - alpha) / sum(job.sizes))
    ready = [sum(job.gaps[: index + 1]) for index in range(len(job.gaps))]
    return Planned(mg_wfbp_plan(ready, job.sizes, alpha, beta, method.merge_below_bytes))
