"""QB-SOCK-10: an error of one connection ends that connection, and no driver."""

from __future__ import annotations

import logging
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from queuebroker import BrokerClosedError, DisconnectedQueueError, _net, _sync
from queuebroker.sockets import (
    Driver,
    PeerLostError,
    SocketOptions,
    SocketQueueBroker,
    driver,
    frame_reader,
    frames,
    incoming_connect,
    link,
    listener,
    outgoing_connect,
    read_owner,
)
from queuebroker.sockets.driver import default_driver
from queuebroker.sockets.frames import Hello
from specs.clauses import clause
from tests.kit.raw_peer import raw
from tests.kit.systems import needs_unix_sockets
from tests.sockets.certificates import identity
from tests.sockets.support import PORT, brokers, ends, folder, let_nobody_read, meet
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    import select

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close sends a reset


class PlantedError(Exception):
    """An error that no code of the library expects."""


def fail(*_args: object, **_kwargs: object) -> NoReturn:
    raise PlantedError("planted")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "queuebroker.sockets")


def works(one: SocketQueueBroker, other: SocketQueueBroker) -> None:
    """Check that the two brokers still meet, and that messages pass."""
    local, remote = meet(one, other)
    with local, remote:
        remote.send(b"after")
        assert local.receive(LIMIT_S) == b"after"


@clause("QB-SOCK-10")
def test_a_peer_that_resets_before_the_tls_handshake_ends_nothing_else() -> None:
    """A port scan does that; it once ended all sockets of the process."""
    served = Driver()
    tls = {"tls": identity("localhost")}
    with brokers("tls://localhost:0", {"driver": served, **tls}, tls) as (host, guest):
        assert host.address is not None
        with raw(host.address.replace("localhost", "127.0.0.1")) as peer:
            peer.sendall(b"\x16")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        served.poll(LIMIT_S)  # accepts a connection that is already reset

        assert served.failures == 1
        assert served.sockets == 1  # only the listener
        with Threads() as threads:
            accepting = threads.start(host.accept, PORT)
            asking = threads.start(guest.connect, host.address, PORT)
            while not (accepting.done and asking.done):
                served.poll(0.01)
        for end in (accepting.result(), asking.result()):
            assert end is not None
            end.disconnect()
    served.close()


def ignored(peer: socket.socket, said: bytes) -> None:
    """Send bytes; the peer closes without an answer, or resets."""
    with suppress(ConnectionError):
        peer.sendall(said)
        assert peer.recv(1) == b""


HELLO = frames.encode(Hello("raw", PORT, 1 << 20))


