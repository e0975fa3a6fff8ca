"""`LentBodies`: the bodies of long messages in the shared memory of other processes.

A task gets a view of such a body. Once no code uses it any more, its lease ends, and a
frame reports that to the owner of the memory (MC-35). The report is sent in the same
round as the acknowledgement of the message, if that is still to come.
"""

from __future__ import annotations

import os
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from bus.errors import WireError
from bus.features.memory.arena import Placement
from bus.features.memory.frames import LEASES_MAX, Release, SlabAnswer
from bus.features.memory.mappings import SlabMappings, open_memory
from bus.kernel.wire import LEASED, Batch, Run
from bus.kernel.wire.codec import MESSAGE_BYTES_MAX
from bus.model.snapshot import LentViewsInfo
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bus.features.memory.frames import OfferSlab

__all__ = ["LentBodies"]

# This many ended leases are reported at once, even if the thread wakes soon.
_ENDED_MAX: Final = 16
# Maximum number of slabs mapped for one link: each takes a descriptor.
_SLABS_MAX: Final = 64
# Maximum length of a slab that is mapped: the least power of two that holds the longest
# message, which also exceeds the slabs of shorter ones.
_SLAB_BYTES_MAX: Final = MESSAGE_BYTES_MAX


class LentBodies:
    """The memory of other processes that this one has mapped, by link.

    All methods but `is_due` are for the holder of the lock of `LinkMemory`. Leases end
    in any thread.

    Args:
        process_id: as for `SharedBodies`.
        message_bytes_max: the maximum length of a body.
        on_ended: called when a lease has ended, in any thread, and perhaps within a
            garbage collection: it must not wait, lock or raise.

    Attributes:
        ended_at: the link of each lease that has ended and is not reported. Any thread
            appends, since a deque needs no lock for that; only this class removes.
    """

    __slots__ = (
        "_lenders",
        "_message_bytes_max",
        "_on_ended",
        "_process_id",
        "ended_at",
    )

    def __init__(
        self,
        process_id: Callable[[int], int | None],
        message_bytes_max: int,
        on_ended: Callable[[], object],
    ) -> None:
        self._process_id: Final = process_id
        self._message_bytes_max: Final = message_bytes_max
        self._on_ended: Final = on_ended
        self._lenders: Final[dict[int, _Lender]] = {}
        self.ended_at: Final[deque[int]] = deque()

    # Frames of owners.

    def on_offer(self, link: int, frame: OfferSlab) -> SlabAnswer:
        """Map a slab of the process at a link; return the answer to it.

        Raises:
            WireError: the slab was offered before, or its owner could shrink it.
        """
        return SlabAnswer(slab=frame.slab, mapped=self._map(link, frame))

    def _map(self, link: int, frame: OfferSlab) -> bool:
        process_id = self._process_id(link)
        if process_id is None:
            return False
        lender = self._lenders.get(link)
        if lender is None:
            lender = _Lender(SlabMappings(partial(self._end, link)))
            self._lenders[link] = lender
        mappings = lender.mappings
        if len(mappings) >= _SLABS_MAX:
            return False
        try:
            descriptor = open_memory(process_id, frame.descriptor, frame.token)
        except (OSError, ValueError):
            return False
        try:
            # Of a correct owner no slab is larger, since each of its buffers holds a
            # message. The memory of a hostile one takes next to nothing from it, but
            # could take all address space from this process.
            if os.fstat(descriptor).st_size > _SLAB_BYTES_MAX:
                return False
            mappings.add(frame.slab, descriptor)
        except OSError:  # no address space or no descriptor is left
            return False
        finally:
            os.close(descriptor)
        return True

    def on_closed(self, link: int, slab: int) -> None:
        """Unmap a slab; views of it stay readable."""
        lender = self._lenders.get(link)
        if lender is not None:
            lender.mappings.remove(slab)

    def resolve_body(self, link: int, batch: Batch) -> Batch:
        """Return a batch with the body that it only gives the location of.

        Raises:
            WireError: there is no such body.
        """
        [run] = batch.runs
        [location] = run.bodies
        placement = Placement.unpack(location)
        if placement.length > self._message_bytes_max:
            msg = f"{placement.length} bytes, allowed: {self._message_bytes_max}"
            raise WireError(f"MSG has a body in shared memory of {msg}")
        lender = self._lenders.get(link)
        if lender is None:
            raise WireError("MSG has a body in shared memory, but offered none")
        bodies = [lender.view(placement)]
        # Made in full: `replace` takes three times as long, for each message.
        run = Run(
            run.to,
            run.source,
            run.kind,
            run.flags & ~LEASED,
            run.id,
            run.milliseconds_left,
            run.hop,
            bodies,
            run.mid,
        )
        return Batch(
            batch.epoch,
            batch.incarnation,
            batch.floor,
            batch.first,
            [run],
            batch.acknowledged,
            batch.extracted,
        )

    # Ended leases.

    def is_due(self, *, soon: bool) -> bool:
        """Return True if leases have ended whose report cannot wait.

        soon: True if the next round comes soon anyway.
        """
        ended = len(self.ended_at)
        return ended >= _ENDED_MAX or bool(ended and not soon)

    @property
    def is_idle(self) -> bool:
        """True if `take_ended` has nothing to do."""
        # A view may outlive its link: then its note is to be cleared all the same.
        return not (self._lenders or self.ended_at)

    def take_ended(self) -> Iterator[tuple[int, Release]]:
        """Yield links with reports of the leases that ended since the last call."""
        # Cleared before the leases are taken: for one that ends meanwhile, there is a
        # note again. All links are searched, since an interrupt may have prevented a
        # note.
        self.ended_at.clear()
        for link, lender in self._lenders.items():
            for release in _releases(lender.take_ended()):
                yield link, release

    def take_ended_at(self, link: int) -> Iterator[Release]:
        """Yield the reports of the leases of one link, and leave those of the others.

        If this is interrupted, the leases taken out are reported by the end of the
        link.
        """
        # Cleared first, as above. An interrupt may lose the note of another link, but
        # not its lease: `take_ended` searches all links.
        for _ in range(len(self.ended_at)):
            if (noted := self.ended_at.popleft()) != link:
                self.ended_at.append(noted)
        lender = self._lenders.get(link)
        if lender is not None:
            yield from _releases(lender.take_ended())

    def _end(self, link: int) -> None:
        self.ended_at.append(link)
        self._on_ended()

    # Ends.

    def forget(self, link: int) -> None:
        """Unmap the memory of a closed link; views of it stay readable (MC-33)."""
        lender = self._lenders.pop(link, None)
        if lender is not None:
            lender.mappings.close()

    def close(self) -> None:
        """Unmap all memory; views of it stay readable."""
        for link in list(self._lenders):
            self.forget(link)

    # Inspection.

    def info(self, processes: Mapping[int, str]) -> tuple[LentViewsInfo, ...]:
        """Return the views that are left, by link (MC-39).

        processes: the name of the process at each link.
        """
        now = _sync.monotonic()
        return tuple(
            lender.info(processes.get(link, ""), now)
            for link, lender in self._lenders.items()
        )


