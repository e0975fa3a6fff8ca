"""A broker or an end without references is closed, with a `ResourceWarning`."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    BrokerManager,
    DisconnectedQueueError,
    ReceiveTimeoutError,
    UnknownBrokerError,
    _net,
    current_broker,
)
from queuebroker.aio import wrap
from queuebroker.sockets import Driver, SocketQueueBroker
from queuebroker.sockets.read_owner import ReadOwner
from specs.clauses import clause
from tests.kit.collector import collecting
from tests.kit.systems import needs_unix_sockets
from tests.pairs import loose_queue_pair
from tests.sockets.support import brokers, folder, meet
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def manager() -> Iterator[BrokerManager]:
    """Yield a name space of its own."""
    with BrokerManager() as made:
        yield made


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Collect no cycles during the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def descriptors() -> set[str]:
    """Return the descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))


@clause("QB-PY-7")
@pytest.mark.parametrize("listen", ["ipc://{}/b", "tcp://127.0.0.1:0", None])
@needs_unix_sockets
def test_a_forgotten_broker_warns_and_frees_its_name_and_its_descriptors(
    manager: BrokerManager, listen: str | None
) -> None:
    """Its name and its address can be used again at once, its descriptors soon."""
    with folder() as place:
        address = listen and listen.format(place)
        before = descriptors()
        broker = [SocketQueueBroker("b", listen=address, manager=manager)]
        chosen = broker[0].address

        with pytest.warns(ResourceWarning, match=r"^unclosed <Sock.* 'b'.* open>$"):
            broker.clear()
        again = SocketQueueBroker("b", listen=chosen, manager=manager)

        assert again.address == chosen
        again.close()
        until(lambda: descriptors() == before, "all descriptors are closed")


@clause("QB-PY-7")
@needs_unix_sockets
def test_a_forgotten_broker_is_closed_without_a_further_call(
    manager: BrokerManager,
) -> None:
    with folder() as place:
        path = place / "b"
        broker = [SocketQueueBroker("b", listen=f"ipc://{path}", manager=manager)]
        assert path.exists()

        with pytest.warns(ResourceWarning, match="unclosed"):
            broker.clear()

        until(lambda: not path.exists(), "the file of its address is removed")
        until(lambda: manager.get("b") is None, "its name is free")


@clause("QB-PY-7", "QB-CONC-9")
@pytest.mark.parametrize("listens", [True, False])
def test_a_broker_may_be_collected_while_its_thread_holds_the_lock(
    manager: BrokerManager, *, listens: bool
) -> None:
    """In the middle of a call that registers another broker."""

    class Holder:
        held: Any
        me: Any

    holder = Holder()
    listen = "tcp://127.0.0.1:0" if listens else None
    holder.held = SocketQueueBroker("b", listen=listen, manager=manager)
    holder.me = holder
    victims: list[object] = [holder]
    del holder

    with (
        pytest.warns(ResourceWarning, match="unclosed"),
        collecting(BrokerManager, "_register_locked", victims),
        SocketQueueBroker("other", manager=manager),
    ):
        until(lambda: manager.names() == ["other"], "its name is free")


@clause("QB-PY-7", "QB-CONC-9")
def test_a_finalizer_does_not_wait_for_the_lock_of_another_thread(
    manager: BrokerManager,
) -> None:
    broker = [SocketQueueBroker("b", manager=manager)]

    with Threads() as threads, manager.lock:
        with pytest.warns(ResourceWarning, match="unclosed"):
            threads.start(broker.clear).result()
        assert manager.get("b") is not None
    SocketQueueBroker("c", manager=manager).close()
    assert manager.get("b") is None


@clause("QB-PY-7")
def test_a_forgotten_broker_with_a_driver_of_its_user_is_closed_by_the_next_poll(
    manager: BrokerManager,
) -> None:
    driver = Driver()
    listen = "tcp://127.0.0.1:0"
    broker = [SocketQueueBroker("b", listen=listen, driver=driver, manager=manager)]

    with pytest.warns(ResourceWarning, match="unclosed"):
        broker.clear()
    driver.poll(0)

    assert (driver.sockets, manager.get("b")) == (0, None)
    driver.close()


