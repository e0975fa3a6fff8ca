"""`Driver` and the read lease that a receiver takes from it and returns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from queuebroker import _net
from queuebroker.sockets import Driver, read_owner
from specs.clauses import clause
from tests.sockets.support import ends, let_nobody_read, take_lease_locked
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def driver() -> Iterator[Driver]:
    """Yield a driver that this thread runs."""
    made = Driver()
    yield made
    made.close()


def rung(driver: Driver, limit_s: float = 0) -> bool:
    """Return whether its event reports that there is work."""
    return bool(_net.wait_to_read_any([driver._wake.fd], limit_s))


def test_a_call_marks_the_driver_ready_until_the_next_poll(driver: Driver) -> None:
    """This includes a call from that thread between its polls."""
    made: list[int] = []
    assert not rung(driver)

    driver.call(lambda: made.append(1))
    assert rung(driver)
    driver.poll(0)

    assert made == [1]
    assert not rung(driver)


def test_a_call_may_be_the_last_that_its_driver_needs() -> None:
    """Its owner runs the call and closes the driver before the caller has rung.

    Then the caller would write to a parker that is closed, or to a reused descriptor
    number.
    """
    ending = Driver()
    ring = ending._wake.set
    rang: list[bool] = []

    def late() -> None:
        ending.close()
        ring()
        rang.append(True)

    ending._wake.set = late
    ending.call(lambda: None)

    assert rang == [True]
    with pytest.raises(OSError):
        os.fstat(ending._wake.fd)


def test_a_driver_that_has_ended_keeps_no_call() -> None:
    """Each would keep its connection alive for as long as the driver exists."""
    ended = Driver()
    ended.close()
    ended.call(list)
    assert not ended._calls


@pytest.mark.parametrize("soon", [True, False], ids=["call", "timer"])
def test_a_callback_may_add_a_call_to_the_same_poll(
    driver: Driver, *, soon: bool
) -> None:
    """No wake-up is needed."""
    made: list[int] = []

    def first() -> None:
        driver.call(lambda: made.append(1))

    if soon:
        driver.call(first)
    else:
        driver.at(0.0, first)
    driver.poll(0)

    assert made == [1]
    assert not rung(driver)


def test_a_callback_that_raises_leaves_the_other_calls_to_the_next_poll(
    driver: Driver,
) -> None:
    """The owner gets the error; the remaining calls run in the next turn."""
    made: list[int] = []

    def fail() -> None:
        driver.call(lambda: made.append(2))
        raise LookupError("no")

    driver.call(fail)
    driver.call(lambda: made.append(1))
    with pytest.raises(LookupError):
        driver.poll(0)
    assert rung(driver)
    driver.poll(0)

    assert made == [1, 2]


def test_a_call_from_another_thread_wakes_the_polling_thread(driver: Driver) -> None:
    """Otherwise it would sleep."""
    made: list[int] = []
    with Threads() as threads:
        turning = threads.start(driver.poll, LIMIT_S)
        driver.call(lambda: made.append(1))
        turning.result()
    assert made == [1]


@clause("QB-SOCK-8")
def test_after_a_receive_the_driver_reads_again() -> None:
    """It does so soon, without any call: a message sent then arrives."""
    with ends() as (local, remote):
        with Threads() as threads:
            receiving = threads.start(local.receive)
            until(lambda: local._socket_connection.link.read_owner.leased, "it reads")
            remote.send(b"1")
            assert receiving.result() == b"1"

        remote.send(b"2")

        until(lambda: local.pending == 1, "the driver has read it")
        assert local.receive_nowait() == b"2"


def test_one_timer_serves_all_receivers_within_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It continues while receives do, and then returns the read lease."""
    monkeypatch.setattr(read_owner, "IDLE_S", 3600.0)
    with ends() as (local, _):
        ours, posted = local._socket_connection.link, 0

        def at(_moment: float, _function: object, _served: object) -> None:
            nonlocal posted
            posted += 1

        monkeypatch.setattr(ours.driver, "at", at)
        for _ in range(3):
            let_nobody_read(local)
        assert (posted, ours.read_owner.idle) == (1, True)
        ours.read_owner._rearm()
        assert (posted, ours.read_owner.idle) == (2, True)

        monkeypatch.setattr(read_owner, "IDLE_S", 0.0)
        ours.read_owner._rearm()

        assert (posted, ours.read_owner.idle) == (2, False)
        monkeypatch.undo()


def test_a_finished_receiver_hands_the_read_lease_to_the_next_waiter() -> None:
    """A receiver that leaves the socket hands the lease to the next waiter."""
    with ends() as (local, remote), Threads() as threads:
        first = threads.start(local.receive)
        until(
            lambda: local._socket_connection.link.read_owner.leased, "the first reads"
        )
        second = threads.start(local.receive)
        until(
            lambda: len(local._socket_connection.inbox.arrived) == 2, "the second waits"
        )
        remote.send(b"1")
        until(lambda: first.done or second.done, "one has it")
        remote.send(b"2")
        assert {first.result(), second.result()} == {b"1", b"2"}


@clause("QB-SOCK-8")
def test_the_end_of_a_connection_wakes_the_holder_of_the_read_lease() -> None:
    """It sleeps at the socket, and need not be on a wait list of the connection."""
    with ends() as (local, _):
        connection = local._socket_connection
        with connection.lock:
            sleeper = take_lease_locked(local)

        local.disconnect()

        assert not sleeper.locked()
        with connection.lock:
            connection.link.read_owner.yield_locked(wanted=True)
