"""One message to many recipients through two regions of memory, with one copy.

::

    from bus.features.memory import Pool, PoolLayout

    layout = PoolLayout(buffers=6, buffer_bytes=8, icbs=3, users=3)
    pool = Pool(
        layout, bytearray(layout.control_bytes), bytearray(layout.data_bytes)
    )
    pool.publish(b"one copy for all of us", [0, 1, 2])
    message = pool.dequeue(0)
    pool.release(0, message.lease)

The data region is an array of buffers. The control region has a control block for each
buffer, and more blocks for further recipients. The blocks are linked to messages, to
the queues of recipients, and to the queues of free blocks.

A pool and an arena have the same blocks, queues and orders. Those of a pool are bytes
of its control region; those of an arena are objects of its owner.

frames          the frames about shared memory
blocks          the control blocks: DCB, ICB, the block of a queue; in both stores
region          the layout of both regions, and their blocks and buffers
queues          the free blocks of a region, and the queue of one recipient in it
chains          the buffers of a message, whole or shared by variants of it
recipients      the queue and the leases of each recipient: enqueue, dequeue, release
reader          the side of a recipient of a pool, which only reads
shared_memory   memory in no file system, for both regions
slabs           shared memory in buffers of one size, within a limit, and their DCBs
audit           whether each block is in one place, and counted right, in either store
pool            `Pool`: the orders for messages of many buffers in two regions
arena           `Arena`: the orders for messages of one buffer in the slabs of a process
mappings        the slabs of another process, and views of its messages
shared_bodies   the bodies that this process has put into its arena
lent_bodies     the bodies that this process reads in the arenas of others
link_memory     shared memory, as the links of a process use it
api             `Task.loan`
verb            ``bus shm``

The pool and the arena neither wait nor lock, and only `shared_memory` and `mappings`
call the system: the owner of the memory is its only writer, and one thread at a time
calls the pool or the arena. The clauses are in specs/shared-memory.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bus.features.memory.audit import Census
    from bus.features.memory.blocks import Mode
    from bus.features.memory.chains import Excerpt
    from bus.features.memory.pool import Pool
    from bus.features.memory.reader import Reader
    from bus.features.memory.recipients import Holdings
    from bus.features.memory.region import Descriptor, Piece, PoolLayout

__all__ = [
    "Census",
    "Descriptor",
    "Excerpt",
    "Holdings",
    "Mode",
    "Piece",
    "Pool",
    "PoolLayout",
    "Reader",
]

# The module of each name.
_HOME_OF: Final = {
    "Census": "audit",
    "Descriptor": "region",
    "Excerpt": "chains",
    "Holdings": "recipients",
    "Mode": "blocks",
    "Piece": "region",
    "Pool": "pool",
    "PoolLayout": "region",
    "Reader": "reader",
}


# Loaded on first use: a bus uses an arena, and no blocks in a control region.
def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
