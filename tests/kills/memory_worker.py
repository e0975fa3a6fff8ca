"""A process of the shared memory campaign: ``... LIFE FOLDER SEED``.

It executes orders as `tests.kills.worker` does. The life of the owner begins with its
name, `OWNER`; all others receive.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bus import Bus, BusConfig, open_bus
from tests.kills.bytecode_strike import BytecodeStrike
from tests.kills.long_messages import LongReceiver, LongSender
from tests.kills.worker import Worker, serve
from tests.kit.constants import set_constants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.features.memory.arena import Arena

__all__ = ["ARENA_BYTES", "OWNER", "MemoryWorker", "ear"]

OWNER: Final = "o"
# Few slabs: idle ones are closed for others, and some messages have no room.
ARENA_BYTES: Final = 12 * 2**20
_CONFIG: Final = BusConfig(resolve_timeout_s=1.0, arena_bytes=ARENA_BYTES)


class _Mallinfo(ctypes.Structure):
    """The result of ``mallinfo2`` of glibc; ``uordblks`` and ``hblkhd`` are in use."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def ear(name: str) -> str:
    """Return the name of the task that receives in a process."""
    return f"ear/{name}"


class MemoryWorker(Worker):
    """The orders, as methods; each returns the answer."""

    def __init__(self, life: str, folder: Path, seed: str) -> None:
        super().__init__(life, folder, seed)
        set_constants(ARENA_SHARE=0.5)
        # Before any thread of the bus starts.
        self._bytecode_strike: Final = BytecodeStrike(self._book)
        self._sender: LongSender | None = None
        self._receiver: LongReceiver | None = None

    # Joining and leaving.

    def join(self) -> int:
        """Join the bus; return the incarnation."""
        self._bus = self.open(client=False)
        if self._name == OWNER:
            self._sender = LongSender(self._bus, self._life, self._chance)
        else:
            self._receiver = LongReceiver(self._bus, ear(self._name), self._chance)
        return self._bus._node.incarnation

    def open(self, *, client: bool) -> Bus:
        """Return the bus that this process joins."""
        del client
        return open_bus(process=self._name, machine="machine", config=_CONFIG)

    def leave(self) -> list[str]:
        """Shut down in order; return the leaks of this process."""
        if self._sender is not None:
            self._sender.end()
        if self._receiver is not None:
            self._receiver.drop()
        self._bus.close()
        return self._before.leaks()

    # Load.

    def go(self, names: Sequence[str]) -> None:
        """Send to these tasks, or hold some of the received messages."""
        if self._sender is not None:
            self._sender.go(names)
        if self._receiver is not None:
            self._receiver.hold()

    def hold(self) -> None:
        """Stop sending."""
        if self._sender is not None:
            self._sender.hold()

    def sent(self) -> int:
        """Return the number of messages sent."""
        return 0 if self._sender is None else self._sender.sent

    def received(self) -> list[int]:
        """Return the messages received, and those of them in shared memory."""
        assert self._receiver is not None
        return [self._receiver.received, self._receiver.lent]

    def pin(self) -> int:
        """Hold the present messages until `drop`; return how many lie in memory."""
        assert self._receiver is not None
        return self._receiver.pin()

    def check(self) -> int:
        """Check all held messages; return how many lie in shared memory."""
        assert self._receiver is not None
        return self._receiver.check()

    def drop(self) -> None:
        """Check all held messages, and drop them."""
        assert self._receiver is not None
        self._receiver.drop()
        gc.collect()

    def faults(self) -> list[str]:
        """Return the messages that were not whole."""
        return [] if self._receiver is None else self._receiver.faults

    # Memory.

    def arena(self) -> list[dict[str, int]]:
        """Return the state of each open slab."""
        with self._comm._rounds.hold:
            return [each._asdict() for each in self._arena.slabs()]

    def slab_names(self) -> list[str]:
        """Return the names of the memory of all open slabs."""
        with self._comm._rounds.hold:
            slabs = [each.number for each in self._arena.slabs()]
            return sorted(self._arena.memory(each).name for each in slabs)

    def closed_links(self) -> list[str]:
        """Return the notes about memory of links that are closed."""
        memory: Any = self._comm.bodies
        with self._comm._rounds.hold:
            links = self._comm.remote.links.by_number
            kept = {
                "recipients": [*memory._shared._recipients],
                "mappings": [*memory._lent._lenders],
            }
            return [
                f"{what} of closed link {link}"
                for what, keys in kept.items()
                for link in keys
                if link not in links
            ]

    def own_memory(self) -> list[int]:
        """Return the blocks of memory in use, and the KiB in use of `malloc`.

        The resident memory would also grow with each new maximum of use: the C library
        keeps the memory that long messages have needed once.
        """
        gc.collect()
        read = ctypes.CDLL(None).mallinfo2
        read.restype = _Mallinfo
        found = read()
        return [sys.getallocatedblocks(), (found.uordblks + found.hblkhd) // 1024]

    @property
    def _arena(self) -> Arena:
        memory: Any = self._comm.bodies
        arena: Arena = memory._shared._arena
        return arena

    # Blows.

    def strike(self, place: str, number: int) -> None:
        """Kill this process at a bytecode, once the order is answered."""
        self._armed = partial(self._bytecode_strike.arm, place, number)


if __name__ == "__main__":
    serve(MemoryWorker(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