class _Lender:
    """The memory of the process at one link, and the views of it.

    mappings: its slabs.
    """

    __slots__ = ("_since", "mappings")

    def __init__(self, mappings: SlabMappings) -> None:
        self.mappings: Final = mappings
        # When each lease arrived whose end is not reported; the oldest is first.
        self._since: Final[dict[tuple[int, int], float]] = {}

    def view(self, placement: Placement) -> memoryview:
        """Return a view of a message; see `SlabMappings.view`."""
        view = self.mappings.view(placement)
        self._since[placement.slab, placement.lease] = _sync.monotonic()
        return view

    def take_ended(self) -> list[tuple[int, int]]:
        """Return the leases that have ended since the last call, in order."""
        ended = self.mappings.take_ended()
        for each in ended:
            self._since.pop(each, None)
        return ended

    def info(self, process: str, now: float) -> LentViewsInfo:
        """Return its state."""
        ended = self.mappings.ended()
        left = [at for each, at in self._since.items() if each not in ended]
        return LentViewsInfo(
            process=process,
            slabs=len(self.mappings),
            views=len(left),
            since_s=now - left[0] if left else None,
        )


def _releases(leases: Sequence[tuple[int, int]]) -> Iterator[Release]:
    for start in range(0, len(leases), LEASES_MAX):
        yield Release(leases=tuple(leases[start : start + LEASES_MAX]))
