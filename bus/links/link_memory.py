"""`LinkMemory`: shared memory with the processes at the other ends of the links.

`SharedBodies` is the memory of this process, `LentBodies` that of the others. This
class passes the frames about memory to them, and long messages through them. The
manager knows of neither: its messages have their bodies, wherever these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from bus.core.local.actions import Send
from bus.core.wire import (
    LEASED,
    RAW,
    Batch,
    CloseSlab,
    MemoryFrame,
    OfferSlab,
    Release,
    SlabAnswer,
    encode,
    long_body,
)
from bus.core.wire import pieces as link_pieces
from bus.errors import WireError
from bus.links.lent_bodies import LentBodies
from bus.links.shared_bodies import SharedBodies
from bus.multicast.arena import Arena

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bus.config import BusConfig
    from bus.core.wire import Frame

__all__ = ["LinkMemory"]


class LinkMemory:
    """The shared memory of a process, in both directions.

    All methods are for the holder of `Rounds.hold`.

    Args:
        config: whether this process uses shared memory, and how much.
        process_id, on_ended: as for `LentBodies`.
    """

    __slots__ = ("_lent", "_shared")

    def __init__(
        self,
        config: BusConfig,
        process_id: Callable[[int], int | None],
        on_ended: Callable[[], object],
    ) -> None:
        self._lent: LentBodies | None = None
        self._shared: SharedBodies | None = None
        if config.arena:
            self._lent = LentBodies(process_id, config.message_bytes_max, on_ended)
            self._shared = SharedBodies(
                Arena(config.arena_bytes, share=config.arena_share),
                config.arena_threshold_bytes,
                process_id,
            )

    # Frames that are sent.

    def pieces(self, link: int, frame: Frame) -> Sequence[bytes]:
        """Return the data to put on a link for a frame, in order."""
        body = long_body(frame)
        if body is None:
            return (encode(frame),)
        assert isinstance(frame, Batch)
        if self._shared is None:
            return link_pieces(frame)
        return self._shared.pieces(link, frame, body)

    def end_round(self) -> Sequence[tuple[int, bytes]]:
        """Return the data to put on links at the end of a round, with their links."""
        return () if self._shared is None else self._shared.end_round()

    # Frames that arrive.

    def resolve_body(self, link: int, frame: Frame) -> Frame:
        """Return a frame with its body, if it has only the location of that.

        A long payload of bytes becomes a view also if the link carried it. So its type
        does not depend on whether the memory had room (BUS-MSG-16).

        Raises:
            WireError: there is no such body.
        """
        if not isinstance(frame, Batch) or len(frame.runs) != 1:
            return frame
        if frame.runs[0].flags & LEASED:
            if self._lent is None:
                fact = "a body in shared memory, which is not in use here"
                raise WireError(f"MSG has {fact}")
            return self._lent.resolve_body(link, frame)
        body = long_body(frame)
        if body is None or self._lent is None or not frame.runs[0].flags & RAW:
            return frame
        run = replace(frame.runs[0], bodies=[memoryview(body)])
        return replace(frame, runs=[run])

    def on_frame(self, link: int, frame: MemoryFrame) -> list[Send]:
        """Handle a frame from an open link; return the answer.

        Raises:
            WireError: the frame is wrong.
        """
        lent, shared = self._lent, self._shared
        if lent is None or shared is None:
            if isinstance(frame, OfferSlab):
                return [Send(link, SlabAnswer(slab=frame.slab, mapped=False))]
            return []
        match frame:
            case OfferSlab():
                return [Send(link, lent.on_offer(link, frame))]
            case CloseSlab():
                lent.on_closed(link, frame.slab)
            case SlabAnswer():
                shared.on_answer(link, frame)
            case Release():
                shared.on_release(link, frame)
        return []

    # Ended leases.

    def is_due(self, *, soon: bool) -> bool:
        """Return True if leases have ended whose report cannot wait.

        soon: True if the next round comes soon anyway.
        """
        return self._lent is not None and self._lent.is_due(soon=soon)

    def take_ended(self) -> Iterator[Send]:
        """Yield the reports of the leases ended since the last call."""
        if self._lent is not None:
            for link, frame in self._lent.take_ended():
                yield Send(link, frame)

    # Ends.

    def forget(self, link: int) -> None:
        """Release what a closed link needed."""
        if self._lent is not None:
            self._lent.forget(link)
        if self._shared is not None:
            self._shared.forget(link)

    def close(self) -> None:
        """Close all memory; what other processes or tasks here read stays readable."""
        if self._lent is not None:
            self._lent.close()
        if self._shared is not None:
            self._shared.close()
