"""A socket without references is closed, with a `ResourceWarning` (BP-21)."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest

from bus.pattern import BusSocket, PairSocket, RawBusSocket, device
from bus.pattern.aio import wrap
from specs.clauses import clause
from tests.kit.collector import collecting
from tests.pattern.nodes import LIMIT_S, fresh_url
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    from bus.pattern.sp_socket import SpSocket

UNCLOSED = "unclosed <BusSocket, . peers>"


def forget(things: list[Any]) -> None:
    """Drop the last references."""
    things.clear()
    gc.collect()


def named(word: str) -> list[threading.Thread]:
    """Return the threads that run now and have a word in their name."""
    return [each for each in threading.enumerate() if word in each.name]


def driver_threads() -> list[threading.Thread]:
    """Return the threads of background drivers and of devices."""
    return named("sockets") + named("device")


@clause("BP-21")
def test_a_forgotten_dialler_leaves_its_peer(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    """And its descriptors: the fixture of every test counts them."""
    hub = stack.enter_context(BusSocket())
    leaf = [BusSocket()]
    leaf[0].dial(hub.listen(fresh_url(transport, tmp_path)).url)
    assert leaf[0].wait_for_peers(1, LIMIT_S)

    with pytest.warns(ResourceWarning, match=UNCLOSED):
        forget(leaf)

    until(lambda: not hub.stats.peers, "the peer has left")


@clause("BP-21")
def test_the_address_of_a_forgotten_listener_is_free(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    forgotten = [BusSocket()]
    url = forgotten[0].listen(fresh_url(transport, tmp_path)).url

    with pytest.warns(ResourceWarning, match=UNCLOSED):
        forget(forgotten)

    fresh = stack.enter_context(BusSocket())

    def listens() -> bool:
        try:
            fresh.listen(url)
        except OSError:
            return False
        return True

    until(listens, "the address is free")


@clause("BP-21")
def test_a_socket_without_addresses_warns_only() -> None:
    pair = [PairSocket()]

    with pytest.warns(ResourceWarning, match="unclosed <PairSocket, 0 peers>"):
        forget(pair)


@clause("BP-21")
def test_a_socket_may_be_collected_while_its_thread_holds_a_lock(
    tmp_path: Path, stack: ExitStack
) -> None:
    """Its own or that of its peer, in the middle of a call."""
    hub = stack.enter_context(BusSocket())
    forgotten: Any = BusSocket()
    forgotten.dial(hub.listen(fresh_url("local", tmp_path)).url)
    assert hub.wait_for_peers(1, LIMIT_S)
    cycle: list[Any] = [forgotten]
    cycle.append(cycle)
    victims: list[object] = [cycle]
    del forgotten, cycle

    with (
        pytest.warns(ResourceWarning, match=UNCLOSED),
        collecting(type(hub._node.outbound), "send_locked", victims),
    ):
        hub.send(b"x")  # collects under the lock of the node

    until(lambda: not hub.stats.peers, "the peer has left")


@clause("BP-21")
def test_a_finalizer_does_not_wait_for_the_lock_of_another_thread(
    tmp_path: Path,
) -> None:
    forgotten = [BusSocket()]
    forgotten[0].listen(fresh_url("local", tmp_path))
    node = forgotten[0]._node

    with Threads() as threads, node.lock:
        with pytest.warns(ResourceWarning, match=UNCLOSED):
            threads.start(forgotten.clear).result()
        assert not node.closed
    until(lambda: node.closed, "the driver has closed it")
    until(lambda: not driver_threads(), "the driver has ended")


@clause("BP-21")
def test_a_closed_socket_is_forgotten_silently() -> None:
    """As is one whose construction failed."""
    BusSocket().close()
    with pytest.raises(TypeError):
        BusSocket(config=1)  # type: ignore[arg-type]
    gc.collect()  # a warning would be an error


@clause("BP-14", "BP-21")
def test_a_device_keeps_its_sockets(tmp_path: Path, stack: ExitStack) -> None:
    """It forwards although no variable refers to it or to them."""
    raw = RawBusSocket()
    url = raw.listen(fresh_url("local", tmp_path)).url
    node = raw._node
    device(raw)
    del raw
    gc.collect()
    leaves = [stack.enter_context(BusSocket()) for _ in range(2)]
    for leaf in leaves:
        leaf.dial(url)
    until(lambda: node.peers == 2, "both are connected")

    leaves[0].send(b"x")

    assert leaves[1].receive(LIMIT_S) == b"x"
    node.close()
    until(lambda: not named("device"), "the device has ended")


@clause("BP-21")
def test_the_face_of_a_socket_keeps_it() -> None:
    face = wrap(BusSocket())
    gc.collect()

    assert not face.socket.closed
    face.close()


def _listening(socket: SpSocket[Any], url: str) -> Callable[[], object]:
    return socket.listen(url).close


def _dialling(socket: SpSocket[Any], url: str) -> Callable[[], object]:
    return socket.dial(url.replace(":0", ":1")).close


@clause("QB-SOCK-11")
def test_the_close_of_a_device_ends_its_threads(tmp_path: Path) -> None:
    with device(RawBusSocket(), RawBusSocket()):
        assert driver_threads()
    assert not driver_threads()
