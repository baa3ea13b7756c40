"""ByteScheduler over parameter servers: every worker pushes in its own order of urgency."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.optim import Optimizer

from wirebound.techniques.layout import Message, Piece
from wirebound.techniques.priority import ByteScheduler
from wirebound.techniques.process_group import ServerGroups
from wirebound.techniques.server_worker import ServerConnections, broadcast_among_workers


class PriorityServers(ByteScheduler):
    """Pushes partitions by urgency; averages are pulled as the servers complete them.

    The credit counts bytes that are being pushed. It must not count those that wait for other workers: two workers
    that had spent theirs on different partitions would wait for each other for ever. `connections` and `workers` as in
    `ParameterServers`, the other arguments are those of `ByteScheduler`.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        connections: ServerGroups,
        workers: int,
        priority: Sequence[str] | None = None,
        **options: object,
    ) -> None:
        self._group, self._workers = connections.payloads, workers
        super().__init__(model, optimizer, priority, **options)  # type: ignore[arg-type]
        self._servers = ServerConnections(connections, workers, self.pieces, self._arrivals, self._recorder)
        self._sender = self._arrivals.in_background("sender", self._send_by_urgency)

    def close(self) -> None:
        super().close()
        self._sender.join()
        self._servers.close()

    def _broadcast(self, tensor: Tensor) -> None:
        broadcast_among_workers(self._group, self._workers, tensor)

    def _offer(self, piece: Piece, urgency: int) -> None:
        self._queue.put(urgency, piece)

    def _average(self, message: Message) -> None:
        """Nothing to do: the servers send averages."""

    def _send_by_urgency(self) -> None:
        while (piece := self._queue.take()) is not None:
            self._servers.push(piece, self._queue.give_back)
