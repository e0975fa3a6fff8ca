"""Commands in quick succession to other processes behave as if each went alone."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from bus import (
    NOREPLY,
    Address,
    AddresseeGoneError,
    BusFullError,
    ExpiredError,
    MessageTooLargeError,
    PayloadError,
    UnknownTaskError,
    WrongProcessError,
)
from bus.process.relay_outbox import RelayOutbox
from bus.process.send_batch import PAYLOAD_MAX, SHORT_MAX
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT, processes
from tests.kit.comm_threads import held, settled
from tests.kit.inspection import info
from tests.kit.serving import serve, settle
from tests.kit.systems import needs_fork
from tests.kit.tasks import Holder, Reader
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus, Incoming, Overflow, Task, Undelivered
    from bus.process.send_batch import SendBatch


def known(bus: Bus, name: str = "reader", *, by: str = "sender") -> Task:
    """Return a task that has already reached one of another process."""
    sender = bus.register(by)
    assert sender.call(name, 0) == 0
    return sender


# Order.

_WAYS: dict[str, Callable[[Task, bytes], object]] = {
    "a question": lambda task, payload: task.command(
        "reader", payload, on_response=lambda _: None
    ),
    "a timeout": lambda task, payload: task.command("reader", payload, timeout=50.0),
    "no timeout": lambda task, payload: task.command("reader", payload, timeout=None),
    "an Address": lambda task, payload: task.command(
        Address("reader", machine="machine"), payload
    ),
    "a whole name": lambda task, payload: task.command("ism://machine/reader", payload),
    "its bus": lambda task, payload: task.command("reader", payload, bus="bus1"),
    "several": lambda task, payload: task.command(["reader", "other"], payload),
    "too long": lambda task, payload: task.command(
        "reader", payload + bytes(PAYLOAD_MAX)
    ),
    "no bytes": lambda task, payload: task.command("reader", payload.decode()),
}


@clause("BUS-MSG-15")
@pytest.mark.parametrize("way", _WAYS)
def test_commands_are_not_overtaken_by_others_after_them_or_before(way: str) -> None:
    with processes(2) as [bus, other]:
        reader = Reader(other)
        Reader(other, "other")
        sender = known(bus)
        bus.call("other", 0)
        with held(bus):
            for number in range(1, 10):
                payload = b"%d" % number
                if number % 3:
                    sender.command("reader", payload)
                else:
                    _WAYS[way](sender, payload)
        reader.has(10)
        assert [_number(each) for each in reader.got] == list(range(10))


def _number(payload: Any) -> int:
    return int(payload.rstrip(b"\0") if isinstance(payload, bytes) else payload)


@clause("BUS-MSG-15")
def test_commands_and_answers_keep_their_order() -> None:
    """A task answers an earlier question between its own commands."""
    with processes(2) as [bus, other]:
        got: list[Any] = []
        asker = other.register("reader", on_command=lambda m: got.append(m.payload))
        questions: list[Incoming] = []

        def keep(message: Incoming) -> object:
            questions.append(message)
            return NOREPLY

        answerer = bus.register("sender", thread=bus.here(), on_command=keep)
        asker.command("sender", b"?", on_response=lambda r: got.append(r.payload))
        serve(bus, lambda: questions, "it is asked")
        answerer.command("reader", b"0")
        until(lambda: got == [b"0"], "it is known")
        with held(bus):
            answerer.command("reader", b"1")
            questions[0].respond(b"2")
            answerer.command("reader", b"3")
        until(lambda: len(got) == 4, "all has come")
        assert got == [b"0", b"1", b"2", b"3"]


@clause("BUS-MSG-15")
def test_several_threads_may_send_for_one_task() -> None:
    """The messages of each thread keep their order."""
    with processes(2) as [bus, other]:
        reader = Reader(other, overflow="block")
        sender, count = known(bus), 500

        def send(who: bytes) -> None:
            for number in range(count):
                sender.command("reader", b"%s%d" % (who, number))

        with Threads() as threads:
            for each in [threads.start(send, who) for who in (b"a", b"b", b"c")]:
                each.result()
        reader.has(1 + 3 * count)
        for who in (b"a", b"b", b"c"):
            received = [each for each in reader.got[1:] if each.startswith(who)]
            assert received == [b"%s%d" % (who, number) for number in range(count)]


# Payloads.


@pytest.mark.parametrize("size", [0, 1, PAYLOAD_MAX, PAYLOAD_MAX + 1])
def test_payloads_arrive_as_they_were(size: int) -> None:
    with processes(2) as [bus, other]:
        reader = Reader(other)
        sender = known(bus)
        payload = bytes(each % 256 for each in range(size))
        for _ in range(3):
            sender.command("reader", payload)
        reader.has(4)
        assert reader.got[1:] == [payload] * 3


@clause("BUS-MSG-16")
def test_the_limit_for_payloads_is_that_of_all_others() -> None:
    """With a limit as low as that of a send batch, each payload goes alone."""
    low = evolve(PATIENT, message_bytes_max=PAYLOAD_MAX)
    with processes(2, p0=low) as [bus, other]:
        reader = Reader(other)
        sender = known(bus)
        sender.command("reader", bytes(PAYLOAD_MAX - 8))
        for size in (PAYLOAD_MAX, PAYLOAD_MAX + 1):
            with pytest.raises(MessageTooLargeError):
                sender.command("reader", bytes(size))
        reader.has(2)


def test_bytes_of_a_class_of_their_own_arrive_as_from_one_process() -> None:
    class Own(bytes):
        """A user's subclass."""

    def outcome(task: Task, to: str) -> object:
        try:
            return task.command(to, Own(b"own"))
        except PayloadError as error:
            return str(error)

    with processes(2) as [bus, other]:
        far, near = Reader(other), Reader(bus, "near")
        sender = known(bus)
        assert outcome(sender, "reader") == outcome(sender, "near")
        sender.command("reader", b"last")
        sender.command("near", b"last")
        far.has(2)
        near.has(1)
        until(lambda: near.got[-1:] == far.got[-1:] == [b"last"], "all have come")
        assert far.got[1:] == near.got
        assert {type(each) for each in far.got[1:]} == {bytes}


