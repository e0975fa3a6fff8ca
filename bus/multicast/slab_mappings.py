"""`SlabMappings`: the slabs of another process, and views of the messages in them."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

from bus.errors import WireError
from bus.multicast.lent_view import lend
from bus.multicast.memory_mapping import MemoryMapping

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.multicast.placement import Placement

__all__ = ["SlabMappings"]


class SlabMappings:
    """The memory of one arena, as a recipient has it: mapped for reading only.

    One thread at a time calls it. Leases end in any thread.

    Args:
        on_ended: called when a lease has ended, in any thread, and perhaps within a
            garbage collection: it must not wait, lock or raise. Views that outlive
            `close` are reported, too.
    """

    __slots__ = ("_ended", "_leases", "_mappings", "_on_ended")

    def __init__(self, on_ended: Callable[[], object]) -> None:
        self._on_ended: Final = on_ended
        self._mappings: Final[dict[int, MemoryMapping]] = {}
        # By `id`, the leases that have not ended or are not taken: the end of a lease
        # is noted only if the weak reference exists then.
        self._leases: Final[dict[int, _Lease]] = {}
        # Appended to in any thread; a deque needs no lock for that. The callback is
        # `append` itself: within a function in Python, a signal handler could raise,
        # and the lease would never end.
        self._ended: Final[deque[_Lease]] = deque()

    def __len__(self) -> int:
        """Return the number of slabs that are mapped."""
        return len(self._mappings)

    def add(self, slab: int, descriptor: int) -> None:
        """Map a slab.

        descriptor: of its memory; not used after this call.

        Raises:
            OSError: this process has no room for it.
            WireError: the memory is of no use, such as one that its owner could still
              shrink (MC-34), or this slab is mapped already.
        """
        if slab in self._mappings:
            raise WireError(f"slab {slab} was handed over twice")
        try:
            self._mappings[slab] = MemoryMapping(descriptor)
        except ValueError as error:
            raise WireError(f"slab {slab} cannot be used: {error}") from error

    def view(self, placement: Placement) -> memoryview:
        """Return a read-only view of a message; its end ends the lease (MC-35).

        Raises:
            WireError: the slab is not mapped, or the bytes lie outside of it.
        """
        slab, lease, at, length = placement
        mapping = self._mappings.get(slab)
        if mapping is None:
            raise WireError(f"slab {slab} was not handed over")
        if not 0 <= at <= at + length <= len(mapping.memory):
            raise WireError(f"a message lies outside of its slab: {placement}")

        def watch(behind: object) -> None:
            watched = _Lease(behind, self._ended.append)
            watched.slab, watched.lease = slab, lease
            self._leases[id(watched)] = watched

        return lend(mapping, at, length, self._on_ended, watch=watch)

    def take_ended(self) -> list[tuple[int, int]]:
        """Return the slabs and leases that have ended since the last call, in order."""
        taken = []
        while self._ended:
            ended = self._ended.popleft()
            del self._leases[id(ended)]
            taken.append((ended.slab, ended.lease))
        return taken

    def ended(self) -> set[tuple[int, int]]:
        """Return the slabs and leases that `take_ended` is going to return."""
        # No iterator: a lease that ends meanwhile appends, and would invalidate it.
        taken = [self._ended[at] for at in range(len(self._ended))]
        return {(each.slab, each.lease) for each in taken}

    def remove(self, slab: int) -> None:
        """Unmap a slab that its owner has closed; views of it stay readable."""
        mapping = self._mappings.pop(slab, None)
        if mapping is not None:
            mapping.close()

    def close(self) -> None:
        """Unmap all slabs; views of them stay readable (MC-33)."""
        for slab in list(self._mappings):
            self.remove(slab)


class _Lease(weakref.ref[object]):
    """A lease, by the object behind its views.

    slab, lease: as in a `Placement`.
    """

    __slots__ = ("lease", "slab")

    slab: int
    lease: int
