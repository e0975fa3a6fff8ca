"""Commands in quick succession: where a send batch has to end, each a former bug."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from bus import BusFullError, UnknownTaskError, WrongProcessError
from bus.links.relay_outbox import RelayOutbox
from specs.clauses import clause
from tests.kit.buses import processes
from tests.kit.comm_threads import held
from tests.kit.tasks import Holder, Reader
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from bus import Incoming
    from bus.links.send_batch import SendBatch


@clause("BUS-DEREG-1", "BUS-MSG-2")
def test_a_task_that_leaves_goes_on_with_no_send_batch() -> None:
    """Inside its own callback, which runs to its end, the task still has its thread."""
    with processes(2) as [bus, other]:
        reader, outcomes = Reader(other), list[str]()

        def leave(_: Incoming) -> None:
            leaver.command("reader", b"1")
            leaver.deregister()
            for payload in (b"2", "2"):
                try:
                    leaver.command("reader", payload)
                    outcomes.append("sent")
                except UnknownTaskError:
                    outcomes.append("refused")

        leaver = bus.register("leaver", on_command=leave)
        leaver.command("reader", b"0")
        reader.has(1)
        bus.register("other").command("leaver")

        until(lambda: len(outcomes) == 2, "it has tried")
        assert outcomes == ["refused", "refused"]
        reader.has(2)
        assert reader.got == [b"0", b"1"]


@clause("BUS-DEREG-1", "BUS-MSG-2")
def test_a_task_that_leaves_as_it_begins_a_send_batch_goes_on_with_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would send for ever: no other operation of the task ends that batch."""
    with processes(2) as [bus, other]:
        reader = Reader(other)
        leaver = bus.register("leaver", thread=bus.thread())
        leaver.call("reader", b"0", timeout=LIMIT_S)
        begin = RelayOutbox.begin_send_batch

        def late(host: RelayOutbox, *arguments: Any) -> SendBatch:
            # In another thread: in this one it would be a call within a call.
            with Threads() as threads:
                threads.start(leaver.deregister)
            until(lambda: leaver._entry.host is None, "it has left")
            return begin(host, *arguments)

        monkeypatch.setattr(RelayOutbox, "begin_send_batch", late)
        leaver.command("reader", b"1")

        with pytest.raises(UnknownTaskError):
            leaver.command("reader", b"2")
        assert b"2" not in reader.got


@clause("BUS-INIT-16")
def test_the_child_of_a_fork_goes_on_with_no_send_batch() -> None:
    with processes(2) as [bus, other]:
        reader, sender = Reader(other), bus.register("sender")
        sender.command("reader", b"0")
        reader.has(1)
        with held(bus), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it has threads
            sender.command("reader", b"1")
            child = os.fork()
            if child == 0:
                try:
                    sender.command("reader", b"2")
                    os._exit(1)
                except WrongProcessError:
                    os._exit(0)
                finally:
                    os._exit(2)
            _, status = os.waitpid(child, 0)
        assert status == 0
        sender.command("reader", b"3")
        reader.has(3)
        assert reader.got == [b"0", b"1", b"3"]


@clause("BUS-FLOW-1", "BUS-FLOW-6")
@pytest.mark.parametrize("overflow", ["error", "disconnect"])
def test_a_command_that_is_being_read_takes_no_room(overflow: str) -> None:
    """Of four commands that arrived together one is being read, so one more fits."""
    with processes(2) as [bus, other]:
        slow = Holder(
            other,
            "reader",
            holds=lambda payload: payload == b"0",
            capacity=4,
            overflow=overflow,
        )
        sender, near = bus.register("sender"), other.register("near")
        sender.command("reader", b"warm")
        until(lambda: bool(slow.got), "it is known")
        with held(bus):
            for number in range(4):
                sender.command("reader", b"%d" % number)
        assert slow.held.wait(LIMIT_S)

        near.command("reader", b"4")
        if overflow == "error":
            with pytest.raises(BusFullError):
                near.command("reader", b"5")
        slow.let_go()

        until(lambda: len(slow.got) == 6, "all were read")
        assert slow.got == [b"warm", b"0", b"1", b"2", b"3", b"4"]
        assert "deregistered" not in repr(slow.task)