# Departures.


@clause("BUS-DEREG-4", "BUS-MSG-15")
@pytest.mark.parametrize("when", ["before they leave", "when some have left"])
def test_commands_to_a_task_that_leaves_wait_for_the_next_one(when: str) -> None:
    with processes(2) as [bus, other]:
        with Holder.holding(other, name="reader") as holder:
            sender = bus.register("sender")
            sender.command("reader", b"0")
            account = holder.task._receiver.account
            until(lambda: account.unread == 1, "it is there")
            with held(bus):
                for number in range(1, 20):
                    sender.command("reader", b"%d" % number)
                if when == "before they leave":
                    holder.task.deregister()
                    holder.let_go()
                    settled(other)
            if when == "when some have left":
                until(lambda: account.unread == 20, "all are there")
                holder.task.deregister()
            holder.let_go()
        late = Reader(other)
        sender.command("reader", b"20")
        until(lambda: b"20" in late.got, "the last one comes")
        assert late.got[-1] == b"20"
        received = [each for each in holder.got if each != "hold"] + late.got
        assert received == [b"%d" % number for number in range(21)]


@clause("BUS-MOVE-4", "BUS-MSG-15")
def test_commands_to_a_task_that_moves_follow_it() -> None:
    with processes(2) as [bus, other]:
        reader = Reader(other)
        threads = [other.thread(), other.thread()]
        sender, sent = known(bus), 0
        for turn in range(20):
            for _ in range(30):
                sender.command("reader", b"%d" % sent)
                sent += 1
            reader.task.move(threads[turn % 2])
        reader.has(1 + sent)
        assert reader.got[1:] == [b"%d" % number for number in range(sent)]


@clause("BUS-FLOW-7", "BUS-DEREG-4")
def test_undelivered_commands_return_with_their_name_and_payload() -> None:
    with processes(2) as [bus, other]:
        reader = Reader(other)
        undelivered: list[Undelivered] = []
        sender = bus.register(
            "sender", thread=bus.here(), on_undelivered=undelivered.append
        )
        sender.command("reader", b"first")
        reader.has(1)
        with held(bus):
            for number in range(10):
                sender.command("reader", b"%d" % number)
            reader.task.deregister(final=True)
            settled(other)
        serve(bus, lambda: len(undelivered) == 10, "all have failed")
        assert [each.to for each in undelivered] == ["reader"] * 10
        assert [each.payload for each in undelivered] == [b"%d" % n for n in range(10)]
        assert {type(each.error) for each in undelivered} == {AddresseeGoneError}


# Time.


@clause("BUS-FLOW-5")
def test_they_are_worth_delivering_no_longer_than_others() -> None:
    short = evolve(PATIENT, command_timeout_s=0.05, window=1)
    with processes(2, p0=short) as [bus, other], Holder.holding(other) as holder:
        undelivered: list[Undelivered] = []
        sender = bus.register(
            "sender", thread=bus.here(), on_undelivered=undelivered.append
        )
        bus.wait_for("holder")
        for number in range(5):
            sender.command("holder", b"%d" % number)
        serve(bus, lambda: len(undelivered) == 4, "those that wait are too late")
        assert [each.payload for each in undelivered] == [
            b"%d" % n for n in range(1, 5)
        ]
        assert {type(each.error) for each in undelivered} == {ExpiredError}
        holder.let_go()
        until(lambda: not info(other, "holder").commands.unread, "all are read")
        assert set(holder.got) <= {"hold", b"0"}


# Room.