@clause("QB-PY-7")
def test_a_broker_in_use_is_not_forgotten(manager: BrokerManager) -> None:
    """Neither as the current broker, nor behind its face for coroutines."""
    with SocketQueueBroker("b", manager=manager).as_current():
        gc.collect()
        assert not current_broker().closed
        face = wrap(SocketQueueBroker("c", manager=manager))
        gc.collect()
        assert not face.closed
        face.close()
        manager.close()


@clause("QB-PY-7")
def test_a_closed_broker_is_forgotten_silently(manager: BrokerManager) -> None:
    """As is one whose construction failed, and that of a parent process."""
    SocketQueueBroker("b", manager=manager).close()
    with pytest.raises(ValueError, match="tls is not given"):
        SocketQueueBroker("b", listen="tls://127.0.0.1:0", manager=manager)
    gc.collect()  # a warning would be an error


@clause("QB-PY-7")
def test_a_forgotten_broker_that_has_found_no_listener_is_closed(
    manager: BrokerManager, without_collector: None
) -> None:
    """No cycle of the attempt to connect holds it until a garbage collection."""
    broker = [SocketQueueBroker("b", listen="tcp://127.0.0.1:0", manager=manager)]
    with suppress(UnknownBrokerError):  # `raises` would keep the traceback
        nowhere = f"tcp://127.0.0.1:{_net.unused_port()}"
        broker[0].connect(nowhere, 1, timeout=LIMIT_S, required=True)

    def forget() -> None:
        broker.clear()
        until(lambda: not manager.names(), "the broker is closed")

    with pytest.warns(ResourceWarning, match="unclosed"):
        forget()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@clause("QB-PY-7")
@pytest.mark.parametrize("which", ["of the acceptor", "of the connector"])
def test_a_forgotten_end_hangs_up(which: str) -> None:
    """As between threads, also if the driver has made the end and waits."""
    with brokers() as (host, guest):
        ends = list(meet(host, guest))
        if which == "of the connector":
            ends.reverse()
        peer = ends.pop()

        ends.clear()

        with peer, pytest.raises(DisconnectedQueueError):
            peer.receive(timeout=LIMIT_S)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@clause("QB-PY-7")
def test_an_end_that_has_waited_hangs_up_once_it_is_forgotten(
    without_collector: None,
) -> None:
    """No cycle holds it until the next garbage collection."""
    with brokers() as (host, guest):
        local, *kept = meet(host, guest)
        with suppress(ReceiveTimeoutError):  # `raises` would keep the traceback
            kept[0].receive(timeout=0.05)

        kept.clear()

        with local, pytest.raises(DisconnectedQueueError):
            local.receive(timeout=LIMIT_S)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@clause("QB-PY-7", "QB-CONC-9")
def test_an_end_that_is_forgotten_as_the_driver_reads_again_hangs_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The finalizer finds the lock taken, and leaves the close to its holder."""
    with brokers() as (host, guest):
        local, *kept = meet(host, guest)
        mine = kept[0]._socket_connection.link.read_owner
        rearm_locked = ReadOwner.rearm_locked

        def forget(read_owner: ReadOwner) -> None:
            rearm_locked(read_owner)
            if read_owner is mine:
                kept.clear()

        monkeypatch.setattr(ReadOwner, "rearm_locked", forget)
        with suppress(ReceiveTimeoutError):
            kept[0].receive(timeout=0.01)  # in the place of the driver

        with local, pytest.raises(DisconnectedQueueError):
            local.receive(timeout=LIMIT_S)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@clause("QB-PY-7")
def test_an_end_is_forgotten_while_its_maker_waits_for_a_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the interpreter lock, the thread that has made the end frees it."""
    # Else the first part of the wait ends after some milliseconds.
    monkeypatch.setattr("queuebroker._net.sleeper.AT_ONCE", 0)
    with brokers() as (host, guest), Threads() as threads:
        local, remote = meet(host, guest)
        kept = list(loose_queue_pair())
        read_owner = local._socket_connection.link.read_owner

        def forget() -> None:
            until(lambda: read_owner.leased, "the maker waits")
            peer = kept.pop()
            kept.clear()
            try:
                with pytest.raises(DisconnectedQueueError):
                    peer.receive(timeout=LIMIT_S)
            finally:
                peer.disconnect()
                remote.send(b"go on")

        forgetting = threads.start(forget)
        with local, remote:
            assert local.receive() == b"go on"
            forgetting.result()
