"""Every event for the `CommThread` wakes it, in every schedule."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from bus.kernel.tasks.actions import HangUp
from bus.process.acknowledgement_tracker import AcknowledgementTracker
from bus.process.comm_thread import CommThread
from bus.process.link_poller import ParkedPoller
from bus.process.link_pool import LinkPool
from bus.process.memory_network import MemoryNetwork
from bus.process.rounds import Rounds
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.buses import PATIENT
from tests.kit.messages import inbound_run, new_message
from tests.kit.station import IDENTITY, Station

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.kernel.streams.receipts import Taken
    from bus.kernel.tasks.runs import InboundRun
    from queuebroker.testing import Run


class Asleep:
    """A comm thread that only sleeps, and records the event that woke it."""

    def __init__(self) -> None:
        station = Station()
        self.comm = CommThread(
            station.exchange,
            IDENTITY,
            config=PATIENT,
            policy=MemoryNetwork("bus1"),
            poller=ParkedPoller(),
            listens="here/p1",
            master="master of here",
        )

    def until(self, wanted: set[str]) -> None:
        """Sleep until all events of `wanted` were seen."""
        comm, rounds, seen = self.comm, self.comm._rounds, set[str]()
        while seen != wanted:
            comm._link_pool.wait(rounds.is_due, None)
            if rounds._requested:
                rounds._requested = False
                seen.add("request_flush")
            if rounds.link_actions:
                rounds.link_actions.clear()
                seen.add("link")
            if comm._acknowledgement_tracker._taken:
                comm._acknowledgement_tracker._taken.clear()
                seen.add("taken")
            if comm._acknowledgement_tracker._reading:
                comm._acknowledgement_tracker._reading.clear()
                seen.add("reading")
            if comm._relay_outbox.take()[1]:
                seen.add("asked")


@pytest.mark.deep
@clause("BUS-ROUTE-4")
@pytest.mark.parametrize(
    "wakers",
    [
        ("request_flush", "asked"),
        ("link", "asked"),
        ("taken", "asked"),
        ("reading", "asked"),
        ("request_flush", "link"),
    ],
)
def test_no_wake_up_is_lost(wakers: tuple[str, str]) -> None:
    """The waker checks, without a lock, whether the thread sleeps (BUS-ROUTE-4)."""

    def program(run: Run) -> None:
        asleep = Asleep()
        comm = asleep.comm
        ways: dict[str, Callable[[], object]] = {
            "request_flush": comm.request_flush,
            "link": lambda: comm.do(HangUp(1)),
            "taken": lambda: comm.on_extracted(_Taken()),  # type: ignore[arg-type]
            "reading": lambda: comm.on_run_progress(_run_of(1)),
            "asked": lambda: comm._relay_outbox.ask(list),
        }
        for each in wakers:
            run.spawn(ways[each], name=each)
        asleep.until(set(wakers))

    explore(program, bound=2, limit=schedules(1_000), random=schedules(100), seed=1)
    inside = [
        Rounds.request_flush,
        Rounds.wake,
        CommThread.do,
        CommThread.on_extracted,
    ]
    inside += [CommThread.on_run_progress, Rounds.is_due, LinkPool.wait]
    explore(
        program,
        bound=2,
        limit=schedules(500),
        random=schedules(100),
        seed=1,
        bytecode=inside,
    )


@clause("BUS-RELAY-9", "BUS-ROUTE-4")
def test_an_extraction_just_before_a_scheduled_wake_up_is_not_lost() -> None:
    """No wake-up is sent for it; the comm thread checks before it sleeps for long."""

    def program(run: Run) -> None:
        comm, seen = Asleep().comm, list[object]()
        rounds = comm._rounds

        def extracted(messages: Iterable[Taken], now: float) -> None:
            seen.extend(messages)

        comm.remote.inbound_messages = _Inbound(extracted)  # type: ignore[misc, assignment]
        comm._relay_outbox.ident = _sync.get_ident()
        comm.remote.topology.ack_alarm.by(_sync.monotonic() + 0.005)
        run.spawn(lambda: comm.on_extracted(_Taken()), name="takes")  # type: ignore[arg-type]
        while not seen:
            comm._link_pool.wait(rounds.is_due, rounds.deadline(None))
            rounds.run()

    explore(program, bound=2, limit=schedules(1_000), random=schedules(100), seed=1)
    inside = [CommThread.on_extracted, Rounds.run, Rounds.deadline]
    explore(
        program,
        bound=2,
        limit=schedules(1_000),
        random=schedules(100),
        seed=1,
        bytecode=inside,
    )


@clause("BUS-ROUTE-4")
def test_an_alarm_that_is_set_in_place_of_the_comm_thread_is_not_missed() -> None:
    """The comm thread may read the alarms just before, and then sleep for ever."""

    def program(run: Run) -> None:
        comm, rang = Asleep().comm, list[float]()
        rounds = comm._rounds
        alarm = rounds._timers.alarm(rang.append)
        comm._relay_outbox.ident = _sync.get_ident()
        handle_events = rounds._handle_events

        def handle(frames: Iterable[tuple[int, bytes | None]], now: float) -> None:
            handle_events(frames, now)
            if rounds._substitute is not None:
                alarm.by(now)

        rounds._handle_events = handle  # type: ignore[method-assign]

        def substitute() -> None:
            with rounds.hold:
                rounds.run_urgent_part()

        run.spawn(substitute, name="substitute")
        while not rang:
            comm._link_pool.wait(rounds.is_due, rounds.deadline(None))
            with rounds.hold:
                rounds.run()

    explore(program, bound=2, limit=schedules(500), random=schedules(100), seed=1)
    explore(
        program,
        bound=2,
        limit=schedules(500),
        random=schedules(100),
        seed=1,
        bytecode=[Rounds.run_urgent_part, Rounds.run, Rounds.deadline],
    )


@pytest.mark.deep
@clause("BUS-RELAY-9", "BUS-ROUTE-4")
@pytest.mark.parametrize("armed", [False, True])
def test_each_command_that_is_read_is_acknowledged_once(armed: bool) -> None:
    """Whether or not it wakes soon anyway, and at any point of the reading."""

    def program(run: Run) -> None:
        comm, seen, commands = Asleep().comm, list[int](), _run_of(3)
        rounds = comm._rounds
        reading = commands.read(None)

        def extracted(messages: Iterable[Taken], now: float) -> None:
            for receipt, number, count, _ in messages:
                assert receipt is commands.receipt
                seen.extend(range(number, number + count))

        def reads() -> None:
            for count in (1, 2):
                comm.on_run_progress(commands)
                for _ in range(count):
                    next(reading)
                comm.on_run_progress(commands)

        comm.remote.inbound_messages = _Inbound(extracted)  # type: ignore[misc, assignment]
        comm._relay_outbox.ident = _sync.get_ident()
        if armed:
            comm.remote.topology.ack_alarm.by(_sync.monotonic() + 0.005)
        run.spawn(reads, name="reads")
        while len(seen) < 3:
            comm._link_pool.wait(rounds.is_due, rounds.deadline(None))
            rounds.run()
        assert seen == [7, 8, 9]
        run.join()
        rounds.run()
        assert seen == [7, 8, 9]
        assert not comm._acknowledgement_tracker._read_on

    explore(program, bound=2, limit=schedules(700), random=schedules(100), seed=1)
    inside = [
        *(CommThread.on_run_progress, Rounds.run),
        *(AcknowledgementTracker.note_run, AcknowledgementTracker.take),
    ]
    explore(
        program,
        bound=2,
        limit=schedules(700),
        random=schedules(100),
        seed=1,
        bytecode=inside,
    )


@clause("BUS-RELAY-9")
def test_commands_of_a_run_that_go_elsewhere_are_not_acknowledged() -> None:
    """For example, if the task leaves in the middle of a run."""
    comm, commands, seen = Asleep().comm, _run_of(3), list[object]()
    comm.remote.inbound_messages = _Inbound(  # type: ignore[misc, assignment]
        lambda messages, _now: seen.extend(messages)
    )
    comm.on_run_progress(commands)
    next(commands.read(None))
    assert len(commands.rest()) == 2
    comm._rounds.run()
    assert seen == [(commands.receipt, 7, 1, len(commands.payloads[0]))]
    assert not comm._acknowledgement_tracker._read_on


class _Inbound:
    """The inbound messages of a process; only the extracted ones are noted."""

    def __init__(self, on_extracted: Callable[[Iterable[Any], float], object]) -> None:
        self.on_extracted = on_extracted


class _Taken:
    """A message from another process, as far as its acknowledgement needs it."""

    # Only the comm thread acknowledges it.
    _receipt = SimpleNamespace(
        peer=SimpleNamespace(acks=SimpleNamespace(in_exchange=False))
    )
    _account = None
    _number = 1
    _size = 0
    _to = None


class _Gone:
    """A task without a place."""

    host = None


def _run_of(count: int) -> InboundRun:
    """Return a run of commands, the first with number 7."""
    to = _Gone()
    return inbound_run([b""] * count, to, to, receipt=object(), number=7)


@clause("BUS-ROUTE-19")
def test_a_message_expires_although_each_round_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its time is over before each check of the deadlines."""
    comm, now = Asleep().comm, 100.0
    rounds, manager = comm._rounds, comm._exchange.manager
    monkeypatch.setattr(_sync, "monotonic", lambda: now)
    comm._relay_outbox.ident = _sync.get_ident()
    (source,) = manager.table
    for payload, deadline in ((b"long", None), (b"short", now + 1.0)):
        message = new_message(
            payload, _source=source, _name="nobody", _deadline=deadline
        )
        manager.park("nobody", message, now)
    for _ in range(300):  # each begins at once, and ends after 10 ms
        rounds.deadline(None)
        with rounds.hold:
            rounds.run()
        now += 0.01

    failures = source.mailbox.client.failures
    assert [payload for payload, _ in failures] == [b"short"]
