"""Simulated locks behave as real ones, except for waiting and time."""

from __future__ import annotations

import _thread
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import _sync
from queuebroker.testing import explore

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

# Calls of one thread on a lock, each with its result.
SCRIPTS: dict[str, Callable[[Any], object]] = {
    "take": lambda lock: (lock.acquire(), lock.acquire(False)),
    "take, let go": lambda lock: (lock.acquire(), lock.release(), lock.acquire()),
    "let go of a free one": lambda lock: lock.release(),
    "with": lambda lock: (lock.__enter__(), lock.__exit__(None, None, None)),
    "no wait but a timeout": lambda lock: lock.acquire(False, 1),
    "a negative timeout": lambda lock: lock.acquire(True, -2),
    "too long a timeout": lambda lock: lock.acquire(timeout=1e300),
    "a short timeout": lambda lock: lock.acquire(timeout=0.001),
    "no timeout at all": lambda lock: (lock.acquire(), lock.acquire(timeout=0)),
    "as keywords": lambda lock: lock.acquire(blocking=True, timeout=-1),
}

LOCKS: dict[str, Any] = {"Lock": threading, "RLock": threading, "_sync.Lock": _sync}


def _make(kind: str) -> Any:
    """Make a lock from the current binding of its name."""
    return getattr(LOCKS[kind], kind.rpartition(".")[2])()


def _outcome(script: Callable[[Any], object], lock: Any) -> object:
    try:
        return script(lock)
    except (RuntimeError, ValueError, OverflowError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("kind", LOCKS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_simulated_lock_behaves_like_the_real_one(name: str, kind: str) -> None:
    script = SCRIPTS[name]
    real = _outcome(script, _make(kind))
    simulated: list[object] = []

    def program(_run: Run) -> None:
        simulated.append(_outcome(script, _make(kind)))

    explore(program, bound=0, random=0)

    assert simulated == [real]


@pytest.mark.parametrize("kind", LOCKS)
def test_locks_made_in_a_run_are_simulated_and_others_are_not(kind: str) -> None:
    real = type(_make(kind))
    made: list[object] = []

    explore(lambda run: made.append(_make(kind)), bound=0, random=0)

    assert type(made[0]) is not real
    assert type(_make(kind)) is real


def test_a_simulated_lock_is_an_instance_of_the_substitute_for_lock() -> None:
    """From 3.13 on `threading.Lock` is a class that isinstance accepts."""

    def program(_run: Run) -> None:
        kind: Any = threading.Lock
        assert isinstance(threading.Lock(), kind)
        assert isinstance(_thread.allocate_lock(), kind)
        assert not isinstance(1, kind)

    explore(program, bound=0, random=0)


def test_locks_can_be_referred_to_weakly() -> None:
    def program(_run: Run) -> None:
        lock = threading.Lock()
        assert weakref.ref(lock)() is lock

    explore(program, bound=0, random=0)


@pytest.mark.deep
@pytest.mark.parametrize("kind", LOCKS)
def test_only_one_task_has_a_lock(kind: str) -> None:
    def program(run: Run) -> None:
        lock = _make(kind)
        inside: list[int] = []

        def work() -> None:
            with lock:
                inside.append(1)
                run.sleep(1)
                assert inside == [1]
                inside.pop()

        for _ in range(3):
            run.spawn(work)

    report = explore(program, bound=1)

    # The first task may take its lock as the first, second or third; then two are left.
    assert report.classes == 6


def test_a_woken_waiter_competes_again() -> None:
    """The longest waiter has no priority, as with the library's real locks."""
    orders = set()

    def program(run: Run) -> None:
        lock = threading.Lock()
        order: list[str] = []

        def work(name: str) -> None:
            with lock:
                order.append(name)

        lock.acquire()
        waiting = run.spawn(work, "waited")
        run.settle()
        assert not waiting.done
        run.spawn(work, "came later")
        lock.release()
        run.join()
        orders.add(tuple(order))

    explore(program)

    assert orders == {("waited", "came later"), ("came later", "waited")}


def test_a_reentrant_lock_is_let_go_as_often_as_it_was_taken() -> None:
    def program(run: Run) -> None:
        lock = threading.RLock()
        taken: list[bool] = []

        def other() -> None:
            with lock:
                taken.append(True)

        with lock:
            with lock:
                run.spawn(other)
                run.settle()
            run.settle()
            assert not taken
        run.join()
        assert taken

    explore(program)


def test_a_reentrant_lock_belongs_to_its_task() -> None:
    def program(run: Run) -> None:
        lock = threading.RLock()
        lock.acquire()
        spawned = run.spawn(lock.release)
        run.join()
        assert str(spawned.error) == "cannot release un-acquired lock"
        lock.release()

    explore(program)


def test_a_condition_gives_a_reentrant_lock_back_as_deep_as_it_was() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()

        def wait() -> None:
            with condition, condition:
                condition.wait()

        def wake() -> None:
            with condition:
                condition.notify()

        run.spawn(wait)
        run.settle()
        run.spawn(wake)

    explore(program)


def test_a_lock_used_after_the_run_is_a_flag_that_never_blocks() -> None:
    kept: list[Any] = []

    def program(_run: Run) -> None:
        for kind in LOCKS:
            lock = _make(kind)
            lock.acquire()
            kept.append(lock)

    explore(program, bound=0, random=0)

    for lock in kept:
        assert lock.acquire()
        assert not lock.acquire(blocking=False)
        lock.release()
        assert lock.acquire(blocking=False)
        lock.release()


def test_a_lock_kept_from_an_earlier_run_is_free_and_simulated_again() -> None:
    kept: list[Any] = []

    def program(run: Run) -> None:
        if not kept:
            kept.append(threading.Lock())
        lock = kept[0]
        inside: list[int] = []

        def work() -> None:
            with lock:
                inside.append(1)
                run.sleep(1)
                assert inside == [1]
                inside.pop()

        run.spawn(work)
        run.spawn(work)

    explore(program, limit=0, random=20)
