"""A thread that waits at a link processes its frames in place of the comm thread.

It also acknowledges the messages that its tasks have read. So for many short commands
no second thread wakes.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import bus
from bus import Role
from bus.kernel.streams.incoming_stream import Acknowledgement
from bus.kernel.tasks.actions import Dial, HangUp, Send
from bus.kernel.wire import Ack, LinkKind
from bus.process.link_pool import LinkPool
from bus.process.rounds import Rounds
from specs.clauses import clause
from tests.kit.buses import processes, socket_bus
from tests.kit.comm_threads import comm_of, held
from tests.kit.messages import inbound_run
from tests.kit.tasks import Reader
from tests.process.test_wake_ups import Asleep
from tests.strikes import everywhere
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus import Bus, Task
    from tests.strikes import Blow

MANY = 100
FRAME = Ack.of(Acknowledgement(1), epoch=1, incarnation=1, extracted=(), controls=0)


def sends_together(bus: Bus, sender: Task, payloads: list[bytes]) -> None:
    """Send commands in one frame."""
    with held(bus):
        for payload in payloads:
            sender.command("reader", payload)


def numbered(start: int) -> list[bytes]:
    return [str(number).encode() for number in range(start, start + MANY)]


class Attended:
    """The names of the threads that did work for a process's comm thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[str] = []
        attend = Rounds.run_urgent_part

        def noted(rounds: Rounds) -> None:
            self.threads.append(threading.current_thread().name)
            attend(rounds)

        monkeypatch.setattr(Rounds, "run_urgent_part", noted)


@pytest.fixture
def attended(monkeypatch: pytest.MonkeyPatch) -> Attended:
    return Attended(monkeypatch)


@clause("BUS-CHAN-7", "BUS-MSG-15")
def test_a_thread_with_many_commands_reads_the_next_ones_from_the_link(
    attended: Attended,
) -> None:
    """All of them, once each, in order; the reads are acknowledged, too."""
    with socket_bus("far", role=Role.MASTER) as far, socket_bus("near") as near:
        reader = Reader(far, thread=far.thread())
        thread, sender, sent = reader.task.thread, near.register("sender"), 0
        near.wait_for("reader")
        while len(attended.threads) < 10:
            sends_together(near, sender, numbered(sent))
            sent += MANY
            reader.has(sent)
            assert sent <= 1000 * MANY, "its thread never waited at the link"

        assert reader.got == [str(number).encode() for number in range(sent)]
        assert set(attended.threads) == {f"bus1 {thread.name}"}
        relay = sender._bus._exchange.find("reader").mailbox  # type: ignore[union-attr]
        until(lambda: relay.under_way == 0, "all is known to be taken")


@clause("BUS-CHAN-7", "BUS-MSG-5")
def test_a_thread_that_waits_at_a_link_delivers_messages_for_other_tasks(
    attended: Attended,
) -> None:
    """The thread that waits at the link reads it for all tasks of its process."""
    with socket_bus("far", role=Role.MASTER) as far, socket_bus("near") as near:
        reader, sender = Reader(far, thread=far.thread()), near.register("sender")
        beside = Reader(far, "beside", thread=far.thread("elsewhere"))
        near.wait_for("beside")
        turns = 0
        while len(attended.threads) < 10:
            sends_together(near, sender, numbered(turns * MANY))
            sender.command("beside", turns)
            turns += 1
            reader.has(turns * MANY)
            beside.has(turns)
            assert turns <= 1000, "no thread ever waited at the link"

        assert beside.got == [*range(turns)]


# Work reserved to the comm thread.


