"""Sockets in the child of a fork: they are closed, and others can be opened."""

from __future__ import annotations

import os
import signal
from threading import Event
from typing import TYPE_CHECKING

import pytest

from bus.pattern import BusSocket
from queuebroker.errors import BrokerClosedError
from specs.clauses import clause
from tests.kit.systems import needs_fork
from tests.pattern.inproc_pairs import connect
from tests.pattern.nodes import LIMIT_S, TRANSPORTS, fresh_url, is_readable
from tests.support import Threads

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_fork


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_child_has_no_socket_of_its_parent(transport: str, tmp_path: Path) -> None:
    """Nothing that it does reaches the peers of the parent."""
    with BusSocket() as first, BusSocket() as second, BusSocket() as absent:
        url = first.listen(fresh_url(transport, tmp_path)).url
        second.dial(url)
        absent.dial(fresh_url("ipc", tmp_path))  # in a pause between two attempts
        assert first.wait_for_peers(1, LIMIT_S)
        assert second.wait_for_peers(1, LIMIT_S)
        child = os.fork()
        if not child:
            os._exit(_in_child(transport, tmp_path, (first, second, absent)))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        first.send(b"still there")
        assert second.receive(LIMIT_S) == b"still there"


def _in_child(transport: str, folder: Path, sockets: tuple[BusSocket, ...]) -> int:
    """Return 0 if all is as it should be, else the number of the step that is not."""
    try:
        for socket in sockets:
            try:
                socket.wait_for_peers(2, LIMIT_S)
            except BrokerClosedError:
                socket.close()
            else:
                return 1
        with BusSocket() as first, BusSocket() as second:
            second.dial(first.listen(fresh_url(transport, folder)).url)
            first.wait_for_peers(1, LIMIT_S)
            second.wait_for_peers(1, LIMIT_S)
            first.send(b"own")
            return 0 if second.receive(LIMIT_S) == b"own" else 2
    except BaseException:  # noqa: BLE001 # pytest must not go on in the child
        return 3


@clause("BP-1")
def test_a_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    """Which held the lock of the socket at the fork."""
    with BusSocket() as socket, Threads() as threads:
        held, forked = Event(), Event()

        def hold() -> None:
            with socket._node.lock:
                held.set()
                forked.wait(LIMIT_S)

        threads.start(hold)
        assert held.wait(LIMIT_S)
        child = os.fork()
        if not child:
            signal.alarm(int(LIMIT_S))
            try:
                socket.receive(0)
            except BrokerClosedError:
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        forked.set()
        assert os.waitstatus_to_exitcode(status) == 0


def test_a_child_that_closes_a_listener_leaves_the_file_of_its_parent(
    tmp_path: Path,
) -> None:
    url = fresh_url("ipc", tmp_path)
    with BusSocket() as node:
        listener = node.listen(url)
        child = os.fork()
        if not child:
            try:
                listener.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.path.exists(url.removeprefix("ipc://"))


@clause("BP-4")
def test_a_child_takes_no_message_of_its_parent_and_leaves_its_descriptor() -> None:
    with BusSocket() as sender, BusSocket() as receiver:
        connect(sender, receiver)
        descriptor = receiver.fileno()
        for body in (b"1", b"2"):
            sender.send(body)
        assert receiver.receive(0) == b"1"  # the other one is ready
        assert _closed_in_child(receiver)
        assert receiver.receive(0) == b"2"
        assert _closed_in_child(receiver)
        assert not is_readable(descriptor)


def _closed_in_child(socket: BusSocket) -> bool:
    """Return whether a receive in a child of a fork finds the socket closed."""
    child = os.fork()
    if not child:
        status = 1
        try:
            socket.receive(0)
        except BrokerClosedError:
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0
