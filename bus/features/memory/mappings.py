"""`SlabMappings`: the memory of another process, mapped for reading only.

`lend` returns a view that reports its end, and that of all views made from it. A weak
reference to a view is not enough: a slice, a cast or an array made from it outlives it.
The object behind all of them lives exactly as long as the last one, so its end is the
end of the lease (MC-35). The garbage collector must not know that object: in a cycle it
calls the callbacks of weak references first, and only then ``__del__``, in which a
program may still read the view, or keep it.

That object gives no way to write (MC-34). Since Python 3.12 any class can be one. In
3.11 only `ctypes` can make an object with a buffer at an address. It refuses item
assignment, but a write through a new view of it would end the process: the mapping is
read-only. Rejected: a mapping of its own for each lease, which such a write could not
harm. To map 1 MiB and copy it out took 230 µs, against 35 µs with a mapping that stays,
since the pages of a new mapping are entered anew.

`open_memory` opens the shared memory of another process of this machine. That process
states the number of its descriptor; the kernel reports its process number. Rejected: to
send the descriptor over the link. Then each read of the link would have to ask for
descriptors, which makes all messages slower. This way the recipient also gets a
descriptor that it cannot write.
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import sys
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from bus.errors import WireError
from bus.features.memory.shared_memory import SEALS_NEEDED
from queuebroker._files import Descriptors, fcntl

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.features.memory.arena import Placement
    from bus.features.memory.shared_memory import SharedMemory

__all__ = ["MemoryMapping", "SlabMappings", "lend", "open_memory"]


def open_memory(pid: int, descriptor: int, name: str) -> int:
    """Return a descriptor of a `SharedMemory`, for reading only; the caller closes it.

    Args:
        pid: the process that has the memory.
        descriptor: its number in that process.
        name: as in `SharedMemory`; it proves that it is this memory. The descriptor may
            be closed, and its number used again, even by another process.

    Raises:
        OSError: this process may not open it, as that of another user.
        ValueError: the descriptor is not of this memory.
    """
    # Checked before as well: to open some devices has an effect.
    _check(os.readlink(f"/proc/{pid}/fd/{descriptor}"), name)
    # The other process chooses the number of the descriptor, so the file may be any:
    # wait for none, and make no terminal that of this process.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
    opened = Descriptors()
    try:
        opened.open(os.open, f"/proc/{pid}/fd/{descriptor}", flags)
        _check(os.readlink(f"/proc/self/fd/{opened[0]}"), name)
    except BaseException:
        with suppress(OSError):
            opened.close()
        raise
    [found] = opened
    del opened[:]  # no call before the return: the descriptor is the caller's
    return found


def _check(path: str, name: str) -> None:
    if path != f"/memfd:{name} (deleted)":
        raise ValueError(f"descriptor must be of shared memory {name!r}, got {path!r}")


class MemoryMapping:
    """A read-only mapping of a `SharedMemory` (MC-34).

    Args:
        descriptor: of the memory; not used after this call.

    Attributes:
        memory: all of it, read-only.
        lent_from: makes the object behind a view of it; set by `lend`, which finds the
            address once.

    Raises:
        OSError: it cannot be mapped.
        ValueError: its owner could still shrink it, so that a read could end this
            process.
    """

    __slots__ = ("_mapping", "lent_from", "memory")

    def __init__(self, descriptor: int) -> None:
        try:
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        except OSError:  # no memory that could be sealed, such as a file
            seals = 0
        if seals & SEALS_NEEDED != SEALS_NEEDED:
            raise ValueError(
                f"cannot map shared memory whose owner may shrink it (seals {seals:#x})"
            )
        size = os.fstat(descriptor).st_size
        self._mapping: Final = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        self.memory: Final = memoryview(self._mapping)
        self.lent_from: Callable[[], Any] | None = None

    def close(self) -> None:
        """Close the mapping; it stays until its last lent view has ended."""
        with suppress(BufferError):
            self.memory.release()
            self._mapping.close()


def lend(
    mapping: MemoryMapping | SharedMemory,
    at: int,
    length: int,
    on_end: Callable[[], object],
    *,
    watch: Callable[[object], object] = id,
    writable: bool = False,
) -> memoryview:
    """Return a view of a stretch of shared memory, read-only by default.

    Args:
        mapping: stays mapped as long as the view, even if it is closed.
        at, length: the stretch, in bytes; the caller has checked them.
        on_end: called once, when neither the view nor one made from it is left. It may
            be called in any thread, and within a garbage collection: it must not wait,
            lock or raise. It is not called in a forked child, which must not use views
            of its parent: the owner writes other bytes there after the parent's end.
        watch: called at once with the object behind the view. The callback of a weak
          reference that it makes comes before ``on_end``. A signal handler that raises
          may end ``on_end`` early, but no callback that is a C function.
        writable: True if the caller owns the memory, and writes through this view.
    """
    behind = _behind(mapping, on_end)
    _untrack(behind)  # see above; it is in no cycle
    watch(behind)  # after `_call_at_end`: the last weak reference is called first
    whole = memoryview(behind).cast("B")  # that of ctypes is "<B"
    view = whole[at : at + length]
    return view if writable else view.toreadonly()


# Takes an object from the garbage collector: its references alone decide on its end.
_untrack: Final = ctypes.PYFUNCTYPE(None, ctypes.py_object)(
    ("PyObject_GC_UnTrack", ctypes.pythonapi)
)

if sys.version_info >= (3, 12):

    class _Behind:
        """The object behind all views of one lease."""

        __slots__ = ("__weakref__", "_memory")

        def __init__(self, memory: memoryview) -> None:
            self._memory: Final = memory

        def __buffer__(self, flags: int) -> memoryview:
            return memoryview(self._memory)

    def _behind(
        mapping: MemoryMapping | SharedMemory, on_end: Callable[[], object]
    ) -> _Behind:
        behind = _Behind(mapping.memory)
        _call_at_end(behind, on_end)
        return behind

else:
    import functools

    @functools.lru_cache(maxsize=16)
    def _type_of(size: int) -> type[ctypes.Array[Any]]:
        def refuse(*_: object) -> None:
            raise TypeError("shared memory of another process is read-only")

        body = {"_type_": ctypes.c_ubyte, "_length_": size, "__setitem__": refuse}
        return type("SharedBytes", (ctypes.Array,), body)

    # Rejected: `PyObject_GetBuffer` and `PyBuffer_Release`. An interrupt between both
    # keeps the mapping.
    _read_buffer: Final = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.py_object, *[ctypes.POINTER(ctypes.c_ssize_t)] * 2
    )(("PyObject_AsReadBuffer", ctypes.pythonapi))

    def _address_of(memory: memoryview) -> int:
        address, length = ctypes.c_ssize_t(), ctypes.c_ssize_t()
        _read_buffer(memory, ctypes.byref(address), ctypes.byref(length))
        return address.value

    def _behind(
        mapping: MemoryMapping | SharedMemory, on_end: Callable[[], object]
    ) -> Any:
        memory = mapping.memory
        if mapping.lent_from is None:
            made, address = _type_of(len(memory)), _address_of(memory)
            mapping.lent_from = functools.partial(made.from_address, address)
        behind: Any = mapping.lent_from()
        # Keeps the mapping, even if it is closed.
        behind.memory = memoryview(memory)
        _call_at_end(behind, on_end)
        return behind


class _End(weakref.ref[object]):
    """The end of a lease that is to come; `weakref.finalize` takes twice as long.

    pid: the process that has the lease. on_end: as for `lend`.
    """

    __slots__ = ("on_end", "pid")

    on_end: Callable[[], object]
    pid: int


# By `id`. Each step is one call of a dict in C, so no lock is needed.
_ends: Final[dict[int, _End]] = {}
atexit.register(_ends.clear)  # later the modules are torn down, and no thread is woken


def _call_at_end(behind: object, on_end: Callable[[], object]) -> None:
    end = _End(behind, _on_end)
    end.pid, end.on_end = os.getpid(), on_end
    _ends[id(end)] = end


def _on_end(end: _End) -> None:
    if _ends.pop(id(end), None) is None:
        return  # the interpreter exits, and this thread was on its way here
    if os.getpid() == end.pid:
        end.on_end()


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
        slab, lease = placement.slab, placement.lease
        at, length = placement.at, placement.length
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
