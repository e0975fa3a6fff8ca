"""Processes of one bus that join and leave, also several at once; tasks that do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from bus.kernel.wire import Eliminate, Role
from bus.testing import memory_bus
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.buses import PATIENT, processes
from tests.kit.comm_threads import comm_of, held, settled
from tests.kit.tasks import Holder, Reader
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus
    from bus.kernel.wire import Frame
    from bus.process.comm_thread import CommThread
    from queuebroker.testing import Run


# Processes that join and leave.


@pytest.mark.parametrize("who", ["slaves", "master and heir", "all"])
def test_processes_that_close_at_once(who: str) -> None:
    with processes(4) as [*buses, last]:
        Reader(last)
        leaving = {
            "slaves": buses[1:],
            "master and heir": buses[:2],
            "all": [*buses, last],
        }[who]
        with Threads() as threads:
            for each in leaving:
                threads.start(each.close)
        staying = [each for each in (*buses, last) if each not in leaving]
        for each in staying:
            assert each.call("reader", 1) == 1
        beside = staying[-1] if staying else last
        with memory_bus(process="late", beside=beside, config=PATIENT) as newcomer:
            if staying:
                assert newcomer.call("reader", 2) == 2


def test_the_heir_ends_before_the_master_has_left() -> None:
    """The next process becomes master, and can be joined under the master's name."""
    with processes(3) as [bus, heir, third]:
        network = bus._node.network
        assert network is not None
        reader = Reader(third)
        comm = comm_of(heir)
        comm.stop(0.0, list)
        comm.join()  # it has hung up, and not announced its departure yet
        bus.close()
        network.leave(heir.machine, heir.process, comm)
        assert third.call("reader", 1) == 1
        settled(third)
        assert comm_of(third).remote.topology.role is Role.MASTER
        with memory_bus(process="late", beside=third, config=PATIENT) as newcomer:
            assert newcomer.call("reader", 2) == 2
        assert reader.got == [1, 2]


# Decisions made while another one is being carried out.


def test_a_task_disconnected_by_an_overflow_is_announced_at_once(
    frames: list[Frame],
) -> None:
    """BUS-DEREG-2: not only at the next event, or when its callback returns."""
    with (
        processes(2) as [bus, other],
        Holder.holding(other, capacity=1, overflow="disconnect") as holder,
    ):
        bus.command("holder", 1)
        until(lambda: holder.task._receiver.account.unread == 1, "it is there")
        until(lambda: _calm(bus) and _calm(other), "nothing else is to be said")
        bus.command("holder", 2)
        until(lambda: holder.task._receiver.leaving, "it is cut off")
        until(
            lambda: any(isinstance(frame, Eliminate) for frame in frames),
            "the departure is announced",
            limit_s=LIMIT_S / 2,  # before any deadline wakes the comm thread
        )


@clause("BUS-DEREG-4")
def test_a_relay_abandoned_before_it_is_opened_returns_the_parked_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages parked for a name are neither lost nor overtaken (BUS-DEREG-4)."""
    with processes(2) as [bus, other]:
        comm = comm_of(bus)
        opens = comm.open
        given_up: list[bool] = []

        def late(entry: Any, messages: Any) -> None:
            if entry.name == "reader" and not given_up:
                given_up.append(True)
                # The other process leaves at this point, and the relay is lost with it.
                peer = entry.mailbox.peer
                bus._exchange.decide(lambda: _lose(comm, peer))
            opens(entry, messages)

        monkeypatch.setattr(comm, "open", late)
        for number in range(3):
            bus.command("reader", number)
        reader = Reader(other)
        reader.has(3)
        assert given_up
        assert reader.got == [0, 1, 2]


@clause("BUS-DEREG-4")
def test_messages_posted_to_an_abandoned_relay_follow_its_queue() -> None:
    """Messages queued in the relay were sent first, so they also arrive first."""
    with (
        processes(2, p0=evolve(PATIENT, window=1)) as [bus, other],
        Holder.holding(other) as holder,
    ):
        comm = comm_of(bus)
        account = holder.task._receiver.account
        for number in range(4):
            bus.command("holder", number)
        until(lambda: account.unread == 1, "one is under way")
        [relay] = [entry for entry in bus._exchange.manager.table if entry.remote]
        until(lambda: len(relay.mailbox.queue) == 3, "the others wait for the window")
        with held(bus):
            bus.command("holder", 4)
            bus._exchange.decide(lambda: _lose(comm, relay.mailbox.peer))
        holder.let_go()
        until(lambda: 4 in holder.got, "the last message arrives")
        until(lambda: len(holder.got) == 6, "all arrive")
        assert holder.got == ["hold", 0, 1, 2, 3, 4]


@clause("BUS-DEREG-4")
def test_commands_read_before_a_deregistration_are_not_sent_again() -> None:
    """Even if its process has not acknowledged it yet."""
    with processes(2) as [bus, other]:
        here = other.here()
        reader = Reader(other, thread=here)
        account = reader.task._receiver.account
        for number in (1, 2):
            bus.command("reader", number)
        until(lambda: account.unread == 2, "they are there")
        with held(other):
            here.poll(0)
            reader.task.deregister()
        assert reader.got == [1]
        late = Reader(other)
        late.has(1)
        bus.command("reader", 3)
        until(lambda: 3 in late.got, "the last message arrives")
        assert late.got == [2, 3]


# In every schedule.


def under_some_schedules(program: Callable[[Run], object], times: int = 1) -> None:
    explore(
        program,
        bound=1,
        limit=schedules(150 * times),
        random=schedules(50 * times),
        seed=1,
    )


def _lose(comm: CommThread, peer: Any) -> list[Any]:
    comm.remote.topology.lose(peer, 0.0)
    return comm.remote.flush(0.0)


def _calm(bus: Bus) -> bool:
    """Return True if the comm thread sleeps, and no acknowledgement is due."""
    comm = comm_of(bus)
    peers = list(comm.remote.topology.peers.values())
    asleep = comm._relay_outbox.inbox.arrived.asleep
    return asleep and all(peer.session.ack_at is None for peer in peers)


def _searches(bus: Bus) -> Any:
    return bus._exchange.query(bus._exchange.manager.parked.waiting)


def _number(payload: object) -> int:
    assert isinstance(payload, int)
    return payload
