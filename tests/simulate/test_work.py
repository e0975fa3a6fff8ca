"""The cost of one item does not depend on how many others wait, by counted work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from bus.features.subscriptions.frames import Subscribe
from bus.kernel.searches.requests import Request
from bus.model.message import Incoming, Kind
from specs.clauses import clause
from tests.kit.work import bytecodes
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulate.process import SimProcess

FEW, MANY = 30, 1000
SLACK = 200  # bytecodes; a scan would execute thousands more


def is_the_same(
    prepared: Callable[[int], Any], operation: Callable[[Any], object]
) -> bool:
    """Return True if an operation costs no more among many others than among few."""
    few, many = prepared(FEW), prepared(MANY)
    cost = bytecodes(lambda: operation(few))
    return bytecodes(lambda: operation(many)) <= cost + SLACK


def sought(names: int) -> SimProcess:
    """Return a slave that searches for so many names, each for one message."""
    stage = Stage()
    task = stage.task("t", "s2")
    process, now = task.process, stage.world.now
    for number in range(names):
        name = f"nobody/{number}"
        message = Incoming(
            kind=Kind.COMMAND,
            payload=number,
            _source=task.entry,
            _name=name,
            _deadline=now + (1 if number == 0 else 2),
        )
        process.manager.park(name, message, now, again=True)
    assert len(process.remote.resolver.own.by_name) == names
    return process


@clause("BUS-ROUTE-19")
def test_a_search_ends_at_the_same_cost_however_many_continue() -> None:
    """With its last message, in the thread that expires it and in the comm thread."""

    def expire(process: SimProcess) -> None:
        now = process.world.now + 1
        process.manager.expire(now, [])
        assert "nobody/0" not in process.remote.resolver.own.by_name
        process.remote.topology.timers.run(now)
        assert process.remote.resolver.ledger.next_deadline() == now + 1

    assert is_the_same(sought, expire)


@clause("BUS-ROUTE-18", "BUS-DEREG-11")
def test_a_registration_costs_the_same_however_many_names_are_sought() -> None:
    def prepared(names: int) -> SimProcess:
        process = sought(names)
        assert process.register("other") is not None
        return process

    def come_and_go(process: SimProcess) -> None:
        entry, resolver = process.tasks["other"].entry, process.remote.resolver
        resolver.on_registered(entry, process.world.now)
        resolver.own.on_departure(entry, process.world.now)
        resolver.anywhere.on_eliminated(entry.id, entry.name, process.world.now)

    assert is_the_same(prepared, come_and_go)


@clause("BUS-RELAY-7")
def test_a_notification_costs_the_same_however_many_other_subscriptions_are_kept() -> (
    None
):
    def prepared(count: int) -> SimProcess:
        stage = Stage()
        stage.task("n", "s1")
        hearer = stage.task("h", "s2")
        hearer.process.subscribe(hearer, "n")
        stage.soon()
        process = stage.process("s1")
        ledger = process.remote_subscriptions.ledger
        [kept] = ledger.all()
        for number in range(count):
            frame = Subscribe(
                id=hearer.process.remote.topology.new_request(),
                specification=f"ism://m1/other/{number}",
                subscriber=kept.frame.subscriber,
                presence=False,
                hops=1,
            )
            ledger.keep(Request(frame, "m1", f"other/{number}", kept.origin))
        peers(process)  # the first notification after a change looks at all
        return process

    def peers(process: SimProcess) -> None:
        matches = process.remote_subscriptions.matches
        [peer] = matches.subscribed_peers(process.tasks["n"].entry)
        assert peer.key == ("m1", "s2")

    assert is_the_same(prepared, peers)


@clause("OPEN-3")
def test_a_verdict_costs_the_same_however_many_are_awaited() -> None:
    def prepared(count: int) -> SimProcess:
        stage = Stage()
        process = stage.process("s2")
        names, master = (
            process.remote.name_registry.pending_names,
            process.remote.topology.master(),
        )
        assert master is not None
        entry = stage.task("t", "s2").entry
        names.forget(entry)
        for number in range(count):
            names.ask(master, entry if number == 0 else object())  # type: ignore[arg-type] # a key
        return process

    def confirm(process: SimProcess) -> None:
        names = process.remote.name_registry.pending_names
        entry = process.tasks["t"].entry
        assert names.is_pending(entry)
        names.on_pong(names._asked[entry])
        assert not names.is_pending(entry)

    assert is_the_same(prepared, confirm)


@clause("BUS-MSG-18")
def test_a_confirmation_costs_the_same_however_many_are_awaited() -> None:
    def prepared(count: int) -> SimProcess:
        stage = Stage()
        task = stage.task("h", "s2")
        process = task.process
        process.subscribe(task, "n")
        topology = process.remote.topology
        confirmations = process.remote_subscriptions._confirmations
        [kept] = process.remote_subscriptions.ledger.all()
        master = topology.master()
        assert master is not None
        for _ in range(count):
            frame = replace(kept.frame, id=topology.new_request())
            confirmations.begin(replace(kept, frame=frame), lambda: None)
            confirmations.number(frame.id, master)
        return process

    def confirm(process: SimProcess) -> None:
        confirmations = process.remote_subscriptions._confirmations
        master = process.remote.topology.master()
        assert master is not None
        awaited = len(confirmations)
        confirmations.on_pong(master, min(confirmations._requests))
        assert len(confirmations) == awaited - 1

    assert is_the_same(prepared, confirm)


@clause("BUS-ROUTE-19")
def test_the_deadlines_of_a_relay_cost_the_same_however_many_messages_wait() -> None:
    """Queued messages, and questions without an answer; until the next one is due."""

    def prepared(count: int) -> Any:
        stage = Stage(
            window=count, STREAM_WINDOW=4 * count, task_fifo_messages=2 * count
        )
        asker, target = stage.task("a", "s2"), stage.task("f", "s3")
        stage.send(asker, "f")
        stage.soon()
        entry = asker.process.manager.table.find("f")
        assert entry is not None
        now = stage.world.now
        messages = [
            Incoming(
                kind=Kind.COMMAND,
                payload=number,
                wants_reply=True,
                _source=asker.entry,
                _id=10 + number,
                _name="f",
                _deadline=now + 2 + number,
            )
            for number in range(2 * count)
        ]
        outbound = asker.process.remote.outbound_messages
        outbound.post(entry, messages[:count])
        outbound.post(entry, messages[count:])
        relay = entry.mailbox
        assert (relay.under_way, relay.queued) == (count, count)
        relay.on_extracted(relay.unacked[-1][0])
        assert (len(relay.asked), relay.queued) == (count, count)
        assert target.here
        return relay, now

    def review(about: Any) -> None:
        relay, now = about
        assert relay.expire(now + 1) == []
        assert relay.next_deadline() == now + 2
        assert relay.expire(now + 2) == []  # a question is forgotten
        assert relay.next_deadline() == now + 3

    assert is_the_same(prepared, review)


@clause("BUS-MSG-15", "BUS-FLOW-3")
def test_a_held_back_notification_costs_the_same_however_many_wait_before_it() -> None:
    """They wait for a command of their sender, whose addressee does not read."""

    def prepared(count: int) -> Any:
        stage = Stage(task_fifo_messages=2 * MANY)
        sender, target = stage.task("a", "s2"), stage.task("f", "s3")
        target.process.subscribe(target, "a")
        stage.send(sender, "f")
        stage.soon()
        stage.hold(target)
        entry = sender.process.manager.table.find("f")
        assert entry is not None
        stage.send(sender, "f", 2 * stage.world.config.window)
        stage.soon()
        for number in range(count):
            sender.process.remote.notify(sender.entry, number)
        audience = entry.mailbox.peer.audience
        assert audience.queued == count
        return sender, audience

    def notify(about: Any) -> None:
        sender, audience = about
        before = audience.queued
        sender.process.remote.notify(sender.entry, 0)
        assert audience.queued == before + 1

    assert is_the_same(prepared, notify)