@clause("BUS-CHAN-2")
def test_links_are_made_and_ended_by_the_comm_thread_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Later frames wait for the comm thread, too: there is one order.

    The earlier ones for the same link go in one step.
    """
    rounds, sent = Asleep().comm._rounds, list[tuple[int, int]]()

    def send_all(_: LinkPool, number: int, frames: Sequence[bytes]) -> bool:
        sent.append((number, len(frames)))
        return True

    monkeypatch.setattr(LinkPool, "send_all", send_all)
    left: list[HangUp | Send] = [HangUp(2), Send(3, FRAME)]
    first = [Send(link, FRAME) for link in (1, 4, 1)]
    rounds.link_actions.extend([*first, *left])

    with rounds.hold:
        rounds.run_urgent_part()

    assert sent == [(1, 2), (4, 1)]
    assert list(rounds.link_actions) == left
    assert rounds.is_due()


@clause("BUS-CHAN-2")
def test_a_frame_that_another_thread_adds_while_others_are_sent_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any thread executes decisions, and so appends frames, during a round."""
    comm, sent = Asleep().comm, list[int]()

    def send_all(_: LinkPool, number: int, __: Sequence[bytes]) -> bool:
        sent.append(number)
        if number == 1:
            for link in (2, 3):
                comm.do(Send(link, FRAME))
        return True

    monkeypatch.setattr(LinkPool, "send_all", send_all)
    comm.do(Send(1, FRAME))

    with comm._rounds.hold:
        comm._rounds.run()

    assert sent == [1, 2, 3]


@clause("BUS-CHAN-9", "BUS-RELAY-10")
@pytest.mark.parametrize(
    "action",
    [Send(1, FRAME), HangUp(1), Dial(("m", "p"), LinkKind.DATA, ())],
    ids=["send", "hang up", "dial"],
)
def test_an_interrupt_loses_no_action_on_a_link(
    action: Send | HangUp | Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A main thread executes it; if its frame may be lost, the link ends.

    A lack of memory comes at the same points.
    """
    aborted = list[int]()
    monkeypatch.setattr(LinkPool, "abort", lambda _, link: aborted.append(link))

    def case(interrupted: Blow) -> None:
        comm = Asleep().comm
        exchange, done = comm._exchange, comm._rounds.link_actions
        exchange.comm = comm
        aborted.clear()
        exchange._todo.append(action)
        interrupted(exchange.act)
        exchange.act()

        assert done or aborted == [1]
        assert all(each is action for each in done)

    everywhere(case, packages=[bus])


@clause("BUS-CHAN-7")
def test_a_fault_is_the_comm_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """It aborts the links, whose frames may be lost, and makes others."""
    with processes(2) as [one, other]:
        other.register("echo", on_command=lambda message: message.payload)
        assert one.call("echo", 1, timeout=LIMIT_S) == 1
        comm = comm_of(other)

        rounds = comm._rounds

        def fails(_: Rounds) -> None:
            raise LookupError("at what was read")

        with monkeypatch.context() as faulty, rounds.hold:
            faulty.setattr(Rounds, "_take_given", fails)
            rounds.run_urgent_part()
            assert isinstance(rounds._fault, LookupError)
        until(lambda: rounds._fault is None, "the comm thread has recovered")
        assert one.call("echo", 2, timeout=LIMIT_S) == 2
        assert not comm._ended


@clause("BUS-CHAN-7")
def test_where_the_comm_thread_has_ended_nothing_is_seen_to() -> None:
    rounds = Asleep().comm._rounds
    rounds.given.append((1, b"frame"))
    rounds.closed = True

    with rounds.hold:
        rounds.run_urgent_part()

    assert rounds.given


@clause("BUS-RELAY-9")
@pytest.mark.parametrize(
    ("soon", "main", "waitable", "wakes"),
    [
        (True, False, True, False),
        (False, False, True, True),  # else no thread would, if its callback hangs
        (True, True, True, True),
        (True, False, False, True),
    ],
)
def test_a_thread_that_acknowledges_its_own_reads_wakes_no_comm_thread(
    *, soon: bool, main: bool, waitable: bool, wakes: bool
) -> None:
    comm, woken = Asleep().comm, list[str]()
    comm._rounds.wake = lambda: woken.append("wake")  # type: ignore[method-assign]
    comm._acknowledgement_tracker.wakes_soon = soon
    host = SimpleNamespace(main=main, link_wait=object() if waitable else None)
    to = _At(host)
    count = comm._acknowledgement_tracker._messages_max
    run = inbound_run([b""] * count, to, to)
    for _ in run.read(None):
        pass

    comm.on_run_progress(run)

    assert bool(woken) is wakes


class _At:
    """A task in a given thread."""

    def __init__(self, host: Any) -> None:
        self.host = host
