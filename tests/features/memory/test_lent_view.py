"""Shared memory, read-only mappings, and views that report their end."""

from __future__ import annotations

import gc
import mmap
import os
import sys
import tempfile
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import bus
from bus.features.memory import mappings, shared_memory
from bus.features.memory.mappings import MemoryMapping, lend
from bus.features.memory.shared_memory import SEALS, SharedMemory
from queuebroker._files import fcntl
from specs.clauses import clause
from tests.kit.systems import needs_shared_memory
from tests.leaks import Snapshot
from tests.processes import run
from tests.strikes import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.strikes import Blow


pytestmark = needs_shared_memory

SIZE = 1 << 16
AT, LENGTH = 4096, 4096


@pytest.fixture
def owner() -> Iterator[SharedMemory]:
    made = SharedMemory(SIZE)
    made.memory[AT : AT + LENGTH] = bytes(range(256)) * (LENGTH // 256)
    yield made
    made.close()


@pytest.fixture
def mapping(owner: SharedMemory) -> Iterator[MemoryMapping]:
    made = MemoryMapping(owner.fileno())
    yield made
    made.close()


# The memory.


@clause("MC-34")
def test_the_memory_cannot_change_its_size_or_be_mapped_for_writing(
    owner: SharedMemory,
) -> None:
    for size in (0, SIZE - 1, SIZE + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(owner.fileno(), size)
    with pytest.raises(PermissionError):
        mmap.mmap(owner.fileno(), SIZE)
    assert fcntl.fcntl(owner.fileno(), fcntl.F_GET_SEALS) == SEALS


def test_nothing_is_left_of_closed_memory() -> None:
    before = Snapshot.take()
    owner = SharedMemory(SIZE)
    mapping = MemoryMapping(owner.fileno())
    for each in (owner, mapping):
        each.close()
        each.close()

    assert not before.leaks()
    with pytest.raises(ValueError, match="closed"):
        owner.fileno()


def test_a_reader_keeps_the_memory_of_an_owner_that_is_gone(
    owner: SharedMemory, mapping: MemoryMapping
) -> None:
    owner.close()

    assert mapping.memory[AT + 1] == 1


def test_memory_that_the_system_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the kernel would kill processes to make room."""
    monkeypatch.setattr(shared_memory, "_available", lambda: SIZE - 1)
    before = Snapshot.take()

    with pytest.raises(OSError, match=f"no room for {SIZE} bytes .*: {SIZE - 1} are"):
        SharedMemory(SIZE)

    assert not before.leaks()


@clause("MC-33", "QB-ERR-9")
def test_an_interrupt_leaves_nothing_of_the_memory_that_it_hits() -> None:
    """Wherever it comes as the memory is created and closed; a descriptor was left."""

    def case(interrupted: Blow) -> None:
        before = Snapshot.take()
        interrupted(lambda: SharedMemory(SIZE).close())
        assert before.leaks(0) == []

    everywhere(case, packages=(bus,))


@clause("MC-33", "QB-ERR-9")
def test_an_interrupt_leaves_nothing_of_the_mapping_that_it_hits(
    owner: SharedMemory,
) -> None:
    """The first view used to need the release of a buffer."""

    views = list[memoryview]()

    def lend_one() -> None:
        mapping = MemoryMapping(owner.fileno())
        views.append(lend(mapping, AT, LENGTH, int))
        mapping.close()

    def case(interrupted: Blow) -> None:
        before = Snapshot.take()
        interrupted(lend_one)
        views.clear()  # not before: an interrupt in a callback at its end is swallowed
        assert before.leaks(0) == []

    everywhere(case, packages=(bus,))


@clause("MC-34")
def test_memory_that_its_owner_may_shrink_is_not_mapped() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(SIZE))
        file.flush()
        with pytest.raises(ValueError, match="may shrink it"):
            MemoryMapping(file.fileno())
    unsealed = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, SIZE)
    try:
        with pytest.raises(ValueError, match=r"may shrink it \(seals 0x0\)"):
            MemoryMapping(unsealed)
    finally:
        os.close(unsealed)


# The views.


@clause("MC-34")
def test_neither_a_view_nor_the_object_behind_it_can_be_written(
    mapping: MemoryMapping,
) -> None:
    view = lend(mapping, AT, LENGTH, list)
    behind: Any = view.obj
    assert view.readonly  # else the first write below would end the process

    for each in (view, view[1:], view.cast("I"), behind, mapping.memory):
        with pytest.raises(TypeError):
            each[0] = 1
    array = np.asarray(view)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        array.flags.writeable = True
    assert (view.nbytes, view[3], bytes(view[-2:])) == (LENGTH, 3, b"\xfe\xff")


@clause("MC-35")
@pytest.mark.parametrize(
    "derive",
    [
        lambda view: view,
        lambda view: view[5:9],
        lambda view: view.cast("I"),
        lambda view: view[:8].cast("B", (2, 4)),
        memoryview,
        np.asarray,
        lambda view: np.frombuffer(view, np.uint32)[::2],
        lambda view: deque([view[1:], view[2:]]),
    ],
    ids=["view", "slice", "cast", "shape", "copy", "array", "stride", "two"],
)
def test_the_last_view_ends_the_lease(
    mapping: MemoryMapping, derive: Callable[[memoryview], object]
) -> None:
    ended: list[int] = []
    view = lend(mapping, AT, LENGTH, lambda: ended.append(1))
    derived = derive(view)
    del view
    gc.collect()
    assert ended == []

    del derived

    assert ended == [1]


@clause("MC-35")
def test_released_views_end_the_lease_once(mapping: MemoryMapping) -> None:
    ended: list[int] = []
    with lend(mapping, AT, LENGTH, lambda: ended.append(1)) as view:
        part = view[1:3]
    assert ended == []
    with pytest.raises(ValueError, match="released"):
        view[0]
    assert bytes(part) == b"\1\2"

    part.release()
    part.release()
    del view, part
    gc.collect()

    assert ended == [1]


@clause("MC-35")
def test_a_view_in_a_cycle_ends_with_the_cycle(mapping: MemoryMapping) -> None:
    ended: list[int] = []
    cycle: list[Any] = [lend(mapping, AT, LENGTH, lambda: ended.append(1))]
    cycle.append(cycle)
    del cycle
    gc.collect()

    assert ended == [1]


@clause("MC-35")
def test_a_view_that_a_finalizer_keeps_does_not_end_with_its_cycle(
    mapping: MemoryMapping,
) -> None:
    """In a cycle the callbacks of weak references come before ``__del__``."""
    ended: list[int] = []
    kept: list[memoryview] = []

    class Holder:
        def __init__(self) -> None:
            self.view = lend(
                mapping,
                AT,
                LENGTH,
                lambda: ended.append(1),
                watch=lambda behind: watched.append(
                    weakref.ref(behind, lambda _: ended.append(2))
                ),
            )
            self.cycle = self

        def __del__(self) -> None:
            kept.append(self.view[1:3])

    watched: list[object] = []
    Holder()
    gc.collect()
    assert bytes(kept[0]) == b"\1\2"
    assert ended == []

    kept.clear()
    assert ended == [2, 1]


@clause("MC-35")
def test_a_view_that_ends_during_the_exit_raises_no_error(
    mapping: MemoryMapping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that drops it is on its way to the callback."""
    monkeypatch.setattr(mappings, "_ends", {})
    errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    ended: list[int] = []
    watched: list[object] = []
    view = lend(
        mapping,
        AT,
        LENGTH,
        lambda: ended.append(1),
        watch=lambda behind: watched.append(
            weakref.ref(behind, lambda _: mappings._ends.clear())
        ),
    )
    del view

    assert (ended, errors) == ([], [])


@clause("MC-35")
def test_a_view_outlives_the_mapping_and_the_memory(
    owner: SharedMemory, mapping: MemoryMapping
) -> None:
    ended: list[int] = []
    view = lend(mapping, AT, LENGTH, lambda: ended.append(1))
    mapping.close()
    owner.close()
    gc.collect()

    assert bytes(view[:3]) == b"\0\1\2"
    del view
    assert ended == [1]


@clause("MC-35")
def test_two_leases_of_one_place_end_apart(mapping: MemoryMapping) -> None:
    ended: list[str] = []
    one = lend(mapping, AT, LENGTH, lambda: ended.append("a"))
    two = lend(mapping, AT, LENGTH, lambda: ended.append("b"))
    del one
    assert ended == ["a"]
    del two
    assert ended == ["a", "b"]


@clause("MC-35")
def test_neither_a_forked_child_nor_the_exit_ends_a_lease() -> None:
    code, answer, complaints = run(
        """
        import os, sys
        from bus.features.memory.mappings import lend
        from bus.features.memory.mappings import MemoryMapping
        from bus.features.memory.shared_memory import SharedMemory
        owner = SharedMemory(1 << 16)
        owner.memory[:5] = b"hello"
        mapping = MemoryMapping(owner.fileno())
        view = lend(mapping, 0, 5, lambda: print("ended", flush=True))
        if os.fork() == 0:
            print(bytes(view), flush=True)
            del view
            os._exit(0)
        os.wait()
        """
    )

    assert (code, complaints) == (0, "")
    assert answer.splitlines() == ["b'hello'"]
