"""`Poller`: epoll, and the substitutes of systems that have none, on Linux."""

from __future__ import annotations

import select
import socket
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import _net
from queuebroker._net import polling
from specs.clauses import clause
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = {
    "epoll": getattr(select, "epoll", None),
    "poll": getattr(select, "poll", None),
    "select": polling._SelectSet,
}
# `select` does not report a hang-up that no wait to read has asked for.
TELLS_HANG_UPS = {"epoll", "poll"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if KINDS[request.param] is None:
        pytest.skip("only Linux stands in for other systems")
    return str(request.param)


@pytest.fixture
def poller(kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if kind == "epoll":
        made: Any = select.epoll()
    else:
        monkeypatch.setattr(polling, "WaitSet", KINDS[kind])
        made = polling._PortablePoller()
    with closing(made):
        yield made


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with ExitStack() as stack:
        one, other = socket.socketpair()
        stack.enter_context(one)
        stack.enter_context(other)
        yield one, other


Ends = tuple[socket.socket, socket.socket]


def test_the_awaited_events_are_reported_as_long_as_they_last(
    poller: Any, ends: Ends
) -> None:
    here, there = ends
    poller.register(here.fileno(), _net.READ)
    assert poller.poll(0) == []
    there.send(b"x")
    for _ in range(2):
        assert poller.poll(LIMIT_S) == [(here.fileno(), _net.READ)]

    poller.modify(here.fileno(), _net.READ | _net.WRITE)
    assert poller.poll(LIMIT_S) == [(here.fileno(), _net.READ | _net.WRITE)]
    here.recv(1)
    assert poller.poll(LIMIT_S) == [(here.fileno(), _net.WRITE)]

    poller.unregister(here.fileno())
    assert poller.poll(0) == []


@clause("QB-SOCK-9")
def test_a_hang_up_that_nothing_else_waits_for_is_reported_once(
    poller: Any, ends: Ends, kind: str
) -> None:
    here, there = ends
    poller.register(here.fileno(), _net.ONCE)
    there.send(b"x")
    assert poller.poll(0) == []
    there.close()

    reports = [poller.poll(0), poller.poll(0)]

    if kind in TELLS_HANG_UPS:
        [(number, mask)] = reports.pop(0)
        assert number == here.fileno()
        assert mask & _net.ENDED
    assert not any(reports)
    poller.modify(here.fileno(), _net.READ)
    assert poller.poll(LIMIT_S)


@clause("QB-SOCK-3")
@pytest.mark.parametrize("act", ["register", "modify"])
def test_another_thread_may_change_the_events_during_a_wait(
    poller: Any, ends: Ends, act: str
) -> None:
    here, _ = ends
    if act == "modify":
        poller.register(here.fileno(), _net.READ)
    with Threads() as threads:
        waiting = threads.start(poller.poll, LIMIT_S)
        if isinstance(poller, polling._PortablePoller):
            until(lambda: bool(poller._waiting), "it waits")
        getattr(poller, act)(here.fileno(), _net.WRITE)

        assert waiting.result() == [(here.fileno(), _net.WRITE)]


def test_a_closed_descriptor_is_forgotten(poller: Any, ends: Ends) -> None:
    here, there = ends
    poller.register(here.fileno(), _net.READ)
    poller.register(there.fileno(), _net.WRITE)
    here.close()

    found = poller.poll(LIMIT_S) or poller.poll(LIMIT_S)

    assert [number for number, _ in found] == [there.fileno()]


def test_a_descriptor_that_is_not_registered_is_an_error(
    poller: Any, ends: Ends
) -> None:
    number = ends[0].fileno()
    with pytest.raises(FileNotFoundError):
        poller.modify(number, _net.READ)
    with pytest.raises(FileNotFoundError):
        poller.unregister(number)