@clause("BUS-FLOW-2")
def test_so_many_are_taken_on_as_one_by_one() -> None:
    small = evolve(PATIENT, task_fifo_messages=8, window=4)
    with (
        processes(1, small) as [bus],
        memory_bus(process="other", beside=bus, config=small) as other,
        Holder.holding(other) as holder,
    ):
        sender = bus.register("sender")
        sender.command("holder", b"first")
        until(lambda: holder.task._receiver.account.unread == 1, "it is there")
        accepted = []
        with held(bus):
            for number in range(20):
                with suppress(BusFullError):
                    sender.command("holder", b"%d" % number)
                    accepted.append(number)
        assert accepted == list(range(8))
        holder.let_go()
        until(lambda: len(holder.got) == 10, "all have come")
        assert [int(each) for each in holder.got[2:]] == accepted
        until(lambda: not info(other, "holder").commands.unread, "all are read")


_LONG = bytes(PAYLOAD_MAX)


@clause("BUS-FLOW-1", "BUS-FLOW-2", "BUS-RELAY-6")
@pytest.mark.parametrize(
    ("config", "sent", "refused"),
    [
        ({"task_fifo_messages": 3}, [1, 2, 3, 4], [3]),
        ({"task_fifo_messages": 3}, [b"1", b"2", 3, b"4", 5], [3, 4]),
        ({"task_fifo_bytes": 4 * PAYLOAD_MAX}, [_LONG + b"."] * 4, [3]),
        ({"task_fifo_bytes": 10}, [bytes(1000), b"2", 3], [1, 2]),
        ({"task_fifo_bytes": 10}, ["." * 1000, b"2", 3], [1, 2]),
        # Each payload counts by its own length before any is refused.
        ({"task_fifo_bytes": 2 * PAYLOAD_MAX}, [b"1", _LONG, b"3", _LONG], [3]),
        # A batch reserves room for more of them, and for longer ones.
        ({"task_fifo_bytes": 4 * SHORT_MAX}, [b"1", b"2", b"3"], []),
        ({"task_fifo_bytes": SHORT_MAX - 1}, [b"1", 2, b"3"], []),
    ],
)
@pytest.mark.parametrize("senders", [1, 2])
def test_each_command_with_room_is_accepted_and_no_other(
    config: dict[str, Any], sent: list[Any], refused: list[int], senders: int
) -> None:
    """Whichever task reserved the room; and as many again once these have left.

    refused: the places of the commands without room.
    """
    with processes(2, p0=evolve(PATIENT, **config)) as [bus, other]:
        reader = Reader(other)
        tasks = [known(bus, by=f"sender{number}") for number in range(senders)]
        for turn in range(3):
            over = []
            with held(bus):
                for number, payload in enumerate(sent):
                    try:
                        tasks[number % senders].command("reader", payload)
                    except BusFullError:
                        over.append(number)
            assert over == refused
            reader.has(senders + (turn + 1) * (len(sent) - len(refused)))
            settled(bus)
        assert tasks[0].call("reader", "the last") == "the last"
        assert len(reader.got) == senders + 3 * (len(sent) - len(refused)) + 1


@clause("BUS-FLOW-6")
@pytest.mark.parametrize(
    "room",
    [{"task_fifo_messages": 2}, {"task_fifo_bytes": 2500}],
    ids=["messages", "bytes"],
)
@pytest.mark.parametrize(
    ("overflow", "arrive", "raises"),
    [
        ("error", [1, 2], [3, 4]),
        ("disconnect", [1, 2], [3, 4]),
        ("drop-newest", [1, 2], []),
        ("drop-oldest", [3, 4], []),
    ],
    ids=["error", "disconnect", "drop-newest", "drop-oldest"],
)
@pytest.mark.parametrize("batched", [True, False])
def test_a_command_without_room_follows_the_policy_of_its_receiver(
    room: dict[str, Any],
    overflow: Overflow,
    arrive: list[int],
    raises: list[int],
    *,
    batched: bool,
) -> None:
    """Each that is dropped is reported to its sender."""
    with processes(2, p0=evolve(PATIENT, **room)) as [bus, other]:
        reader = Reader(other, overflow=overflow)
        known(bus).deregister()
        undelivered, over = list[Any](), list[int]()
        sender = bus.register(
            "sender", thread=bus.here(), on_undelivered=undelivered.append
        )
        with held(bus):
            for number in range(1, 5):
                text = str(number).ljust(1000)
                payload = text.encode() if batched else text
                try:
                    sender.command("reader", payload)
                except BusFullError:
                    over.append(number)
        reader.has(3)
        settle(bus)

    assert over == raises
    assert [int(each) for each in reader.got[1:]] == arrive
    dropped = [int(each.payload) for each in undelivered]
    assert sorted([*dropped, *over, *arrive]) == [1, 2, 3, 4]
    assert {type(each.error) for each in undelivered} <= {BusFullError}


def test_commands_to_an_address_are_sent_in_batches_too(near: Bus, other: Bus) -> None:
    """One by one they would take about ten times as long."""
    del other
    sender = near.register("sender")
    near.call("far", 1, timeout=LIMIT_S)

    sender.command(Address("far"), b"first")
    sender.command(Address("far"), b"second")

    assert list(sender._send_batches) == ["far"]
    assert near.call(Address("far"), 2, timeout=LIMIT_S) == 2


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


@needs_fork
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
