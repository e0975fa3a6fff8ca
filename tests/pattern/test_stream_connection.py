"""`StreamConnection`: peers that do not read, and the end of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus.pattern import BusSocket, Drop, SocketConfig, native
from bus.pattern.message_run import MessageRun
from queuebroker import _net, _sync
from specs.clauses import clause
from tests.pattern.nodes import LIMIT_S, fresh_url
from tests.pattern.raw_end import dial_native, frame
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path


def test_a_connection_that_is_resumed_still_waits_for_room(
    tmp_path: Path,
) -> None:
    url = fresh_url("local", tmp_path)
    with BusSocket() as first, BusSocket() as second:
        first.listen(url)
        second.dial(url)
        assert first.wait_for_peers(1, LIMIT_S)
        connection: Any = first._node.pipes.active[0].carrier
        masks: list[int] = []

        class Watched:
            def watch(self, _: int, mask: int) -> None:
                if not masks:
                    masks.append(0)
                    # Meanwhile, a thread that sends finds no room.
                    connection._writer._set_awaits_room(awaits=True)
                masks.append(mask)

        driver, connection._driver = connection._driver, Watched()
        connection._watch()
        connection._driver = driver
        assert masks[-1] & _net.WRITE
        connection._writer.awaits_room = False


@clause("BP-4")
def test_accounts_do_not_pile_up_for_a_peer_that_does_not_read(tmp_path: Path) -> None:
    url = fresh_url("local", tmp_path)
    with BusSocket(SocketConfig(send_bytes=1 << 16)) as node:
        node.listen(url)
        with dial_native(node, url):
            carrier: Any = node._node.pipes.active[0].carrier
            while not (carrier.queue.blocked and node.stats.dropped):
                node.send(bytes(1 << 15))
            before = len(carrier._writer.queue._frames)
            for _ in range(100):
                node.send(bytes(1 << 15))  # dropped: the account changes
                carrier._report()
            assert len(carrier._writer.queue._frames) - before <= 2


@clause("BP-4")
def test_accounts_leave_at_most_ten_times_a_second(tmp_path: Path) -> None:
    url = fresh_url("local", tmp_path)
    with BusSocket() as node:
        node.listen(url)
        with dial_native(node, url):
            [pipe] = node._node.pipes.active
            carrier: Any = pipe.carrier
            moments: list[float] = []

            class Timers:
                def at(self, moment: float, _: object) -> None:
                    moments.append(moment)

            driver, carrier._driver = carrier._driver, Timers()
            for count in (1, 2):
                before = _sync.monotonic()
                for _ in range(3):
                    with node._node.lock:
                        pipe.report_soon_locked()
                assert len(moments) == count
                assert moments[-1] >= before + 0.1
                carrier._on_report_due()
            carrier._driver = driver


@clause("BP-4")
def test_the_accounts_that_have_changed_leave_in_one_write(tmp_path: Path) -> None:
    url = fresh_url("local", tmp_path)
    with BusSocket() as node:
        node.listen(url)
        with dial_native(node, url) as peer:
            assert len(peer.read(8)) == 8
            carrier: Any = node._node.pipes.active[0].carrier
            with carrier.queue._flush:  # as a thread that is about to write
                carrier._report()
                assert len(carrier.queue._frames) == 1
            carrier.queue.flush()
            carrier._report()  # nothing has changed
            node.send(b"x")
            carrier._report()
            frames = [
                native.encode(native.Hello(node._node.id)),
                native.encode(native.SenderAccount(0, 0)),
                native.encode(native.ReceiverAccount(0, 0, 0, 0)),
                native.head(MessageRun(node._node.id, 1, [b"x"])) + b"x",
                native.encode(native.SenderAccount(1, 0)),
            ]
            is_ipc = url.startswith("ipc:")
            wanted = b"".join(frame(each, is_ipc=is_ipc) for each in frames)
            assert peer.read(len(wanted)) == wanted


@clause("BP-6")
def test_a_peer_that_is_held_back_and_ends_takes_no_processor_time(
    tmp_path: Path,
) -> None:
    url = fresh_url("local", tmp_path)
    is_ipc = url.startswith("ipc:")
    config = SocketConfig(receive_messages=1, receive_overflow="block")
    with BusSocket(config) as node:
        node.listen(url)
        with dial_native(node, url) as peer:
            carrier: Any = node._node.pipes.active[0].carrier
            run = b"\1" + b"\7" * 8 + (1).to_bytes(8) + (1).to_bytes(4) + bytes(4)
            peer.send(frame(run, is_ipc=is_ipc))
            until(lambda: node.stats.received_queued == 1, "the message has arrived")
            peer.send(frame(bytes(1 << 20), is_ipc=is_ipc)[:9])
            until(lambda: carrier._is_paused, "the peer is held back")
        calls = []
        ready = type(carrier).ready

        def counted(self: Any, mask: int) -> None:
            calls.append(mask)
            ready(self, mask)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(carrier), "ready", counted)
            with BusSocket() as other, BusSocket() as another:  # keep the driver busy
                busy = other.listen(fresh_url("local", tmp_path)).url
                for _ in range(20):
                    another.dial(busy).close()
                _sync.park(_held_lock(), lambda: False, _sync.monotonic() + 0.1)
            assert len([mask for mask in calls if mask & _net.ENDED]) < 30


def _held_lock() -> Any:
    lock = _sync.Lock()
    lock.acquire()
    return lock


def test_an_exit_within_on_drop_leaves_no_descriptor_open(tmp_path: Path) -> None:
    def leave(_: Drop) -> None:
        raise SystemExit

    url = fresh_url("local", tmp_path)
    with BusSocket(SocketConfig(send_bytes=1 << 16), on_drop=leave) as node:
        node.listen(url)
        peer = dial_native(node, url)
        connection: Any = node._node.pipes.active[0].carrier
        while not connection.queue:
            node.send(bytes(1 << 15))
        peer.close()
        # Not by its account, which would report the drop in this thread.
        until(lambda: not node._node.peers, "the loss is noticed")
        until(lambda: connection._socket.fileno() < 0, "the descriptor is closed")
