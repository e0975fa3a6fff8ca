"""`Census`: the number of blocks of a pool in each state."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Census"]


class Census(NamedTuple):
    """The numbers of blocks, and of messages not released yet (MC-23).

    free_direct, chained, borrowed: DCBs that are free, that hold data of a message,
      and that serve as ICBs. Together they are all DCBs.
    free_indirect, indirect: ICBs that are free, and that are in use.
    queued, leased: messages in user queues, and dequeued ones; each recipient of a
      message counts.
    """

    free_direct: int
    chained: int
    borrowed: int
    free_indirect: int
    indirect: int
    queued: int
    leased: int
