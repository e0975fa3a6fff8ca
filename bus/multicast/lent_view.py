"""`lend`: a read-only view that reports its end, and that of all views made from it.

A weak reference to a view is not enough: a slice, a cast or an array made from it
outlives it. The object behind all of them lives exactly as long as the last one, so its
end is the end of the lease (MC-35). The garbage collector must not know that object: in
a cycle it calls the callbacks of weak references first, and only then ``__del__``, in
which a program may still read the view, or keep it.

That object gives no way to write (MC-34). Since Python 3.12 any class can be one. In
3.11 only `ctypes` can make an object with a buffer at an address. It refuses item
assignment, but a write through a new view of it would end the process: the mapping is
read-only. Rejected: a mapping of its own for each lease, which such a write could not
harm. To map 1 MiB and copy it out took 230 µs, against 35 µs with a mapping that stays,
since the pages of a new mapping are entered anew.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.multicast.memory_mapping import MemoryMapping
    from bus.multicast.shared_memory import SharedMemory

__all__ = ["lend"]


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

    class _Buffer(ctypes.Structure):
        """``Py_buffer``, which is in the stable ABI of Python 3.11."""

        _fields_ = (
            ("buf", ctypes.c_void_p),
            ("obj", ctypes.py_object),
            ("len", ctypes.c_ssize_t),
            ("itemsize", ctypes.c_ssize_t),
            ("readonly", ctypes.c_int),
            ("ndim", ctypes.c_int),
            ("format", ctypes.c_char_p),
            ("shape", ctypes.c_void_p),
            ("strides", ctypes.c_void_p),
            ("suboffsets", ctypes.c_void_p),
            ("internal", ctypes.c_void_p),
        )

    @functools.lru_cache(maxsize=16)
    def _type_of(size: int) -> type[ctypes.Array[Any]]:
        def refuse(*_: object) -> None:
            raise TypeError("shared memory of another process is read-only")

        body = {"_type_": ctypes.c_ubyte, "_length_": size, "__setitem__": refuse}
        return type("SharedBytes", (ctypes.Array,), body)

    def _address_of(memory: memoryview) -> int:
        buffer = _Buffer()
        ctypes.pythonapi.PyObject_GetBuffer(
            ctypes.py_object(memory), ctypes.byref(buffer), 0
        )
        try:
            return int(buffer.buf or 0)
        finally:
            ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))

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
