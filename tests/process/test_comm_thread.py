"""`CommThread`: its threads, its frames, its end; with links in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

from bus.kernel import constants
from bus.process.link_helpers import PORT
from bus.testing import memory_bus
from queuebroker.meeting.queue_broker import QueueBroker
from queuebroker.testing import explore
from specs.clauses import clause
from tests.kit.buses import PATIENT, processes
from tests.kit.comm_threads import comm_of, held
from tests.kit.constants import configured
from tests.kit.tasks import Holder, Reader
from tests.process.processes import brokers, commands, linked, serving
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from bus import Bus
    from bus.kernel.wire import Frame
    from bus.process.comm_thread import CommThread
    from queuebroker.testing import Run


# Threads.


@clause("BUS-CHAN-2")
def test_threads_do_not_grow_with_links() -> None:
    """BUS-CHAN-2: one thread for all links, and one for each accepting broker."""
    counts = []
    for slaves in (1, 6):
        with processes(1 + slaves) as [master, *others]:
            _all_joined(master, slaves)
            counts.append([len(serving(each)) for each in (master, *others)])
    # One serves the links, and two accept: one of the process, one of the master.
    assert set(counts[0]) == set(counts[1]) == {3}


# Frames.


@clause("BUS-CHAN-6")
def test_messages_that_queue_up_together_are_sent_in_few_frames(
    frames: list[Frame],
) -> None:
    """BUS-CHAN-6: many messages in a few frames, cut at the limits of a frame."""
    with processes(2) as [bus, other]:
        reader = Reader(other)
        bus.call("reader", 0)
        with held(bus):
            frames.clear()
            for number in range(1, 1_001):
                bus.command("reader", number)
            assert commands(frames) == []
        reader.has(1_001)
        counts = commands(frames)
        assert sum(counts) == 1_000
        assert len(counts) <= 4
        assert reader.got == list(range(1_001))


@clause("BUS-CHAN-6")
def test_a_lone_message_leaves_at_once_in_a_frame_of_its_own(
    frames: list[Frame],
) -> None:
    with processes(2) as [bus, other]:
        reader = Reader(other)
        bus.call("reader", 0)
        for number in range(1, 4):
            frames.clear()
            bus.command("reader", number)
            reader.has(number + 1)
            assert commands(frames) == [1]


@clause("BUS-CHAN-6")
def test_a_lone_message_waits_for_none_that_is_under_way() -> None:
    """The first message stays unread: a later one waits for no acknowledgement."""
    with processes(2) as [bus, other], Holder.holding(other) as holder:
        account = holder.task._receiver.account
        for number in range(1, 4):
            bus.command("holder", number)
            until(
                lambda: account.unread == number,  # noqa: B023 # it is called here
                f"message {number} is there",
            )


@clause("BUS-FLOW-5", "BUS-RELAY-9")
def test_overdue_timers_are_handled_despite_a_long_acknowledgement_delay() -> None:
    """Then the thread sleeps again."""
    slow = attrs.evolve(PATIENT, window=1, ack_delay_s=1_000.0)
    with processes(2, p0=slow) as [bus, other], Holder.holding(other):
        topology = comm_of(bus).remote.topology
        rounds = _counted(comm_of(bus))
        sender = bus.register("sender")
        sender.command("holder", 1)
        sender.command("holder", 2, timeout=0.05)
        until(lambda: topology.counters.failed == 1, "the second is too late")
        assert len(rounds) < 40


def _counted(comm: CommThread) -> list[None]:
    """Return a list that grows by one item with each round of a comm thread."""
    rounds: list[None] = []
    run = comm._rounds.run

    def counted() -> None:
        rounds.append(None)
        run()

    comm._rounds.run = counted  # type: ignore[method-assign]
    return rounds


@clause("BUS-CHAN-2", "BUS-CHAN-3")
def test_tasks_are_served_while_somebody_does_not_let_in() -> None:
    """BUS-CHAN-3: a helper dials, and the comm thread serves the links meanwhile."""

    def program(run: Run) -> None:
        with processes(2) as [bus, other]:
            deaf = QueueBroker("deaf", manager=brokers(bus))
            Reader(other)
            reported: list[tuple[int | None, float]] = []
            comm = comm_of(bus)
            begun = run.now

            def made(number: int | None) -> None:
                reported.append((number, run.now))

            comm._relay_outbox.ask(lambda: comm._link_pool.helpers.dial(["deaf"], made))
            assert bus.call("reader", 7, timeout=None) == 7
            answered = run.now
            while not reported:
                run.sleep(0.1)
            deaf.close()
            [(number, at)] = reported
            assert number is None
            assert answered < at
            assert at - begun >= PATIENT.connect_timeout_s

    explore(program, bound=0, limit=5, random=0)


# Shutdown.


@clause("BUS-DEREG-12")
@pytest.mark.parametrize(("capacity", "window"), [(1, 1_024), (256, 4), (256, 1_024)])
def test_messages_under_way_when_a_bus_is_closed_arrive(
    capacity: int, window: int
) -> None:
    """BUS-DEREG-12: as many as the drain time allows; then no thread runs."""
    config = configured(LINK_FRAMES=capacity, window=window)
    with memory_bus(process="p0", config=config) as bus:
        reader = Reader(bus)
        with memory_bus(process="p1", beside=bus, config=config) as other:
            other.call("reader", 0)
            for number in range(1, 500):
                other.command("reader", number)
            other.close(drain=LIMIT_S)
            assert not any("machine/p1" in name for name in serving(other))
            reader.has(500)
            assert reader.got == list(range(500))


def test_close_does_not_wait_for_a_peer_that_does_not_read() -> None:
    """BUS-DEREG-12: a full link that the peer does not read is dropped in time."""

    def program(run: Run) -> None:
        with processes(2) as [bus, _]:
            comm = comm_of(bus)
            stranger = QueueBroker("stranger", manager=brokers(bus))
            before_it = set(comm._link_pool._queues)
            queue = stranger.connect("machine/p0", PORT, required=True)
            while not (new := set(comm._link_pool._queues) - before_it):
                run.sleep(0.001)

            def fill() -> None:
                for _ in range(constants.LINK_FRAMES + 1):
                    comm._link_pool.send(min(new), b"x")

            comm._relay_outbox.ask(fill)
            before = run.now
            bus.close(drain=0.05)
            assert run.now - before < 1.0
            queue.disconnect()
            stranger.close()

    explore(program, bound=0, limit=1, random=0)


def test_a_decision_after_the_close_is_still_carried_out() -> None:
    """A task whose callback outlasts the close is emptied after it."""
    with processes(2) as [bus, _]:
        bus.close()
        seen: list[int] = []
        comm = comm_of(bus)

        def event() -> list[Any]:
            seen.append(1)
            return []

        comm.decide(event)
        assert seen == [1]


def _all_joined(master: Bus, count: int) -> None:
    until(lambda: len(linked(master)) == count, "all have joined")
