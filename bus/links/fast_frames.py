"""`FastFrames`: the frames of the fast path that concern shared memory.

A long message goes as its location, and the memory that this process has read is
reported along with the next message. So neither needs the comm thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.wire import FrameType, decode
from bus.core.wire.memory_frames import MemoryFrame
from bus.errors import WireError

if TYPE_CHECKING:
    from bus.core.wire import Batch
    from bus.links.link_memory import LinkMemory
    from bus.links.link_pool import LinkPool
    from bus.links.rounds import Rounds

__all__ = ["RELEASE", "FastFrames"]

RELEASE: Final = bytes((FrameType.RELEASE.value,))  # the first byte of such a frame


class FastFrames:
    """The frames that task threads put on links, and take from them, by themselves.

    All methods are for the holder of `Rounds.hold`. If one is interrupted, the caller
    must abort the link.

    Args:
        rounds, link_pool: the instances of this process.
    """

    __slots__ = ("_link_pool", "_memory", "_rounds")

    def __init__(self, rounds: Rounds, link_pool: LinkPool) -> None:
        self._rounds: Final = rounds
        self._memory: Final[LinkMemory] = rounds.link_memory
        self._link_pool: Final = link_pool

    def put(self, link: int, frame: bytes | Batch) -> bool:
        """Put a frame on a link; return False if a part of it waits for room there.

        A batch is put there as its location (`LEASED`) if the memory has room.
        """
        memory = self._memory
        if type(frame) is bytes and not memory.ended_at:
            return self._link_pool.send(link, frame)
        # The reports go first, so that the peer has room for its answer. The comm
        # thread reports the leases of other links, when it wakes.
        frames = [*memory.take_ended_at(link)]
        if isinstance(frame, bytes):
            frames.append(frame)
        else:
            frames += memory.pieces(link, frame)
        done = self._link_pool.send_all(link, frames)
        self._rounds.end_memory_round()
        return done

    def take(self, link: int, report: bytes) -> bool:
        """Handle a report of ended leases; return False if it is malformed."""
        try:
            frame = decode(report)
        except WireError:
            return False  # the comm thread drops the link
        assert isinstance(frame, MemoryFrame)
        self._memory.on_frame(link, frame)
        if self._memory.has_requests:  # a round serves them, not a main thread
            self._rounds.request_flush()
        return True