@clause("QB-SOCK-10")
@pytest.mark.parametrize(
    ("where", "what"),
    [
        (listener.Listener, "_begin"),
        (incoming_connect.IncomingConnect, "on_events"),
        (incoming_connect.IncomingConnect, "_register_caller"),
        (link.Link, "ready"),
        (link.Link, "read_locked"),
        (link.Link, "_deliver"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_an_error_on_the_way_of_a_peer_ends_that_peer(
    where: type, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with brokers() as (host, guest):
        local, remote = meet(host, guest)
        with local, remote:
            served = local._socket_connection.link.driver
            before = served.failures
            with monkeypatch.context() as patch:
                patch.setattr(where, what, fail)
                with raw(host.address) as peer:
                    ignored(peer, HELLO)
            assert served.failures > before
            assert not served.failed

            remote.send(b"alive")
            assert local.receive(LIMIT_S) == b"alive"
            works(host, guest)
            assert host.waiting_connects() == {}


@clause("QB-SOCK-10")
@pytest.mark.parametrize("what", ["expire_unknown", "_check_outcome"])
def test_an_error_in_a_timer_or_a_call_ends_its_incoming_connect(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tested: the handshake timer, and the check of an accept's outcome."""
    options = SocketOptions(handshake_s=0.05 if what == "expire_unknown" else 60.0)
    with brokers(host={"options": options}) as (host, guest):
        with monkeypatch.context() as patch:
            patch.setattr(incoming_connect.IncomingConnect, what, fail)
            with raw(host.address) as peer:
                ignored(peer, HELLO if what == "_check_outcome" else b"")
        works(host, guest)
        assert host.waiting_connects() == {}


@clause("QB-SOCK-10")
@pytest.mark.parametrize("what", ["_tick", "_read_out"])
def test_an_error_in_the_life_of_a_connection_ends_it(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is in its timer, or in the read after a failed write."""
    # The timer runs eight times a lease, which a busy machine must be able to keep.
    options = {"options": SocketOptions(lease_s=2.0)}
    with brokers("tcp://127.0.0.1:0", options, options) as (host, guest):
        local, remote = meet(host, guest)
        with local, remote:
            one, sound = local._socket_connection.link, getattr(link.Link, what)

            def strike(self: link.Link, *args: object) -> None:
                (fail if self is one else sound)(self, *args)

            with monkeypatch.context() as patch:
                patch.setattr(link.Link, what, strike)
                if what == "_read_out":
                    with one.lock:
                        one._read_out_soon_locked(OSError(32, "Broken pipe"))
                until(lambda: one.driver.failures > 0, "it has failed")
            assert not one.driver.failed
            with pytest.raises(DisconnectedQueueError) as caught:
                local.receive(LIMIT_S)
            cause = caught.value.__cause__
            assert isinstance(cause, PeerLostError)
            assert isinstance(cause.__cause__, PlantedError)
            assert "PlantedError: planted" in str(cause)
        works(host, guest)


@clause("QB-SOCK-10")
def test_the_driver_releases_a_connection_although_an_end_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise its driver would never end, and its descriptor would leak."""
    with brokers() as (host, guest):
        local, remote = meet(host, guest)
        served = local._socket_connection.link.driver
        with monkeypatch.context() as patch:
            patch.setattr(read_owner.ReadOwner, "detach_locked", fail)
            local.disconnect()
            remote.disconnect()
            until(lambda: served.sockets == 1, "only the listener is left")
        works(host, guest)


@clause("QB-SOCK-10")
def test_the_reading_that_cannot_be_given_back_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timer that releases the read lease belongs to one connection."""
    with ends() as (local, remote), monkeypatch.context() as patch:
        patch.setattr(read_owner.ReadOwner, "rearm_locked", fail)
        remote.send(b"1")
        assert local.receive() == b"1"
        if not local._socket_connection.link.read_owner.idle:  # the driver was faster
            let_nobody_read(local)
        until(lambda: local._socket_connection.link.closed, "it has ended")
        with pytest.raises(DisconnectedQueueError):
            local.receive(LIMIT_S)


@clause("QB-SOCK-10")
@pytest.mark.parametrize("what", ["on_events", "_on_welcome", "_on_connected"])
def test_an_error_on_the_way_to_a_peer_is_raised_by_the_connect(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unchanged and at once: no answer would come."""
    with brokers("tcp://127.0.0.1:0") as (host, guest), Threads() as threads:
        accepting = threads.start(host.accept, PORT)
        assert host.address is not None
        with monkeypatch.context() as patch:
            patch.setattr(outgoing_connect.OutgoingConnect, what, fail)
            with pytest.raises(PlantedError, match="planted"):
                guest.connect(host.address, PORT)
        if what == "_on_connected":
            end = guest.connect(host.address, PORT, required=True)
            end.disconnect()
        accepting.result().disconnect()
        works(host, guest)


@clause("QB-SOCK-10")
def test_a_listener_that_fails_listens_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """After any error it resumes a moment later."""
    with brokers() as (host, guest):
        inner = host._listener
        assert inner is not None
        with monkeypatch.context() as patch:
            patch.setattr(_net, "accept", fail)
            with raw(host.address):
                until(lambda: inner.driver.failures > 0, "it has failed")
        works(host, guest)


@clause("QB-SOCK-10")
@pytest.mark.parametrize("secured", [False, True], ids=["unix", "tls"])
def test_a_message_too_large_for_the_memory_ends_its_connection(
    secured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides get the error, even after the send has returned."""

    def no_memory(*_args: object) -> NoReturn:
        raise MemoryError

    tls = {"tls": identity("localhost")} if secured else {}
    with brokers("tls://localhost:0" if secured else None, tls, tls) as (host, guest):
        (local, remote), (left, right) = meet(host, guest), meet(host, guest)
        with local, remote, left, right:
            with monkeypatch.context() as patch:
                patch.setattr(frame_reader, "_Bytes", no_memory)
                remote.send(bytes(1 << 20))
                with pytest.raises(DisconnectedQueueError) as caught:
                    remote.receive(LIMIT_S)
                assert "MemoryError" in str(caught.value.__cause__)
                with pytest.raises(DisconnectedQueueError):
                    remote.send(b"more")
            with pytest.raises(DisconnectedQueueError) as caught:
                local.receive(LIMIT_S)
            cause = caught.value.__cause__
            assert isinstance(cause, PeerLostError)
            assert isinstance(cause.__cause__, MemoryError)
            left.send(b"alive")
            assert right.receive(LIMIT_S) == b"alive"
            works(host, guest)


@clause("QB-SOCK-10")
@pytest.mark.parametrize("size", [1 << 20, 20 << 20], ids=["gathered", "in parts"])
@pytest.mark.parametrize("secured", [False, True], ids=["unix", "tls"])
def test_an_end_may_get_an_empty_message_in_place_of_one_without_memory(
    secured: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others arrive, and the connection stays."""

    def no_memory(*_args: object) -> NoReturn:
        raise MemoryError

    class Parts(list[bytes]):
        def __iter__(self) -> NoReturn:
            raise MemoryError

    options: dict[str, Any] = {"options": SocketOptions(message_bytes_max=32 << 20)}
    if secured:
        options["tls"] = identity("localhost")
    with brokers("tls://localhost:0" if secured else None, options, options) as (
        host,
        guest,
    ):
        local, remote = meet(host, guest)
        with local, remote, Threads() as threads, monkeypatch.context() as patch:
            local.drop_without_memory()
            patch.setattr(frame_reader, "_Bytes", no_memory)
            local._socket_connection.link.protocol.reader.parts = Parts()
            messages = [b"before", bytes(size), b"after"]
            sending = threads.start(remote.send_many, messages)
            for message in (b"before", b"", b"after"):
                assert local.receive(LIMIT_S) == message
            sending.result()


@clause("QB-SOCK-10")
def test_a_waiting_receiver_without_memory_ends_its_connection() -> None:
    """It reads the socket in the place of the driver."""

    class Short:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def recv(self, *_: object) -> NoReturn:
            raise MemoryError

    with brokers() as (host, guest):
        local, remote = meet(host, guest)
        with local, remote, Threads() as threads:
            link: Any = local._socket_connection.link
            receiving = threads.start(local.receive, LIMIT_S)
            until(lambda: link.read_owner.leased, "it waits at the socket")
            link.socket = Short(link.socket)
            remote.send(b"x")
            with pytest.raises(DisconnectedQueueError) as caught:
                receiving.result()
            assert isinstance(caught.value.__cause__, PeerLostError)
            assert isinstance(caught.value.__cause__.__cause__, MemoryError)
            link.socket = link.socket._inner
        works(host, guest)


@clause("QB-SOCK-10")
def test_a_background_driver_outlives_a_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its events are reported again; no connection ends."""
    with brokers() as (host, guest):
        local, remote = meet(host, guest)
        with local, remote:
            served = default_driver()
            served.call(served.release)
            wait_s, failed = Driver._wait_s, list[int]()

            def no_memory(self: Driver, timeout: float | None) -> float | None:
                if len(failed) < 3:
                    failed.append(1)
                    raise MemoryError
                return wait_s(self, timeout)

            monkeypatch.setattr(Driver, "_wait_s", no_memory)
            served.call(int)
            until(lambda: len(failed) == 3, "it has failed")
            remote.send(b"after")
            assert local.receive(LIMIT_S) == b"after"
            assert not served.failed


@clause("QB-SOCK-10")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_raised_to_the_owner_that_turns_a_driver(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Driver()

    def interrupt(*_args: object) -> NoReturn:
        raise error

    with brokers(host={"driver": served}) as (host, _):
        with monkeypatch.context() as patch:
            patch.setattr(listener.Listener, "ready", interrupt)
            with raw(host.address), pytest.raises(error):
                served.poll(LIMIT_S)
        assert served.failures == 0
    served.close()


# A driver that ends in spite of all this.


class Broken:
    """An epoll that fails, and can be closed."""

    def __init__(self, sound: select.epoll) -> None:
        self.close = sound.close

    def __getattr__(self, name: str) -> NoReturn:
        raise OSError(9, "Bad file descriptor")


@clause("QB-SOCK-10")
def test_a_driver_that_ends_is_logged_and_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its connections end with the cause; the next driver serves its listener."""
    with brokers() as (host, guest), Threads() as threads:
        local, remote = meet(host, guest)
        former = local._socket_connection.link.driver
        receiving = threads.start(local.receive)
        until(lambda: local._socket_connection.link.read_owner.leased, "it waits")
        accepting = threads.start(host.accept, PORT)

        former.call(fail)
        with pytest.raises(DisconnectedQueueError) as caught:
            receiving.result()
        cause = caught.value.__cause__
        assert isinstance(cause, PeerLostError)
        assert isinstance(cause.__cause__, PlantedError)
        with pytest.raises(DisconnectedQueueError):
            remote.receive(LIMIT_S)

        assert former.failed
        assert "the driver of the sockets ends" in caplog.text
        assert host.address is not None
        end = guest.connect(host.address, PORT, required=True)
        assert end._socket_connection.link.driver is not former  # type: ignore[attr-defined]
        end.disconnect()
        accepting.result().disconnect()
        local.disconnect()
        remote.disconnect()
        until(lambda: former._ended, "its thread has ended")


@clause("QB-SOCK-10")
def test_a_connect_that_waits_gets_the_error_by_which_its_driver_ended() -> None:
    with brokers() as (host, guest), Threads() as threads:
        assert host.address is not None
        asking = threads.start(guest.connect, host.address, PORT)
        until(lambda: bool(host.waiting_connects()), "it waits")
        former = default_driver()
        former.call(former.release)
        former.call(fail)
        assert isinstance(asking.error(), PlantedError)


@clause("QB-SOCK-10")
@needs_unix_sockets
def test_a_connect_does_not_wait_for_a_driver_that_its_owner_closed() -> None:
    served = Driver()
    with brokers(guest={"driver": served}) as (host, guest), Threads() as threads:
        assert host.address is not None
        asking = threads.start(guest.connect, host.address, PORT)
        until(lambda: bool(host.waiting_connects()), "it waits")
        served.close()
        with pytest.raises(BrokerClosedError, match="driver is closed"):
            asking.result()


@clause("QB-SOCK-10")
@needs_unix_sockets
def test_a_broker_that_no_driver_serves_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its accepts would block forever."""
    with folder() as place, Threads() as threads:
        file = place / "host"
        host = SocketQueueBroker("host", listen=f"ipc://{file}")
        accepting = threads.start(host.accept, PORT)
        until(lambda: bool(host.waiting_accepts()), "it waits")
        with monkeypatch.context() as patch:
            patch.setattr(listener, "default_driver", fail)
            assert host._listener is not None
            host._listener.driver.call(fail)
            assert isinstance(accepting.error(), BrokerClosedError)
            until(lambda: not file.exists(), "the address is free")
        host.close()


@clause("QB-SOCK-10")
def test_an_epoll_that_fails_ends_a_driver_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends its connections without the epoll."""
    with brokers() as (host, guest):
        local, remote = meet(host, guest)
        with local, remote:
            former = local._socket_connection.link.driver
            with monkeypatch.context() as patch:
                patch.setattr(former, "_poller", Broken(former._poller))
                former.call(list)  # wakes it
                until(lambda: former.failed, "it has failed")
            with pytest.raises(DisconnectedQueueError):
                local.receive(LIMIT_S)
        works(host, guest)


# A thread that cannot be started.


@clause("QB-SOCK-10")
@needs_unix_sockets
def test_the_next_call_starts_a_driver_after_its_thread_failed_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The failed call leaves no driver, broker name or file behind."""

    def no_thread(*_args: object, **_kwargs: object) -> NoReturn:
        msg = "can't start new thread"
        raise RuntimeError(msg)

    until(lambda: "default" not in driver._defaults or _ended(), "none is left over")
    with folder() as place:
        file = place / "host"
        with monkeypatch.context() as patch:
            patch.setattr(_sync.Thread, "start", no_thread)
            with pytest.raises(RuntimeError, match="new thread"):
                SocketQueueBroker("host", listen=f"ipc://{file}")
            assert not file.exists()
        with (
            SocketQueueBroker("host", listen=f"ipc://{file}") as host,
            SocketQueueBroker("guest") as guest,
        ):
            works(host, guest)


def _ended() -> bool:
    return driver._defaults["default"].stopped
