"""QB-SOCK-8, QB-TIME-1: no timeout and no setting is too long for the system."""

from __future__ import annotations

import asyncio
import math
import select
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import Task, _net, _sync, receive_any
from queuebroker.aio import wrap
from queuebroker.sockets import Driver, SocketOptions
from specs.clauses import clause
from tests.sockets.support import PORT, brokers, meet
from tests.support import Threads, until

if TYPE_CHECKING:
    from queuebroker import MessageQueue

# Longer than a poll accepts, than a lock accepts, than a float can hold.
LONG = [3e6, 1e9, 1e10, 1e300, math.inf, 10**400]
IDS = ["weeks", "years", "centuries", "float", "inf", "int"]
long = pytest.mark.parametrize("timeout", LONG, ids=IDS)


@clause("QB-SOCK-8", "QB-TIME-1")
@long
def test_a_driver_polls_for_any_time(timeout: float) -> None:
    served = Driver()
    made: list[int] = []
    with Threads() as threads:
        turning = threads.start(served.poll, timeout)
        served.call(lambda: made.append(1))
        turning.result()
    assert made == [1]
    served.close()


@clause("QB-SOCK-8")
@pytest.mark.parametrize(
    ("wrong", "error"), [(-1, ValueError), (math.nan, ValueError), ("1", TypeError)]
)
def test_a_driver_refuses_a_wrong_timeout(wrong: Any, error: type[Exception]) -> None:
    served = Driver()
    with pytest.raises(error, match="timeout must be"):
        served.poll(wrong)
    served.close()


@clause("QB-SOCK-8")
@pytest.mark.parametrize("moment", [3e6, 1e300, math.inf])
def test_a_timer_may_be_however_far_away(moment: float) -> None:
    served = Driver()
    made: list[int] = []
    served.at(_sync.monotonic() + moment, lambda: made.append(2))
    served.poll(0)
    with Threads() as threads:
        turning = threads.start(served.poll)
        served.call(lambda: made.append(1))
        turning.result()
    assert made == [1]
    served.close()


@clause("QB-SOCK-1", "QB-TIME-1")
@long
@pytest.mark.parametrize("listen", [None, "tcp://127.0.0.1:0"], ids=["unix", "tcp"])
def test_queues_wait_for_any_time(timeout: float, listen: str | None) -> None:
    """Every time limit in the options may be as long."""
    long_s = math.inf if timeout == 10**400 else timeout
    options = {
        "options": SocketOptions(
            handshake_s=long_s, lease_s=long_s, farewell_s=long_s, backlog=2**40
        )
    }
    with brokers(listen, options, options) as (host, guest), Threads() as threads:
        accepting = threads.start(host.accept, PORT, timeout=timeout)
        assert host.address is not None
        remote = guest.connect(host.address, PORT, timeout=timeout, required=True)
        local = accepting.result()
        receiving = threads.start(lambda: local.receive(timeout=timeout))
        remote.send(b"1", timeout=timeout)
        assert receiving.result() == b"1"
        choosing = threads.start(lambda: receive_any([local], timeout=timeout))
        remote.send(b"2", timeout=timeout)
        assert choosing.result()[1] == b"2"
        sending = threads.start(fill, remote, timeout)
        until(lambda: local.pending == remote.capacity, "it is full")
        local.receive()
        sending.result()
        local.disconnect()
        remote.disconnect()


def fill(queue: MessageQueue, timeout: float) -> None:
    """Send one message more than there is room for."""
    for _ in range(queue.capacity + 1):
        queue.send(b"", timeout=timeout)


@clause("QB-PY-11", "QB-TIME-1")
@long
def test_a_coroutine_waits_for_any_time(timeout: float) -> None:
    with brokers() as (host, guest):
        local, remote = meet(host, guest)

        async def answered() -> bytes:
            receiving = asyncio.ensure_future(wrap(local).receive(timeout=timeout))
            await asyncio.sleep(0)
            remote.send(b"1")
            return await receiving

        assert asyncio.run(answered()) == b"1"
        local.disconnect()
        remote.disconnect()


@clause("QB-TIME-1")
@long
def test_a_task_is_joined_for_any_time(timeout: float) -> None:
    with brokers() as (_, guest):
        task = Task(guest._broker, lambda: None)
        task.start()
        task.join(timeout)
        assert not task.is_alive()


@clause("QB-TIME-1", "QB-TIME-2")
def test_a_wait_is_made_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice is the longest wait of the platform; the wait ends after the last one."""
    monkeypatch.setattr(_sync, "WAIT_S_MAX", 0.01)
    parker = _sync.Lock()
    parker.acquire()
    began = _sync.monotonic()
    assert not _sync.park(parker, lambda: False, began + 0.05)
    assert _sync.monotonic() >= began + 0.05


@clause("QB-SOCK-8")
def test_a_poll_is_asked_for_no_longer_than_the_system_takes() -> None:
    poller = _net.Poller()
    served = Driver()
    poller.register(served._wake.fd, _net.READ)
    served.call(list)
    assert poller.poll(_net.POLL_S_MAX)
    if hasattr(select, "epoll"):
        with pytest.raises(OverflowError):
            poller.poll(_net.POLL_S_MAX + 1)
    poller.close()
    served.close()


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("lease_s", math.nan, "must be > 0, got nan"),
        ("lease_s", 0, "must be > 0, got 0"),
        ("lease_s", "1", "must be a number"),
        ("handshake_s", 10**400, "or math.inf"),
        ("mode", 0o10000, "must be in 0..0o7777"),
        ("mode", -1, "must be in 0..0o7777"),
    ],
)
def test_a_setting_that_the_system_cannot_be_given_is_refused_at_once(
    setting: str, value: Any, words: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{setting}.*{words}"):
        SocketOptions(**{setting: value})
