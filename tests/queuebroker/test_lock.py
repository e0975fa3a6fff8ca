"""`_sync.Lock`, and `_sync.WithLock` that replaces it on CPython 3.14.

A ``with`` statement on it is interrupted at each of its points, as in every call of the
library; and by a real signal during its entry.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

import tests
from queuebroker import _sync
from specs.clauses import clause
from tests.strikes import everywhere
from tests.support import Threads, ticking

if TYPE_CHECKING:
    from tests.strikes import Blow


@pytest.fixture(params=["Lock", "WithLock"])
def lock(request: pytest.FixtureRequest) -> Any:
    return getattr(_sync, request.param)()


@clause("QB-ERR-9")
def test_a_with_statement_that_is_interrupted_releases_its_lock(lock: Any) -> None:
    inside = []

    def act() -> None:
        with lock:
            inside.append(lock.locked())

    def case(interrupted: Blow) -> None:
        interrupted(act)

        assert not lock.locked()

    everywhere(case, packages=[tests])

    assert all(inside)
    assert len(inside) > 1


@pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="no signal ends a wait for a lock here"
)
@clause("QB-ERR-9")
def test_a_wait_for_a_lock_is_interrupted_and_takes_nothing(lock: Any) -> None:
    waits: list[bool] = []

    # A signal that comes just before the thread sleeps does not wake it; the next does.
    def interrupt() -> None:
        if waits:
            waits.clear()  # a second interrupt may end `raises`
            raise KeyboardInterrupt

    def wait() -> None:
        waits.append(True)
        with lock:
            pytest.fail("two hold it")

    lock.acquire()
    with ticking(interrupt), pytest.raises(KeyboardInterrupt):
        wait()

    assert lock.locked()
    lock.release()
    with lock:
        assert lock.locked()


def test_the_substitute_behaves_like_a_lock() -> None:
    lock = _sync.WithLock()
    order = []

    def other() -> None:
        with lock:
            order.append("other")

    with Threads() as threads:
        with lock:
            waiter = threads.start(other)
            assert not lock.acquire(False)
            assert not lock.acquire(True, 0.001)
            order.append("this")
        waiter.result()

    assert order == ["this", "other"]
    assert lock.acquire()
    lock.release()
    with pytest.raises(RuntimeError):
        lock.release()
    with pytest.raises(ZeroDivisionError), lock:
        raise ZeroDivisionError
    assert not lock.locked()
