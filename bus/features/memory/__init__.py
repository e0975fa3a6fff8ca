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

layout                  the position of each block and buffer
field                   a number in the control region
control_block           the layout that both kinds of block share
direct_control_block    DCB: the block of one buffer
indirect_control_block  ICB: a block for one more recipient
queue_control_block     the head and the tail of a queue
control_region          the blocks, by index
descriptor              the location of a message, for its recipient
data_region             the buffers, by index
free_queue              the free blocks of one kind
user_queue              the messages that wait for one recipient
block_supply            both free queues, and the DCBs borrowed as ICBs
chain                   the walk along the blocks of a message
whole_chains            messages that every recipient gets unchanged
buffer_chains           messages whose recipients share some buffers
excerpt                 a stretch of an original, for a variant of it
recipient               the queue and the leases of one recipient
census                  the number of blocks in each state
audit                   whether each block is in one place, and counted right
pool                    `Pool`: publish, dequeue, release
reader                  the recipient's side, which only reads
shared_memory           memory in no file system, for both regions
open_memory             a descriptor of such memory of another process
memory_mapping          the same in another process, for reading only
lent_view               a read-only view that reports its end
placement               the location of a message in such memory
arena_loan              a buffer that the owner fills before it is published
slab_buffer             a buffer in shared memory, with the number of its holders
slab                    shared memory of buffers of one size
slab_set                all slabs of one process, within a limit
arena_recipient         the leases of one recipient of an arena
arena_audit             whether each buffer of an arena is in one place
arena                   the slabs, the recipients and the leases of one process
slab_mappings           the slabs of another process, and views of its messages

Nothing here waits or locks, and only `shared_memory`, `open_memory`, `memory_mapping`
and `lent_view` call the system: the owner of the memory is its only writer, and one
thread at a time calls the pool or the arena. The clauses are in specs/shared-memory.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bus.features.memory.audit import Census
    from bus.features.memory.blocks import Mode
    from bus.features.memory.chains import Excerpt
    from bus.features.memory.pool import Pool
    from bus.features.memory.recipient import Holdings, Reader
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
    "Holdings": "recipient",
    "Mode": "blocks",
    "Piece": "region",
    "Pool": "pool",
    "PoolLayout": "region",
    "Reader": "recipient",
}


# Loaded on first use: a bus uses the arena of this package, and no pool.
def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
