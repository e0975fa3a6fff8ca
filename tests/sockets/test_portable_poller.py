"""`_PortablePoller`: a change by another thread at each point of a call.

A handler stands for the other thread: it runs where the interpreter may switch.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from queuebroker import _net, _sync
from queuebroker._net import polling
from queuebroker._net.polling import _END_S, _PortablePoller, _SelectSet, _Wait
from queuebroker._platform import SYSTEM
from specs.clauses import clause
from tests.kit.collector import changed_by_finalizers
from tests.kit.systems import needs_fork
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.strikes import Blow


@pytest.fixture
def ended() -> Iterator[socket.socket]:
    """Yield a socket whose peer has ended the connection: it can be written to."""
    with ExitStack() as stack:
        one, other = map(stack.enter_context, socket.socketpair())
        other.close()
        yield one


@pytest.mark.skipif(not hasattr(select, "poll"), reason="select reports no hang-up")
def test_a_hang_up_is_reported_once(ended: socket.socket) -> None:
    poller = _PortablePoller()
    poller.register(ended.fileno(), _net.ONCE)
    assert [each for each, _ in poller.poll(0)] == [ended.fileno()]
    assert poller.poll(0) == []


@pytest.mark.skipif(SYSTEM != "linux", reason="only Linux stands in for other systems")
def test_a_number_that_select_does_not_accept_is_an_error() -> None:
    """It counted as closed: its events were lost without a trace."""
    waited = _SelectSet()
    waited.register(5_000, _net.READ)
    with pytest.raises(ValueError, match="out of range"):
        waited.poll(0)


def test_a_change_during_the_report_of_a_hang_up_stays(ended: socket.socket) -> None:
    """Else the sender that waits for room would never be woken."""

    def case(struck: Blow) -> None:
        poller = _PortablePoller()
        poller.register(ended.fileno(), _net.ONCE)
        changed: list[bool] = []

        def change() -> None:
            poller.modify(ended.fileno(), _net.WRITE)
            changed.append(True)

        struck(lambda: poller.poll(0), change)
        if changed:
            assert any(mask & _net.WRITE for _, mask in poller.poll(0))

    everywhere(case)


def test_a_change_revives_no_descriptor_that_was_unregistered_meanwhile(
    ended: socket.socket,
) -> None:
    """Its number may soon belong to a file that no handler reads."""

    def case(struck: Blow) -> None:
        poller = _PortablePoller()
        poller.register(ended.fileno(), _net.ONCE)
        forgotten: list[bool] = []

        def change() -> None:
            with suppress(FileNotFoundError):
                poller.modify(ended.fileno(), _net.READ)

        def forget() -> None:
            poller.unregister(ended.fileno())
            forgotten.append(True)

        struck(change, forget)
        if forgotten:
            assert poller.poll(0) == []

    everywhere(case)


def test_a_change_writes_to_no_descriptor_that_was_closed_meanwhile(
    ended: socket.socket,
) -> None:
    """The thread of a driver may close the poller while another thread wakes it."""

    def case(struck: Blow) -> None:
        poller = _PortablePoller()
        poller.register(ended.fileno(), _net.ONCE)
        poller._waiting.append(_Wait())  # as while a thread waits
        reused: list[socket.socket] = []

        def close() -> None:
            poller.close()
            reused.extend(socket.socketpair())
            reused.extend(socket.socketpair())

        def change() -> None:
            with suppress(FileNotFoundError):
                poller.modify(ended.fileno(), _net.READ)

        struck(change, close)
        try:
            for each in reused:
                assert not _net.wait_to_read_any([each.fileno()], 0)
        finally:
            for each in reused:
                each.close()

    everywhere(case)


class LongWaits(_SelectSet):
    """Waits that end for Python some time after they have ended for the system."""

    waits_at: frozenset[int] = frozenset()

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        LongWaits.waits_at = frozenset(self._masks)
        found = super().poll(timeout_ms)
        for _ in range(1_000):
            _sync.yield_processor()
        LongWaits.waits_at = frozenset()
        return found


@clause("QB-CONC-7")
def test_a_descriptor_is_forgotten_once_no_thread_waits_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A closed listener at which one waits stays open, and takes another connect."""
    monkeypatch.setattr(polling, "WaitSet", LongWaits)
    poller = _PortablePoller()
    with Threads() as threads, ExitStack() as stack:
        one, other = map(stack.enter_context, socket.socketpair())
        waiting = threads.start(poller.poll, LIMIT_S)
        poller.register(one.fileno(), _net.READ)
        until(lambda: one.fileno() in LongWaits.waits_at, "the other thread waits")

        poller.unregister(one.fileno())

        assert one.fileno() not in LongWaits.waits_at
        poller.register(other.fileno(), _net.READ)
        one.close()
        assert [number for number, _ in waiting.result()] == [other.fileno()]


@pytest.mark.filterwarnings("ignore")  # the interpreter warns of threads
@needs_fork
def test_the_child_of_a_fork_closes_the_event_for_which_a_thread_waited() -> None:
    """The child has no such thread, but its references to the event."""
    poller = _PortablePoller()
    held = poller._changed
    assert held is not None
    child = os.fork()
    if not child:
        poller.close()
        try:
            os.fstat(held.fd)
        except OSError:
            os._exit(0)
        os._exit(1)

    _, status = os.waitpid(child, 0)
    assert status == 0


def test_another_thread_may_register_while_the_poller_reads_its_descriptors() -> None:
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(20)]
        sockets = [stack.enter_context(each) for pair in pairs for each in pair]
        left = iter(sockets)
        poller = _PortablePoller()

        def register() -> None:
            for each in left:
                poller.register(each.fileno(), _net.READ)
                break

        for _ in range(20):
            register()
        with changed_by_finalizers(register):
            assert poller.poll(0) == []


def test_a_signal_handler_forgets_a_descriptor_at_which_its_own_thread_waits(
    ended: socket.socket,
) -> None:
    poller = _PortablePoller()
    poller.register(ended.fileno(), _net.READ)
    poller._waiting.append(_Wait())  # as while this thread waits
    began = time.monotonic()

    poller.unregister(ended.fileno())

    assert time.monotonic() - began < _END_S
