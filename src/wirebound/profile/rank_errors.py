"""Under torchrun, what all ranks find wrong alike is said by the first of them only.

The first rank leaves its error in the store of the launcher, where the others look. Under other launchers, which keep
no store, every rank speaks for itself.
"""

import os
import time
from datetime import timedelta
from typing import Any

from wirebound.errors import InputError
from wirebound.profile.ranks import launched_rank, launched_with_ranks

#: The first rank may reach the same error so much later than another.
_PATIENCE = timedelta(seconds=15)
#: The launcher ends all ranks once one has ended: the first must have spoken by then.
_GRACE_S = 5.0


def worded_by_rank(message: str) -> str | None:
    """Return how this rank says an error, with its number unless it is the first or the only one; None: not at all.

    The first rank then says the same, and its launcher was given time to end this one.
    """
    try:
        rank = launched_rank()
    except InputError:  # the launcher's mistake: no word of other ranks
        return message
    if rank == 0:
        _exchange(message)
        return message
    if _exchange(None) != message:
        return f"rank {rank}: {message}"
    time.sleep(_GRACE_S)
    return None


def _exchange(message: str | None) -> str | None:
    """Write the first rank's error, or wait for it and return it; None where there is no store or no error."""
    if not launched_with_ranks() or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    import torch.distributed as dist

    # A job that is started again has the same store.
    key = f"wirebound/error/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    try:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store: Any = dist.TCPStore(host, port, is_master=False, timeout=_PATIENCE)  # type: ignore[attr-defined]
        if message is not None:
            store.set(key, message)
        return bytes(store.get(key)).decode()
    except (RuntimeError, ValueError):  # nobody there, or no word in time
        return None
