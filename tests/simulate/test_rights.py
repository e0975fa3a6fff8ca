"""BUS-SEC-1: which names guests may register, command and subscribe to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.errors import AccessDeniedError, RemoteError
from bus.features.subscriptions.frames import Subscribe
from bus.kernel.tasks.actions import Evict
from bus.kernel.wire import AddRelay, Error, LinkKind, Reason, Refused
from bus.model.rights import Rights
from bus.model.specification import Specification
from specs.clauses import clause
from tests.simulate.guests import Guests
from tests.simulate.stage import Stage, errors_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.kernel.tasks.actions import Action
    from tests.simulate.task import SimTask

GUEST = "s3"


def patterns(*written: str) -> tuple[Specification, ...]:
    return tuple(map(Specification, written))


RIGHTS = Rights(
    register=patterns("guest/*"),
    command=patterns("open", "open/**"),
    subscribe=patterns("news", "news/*"),
)


def by_all(rights: Rights) -> Callable[[str, str], Rights | None]:
    """Return rights that every process grants to the guest."""
    return lambda who, _by: rights if who == GUEST else None


def stage_of(rights: Rights = RIGHTS, slaves: int = 3) -> Stage:
    return Stage(slaves=slaves, guests=Guests({GUEST}, by_all(rights)))


def received(stage: Stage, hearer: SimTask, notifier: SimTask) -> int:
    """Return how many notifications of a task another one has received."""
    sent = stage.world.counters.notifications.get(notifier.id, [])
    counters = stage.world.counters.received
    return sum((each, hearer.id) in counters for each in sent)


def complaints(stage: Stage, process: str) -> list[str]:
    """Return a list that receives the complaints of a process from now on."""
    lines: list[str] = []
    stage.process(process).remote.topology.complain = lines.append  # type: ignore[misc]
    return lines


# Names.


@clause("BUS-SEC-1", "OPEN-3")
def test_a_guest_has_the_names_that_are_granted_and_no_other() -> None:
    stage = stage_of()
    said = complaints(stage, "s1")
    allowed, denied = stage.task("guest/a", GUEST), stage.task("f", GUEST)
    private = stage.task("g", GUEST, private=True)
    own = stage.task(f"_bus/{GUEST}", GUEST)
    other = stage.task("_bus/s2", GUEST)

    stage.soon()

    assert (allowed.confirmed, own.confirmed) == (True, True)
    assert (denied.here, other.here, private.here) == (False, False, True)
    assert (denied.confirmed, other.confirmed) == (False, False)
    owners = stage.process("s1").remote.name_registry.users.owners()
    assert owners == dict.fromkeys(["guest/a", f"_bus/{GUEST}"], ("m1", GUEST))
    assert [each for each in said if "register 'f'" in each]


@clause("BUS-SEC-1", "BUS-SEC-7")
def test_a_guest_that_takes_a_name_all_the_same_gets_nothing_for_it() -> None:
    """The guest ignores its eviction, and would answer a search sent to all."""
    stage = stage_of()
    rogue = stage.process(GUEST)
    act = rogue.performer.act

    def stays(action: Action) -> list[Action]:
        return [] if isinstance(action, Evict) else act(action)

    rogue.performer.act = stays  # type: ignore[method-assign]
    f = stage.task("f", GUEST)
    caller = stage.task("d", "s2")
    stage.soon()

    (sent_command,) = stage.send(caller, "f")
    stage.soon()

    assert errors_of([sent_command]) == [None]
    assert "f" not in stage.process("s1").remote.name_registry.users.owners()
    real = stage.task("f", "s4")
    stage.soon()
    assert sent_command.taken_by == real.id
    assert f.here


@clause("BUS-SEC-1", "BUS-SEC-7")
@pytest.mark.parametrize("reason", [Reason.NAME_TAKEN, Reason.ACCESS])
def test_only_the_master_can_deny_a_name_to_a_task(reason: Reason) -> None:
    stage = Stage(slaves=2)
    task, other = stage.task("f", "s2"), stage.task("g", "s3")
    stage.send(other, "f")
    stage.soon()
    mine = stage.task("h", "s1")
    words = Error(reason=reason, id=task.id)
    of_master = Error(reason=reason, id=mine.id)

    rogue = stage.process("s3")
    rogue.remote.topology.peers["m1", "s2"].session.send_control(words)
    rogue.remote.topology.peers["m1", "s1"].session.send_control(of_master)
    rogue.settle()
    stage.soon()

    assert (task.here, mine.here) == (True, True)


# Commands.


@clause("BUS-SEC-1")
@pytest.mark.parametrize("host", ["s1", "s2"])
def test_a_guest_sends_commands_where_that_is_granted_and_nowhere_else(
    host: str,
) -> None:
    stage = stage_of()
    caller = stage.task("guest/a", GUEST)
    allowed, denied = stage.task("open/b", host), stage.task("f", host)

    (passed,) = stage.send(caller, "open/b", asks=True)
    refused = stage.send(caller, "f", 2) + stage.send(caller, "f", asks=True)
    later = stage.send(caller, "later")
    stage.soon()

    assert passed.taken_by == allowed.id
    assert errors_of([*refused, *later]) == [AccessDeniedError] * 4
    assert not denied.items
    assert "f" not in stage.relays(GUEST)


@clause("BUS-SEC-1")
def test_an_answer_to_or_from_a_guest_needs_no_right() -> None:
    stage = stage_of()
    guest = stage.task("guest/a", GUEST)
    asker = stage.task("d", "s2")

    commands = stage.send(asker, "guest/a", asks=True)
    host = stage.task("open", "s2")
    commands += stage.send(guest, "open", asks=True)
    stage.soon()
    for task in (guest, host):
        for question in task.kept:  # answered at last
            task.process.answer(question)
        task.process.settle()
    stage.soon()

    assert commands[0].taken_by == guest.id
    assert [each.answers for each in commands] == [1, 1]


@clause("BUS-SEC-1")
@pytest.mark.parametrize("host", ["s1", "s2"])
def test_a_subscription_of_a_guest_grants_it_no_commands(host: str) -> None:
    """Its relay of that task is not found by name."""
    stage = stage_of()
    notifier, hearer = stage.task("news", host), stage.task("guest/a", GUEST)
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    notifier.process.notify(notifier)
    stage.soon()
    assert received(stage, hearer, notifier) == 1

    commands = stage.send(hearer, "news", 2)
    stage.soon()

    assert errors_of(commands) == [AccessDeniedError] * 2


@clause("BUS-SEC-1", "BUS-FLOW-7")
def test_a_forbidden_command_that_arrives_is_refused_and_delays_no_other() -> None:
    """It arrives here since only the addressee's process denies the right."""
    stage = Stage(
        slaves=3,
        guests=Guests(
            {GUEST}, lambda who, by: RIGHTS if (who, by) == (GUEST, "s2") else None
        ),
    )
    said = complaints(stage, "s2")
    caller, addressee = stage.task("guest/a", GUEST), stage.task("f", "s2")
    open_one = stage.task("open", "s2")

    silent, asking = stage.send(caller, "f", 9), stage.send(caller, "f", 9, asks=True)
    passed = stage.send(caller, "open", 9)
    stage.soon()
    more = stage.send(caller, "f", asks=True) + stage.send(caller, "open")
    stage.soon()

    assert [each.taken_by for each in silent + asking] == [None] * 18
    assert errors_of(asking) == [RemoteError] * 9
    assert [each.taken_by for each in passed] == [open_one.id] * 9
    assert (errors_of(more), more[1].taken_by) == ([RemoteError, None], open_one.id)
    assert not addressee.items
    assert any("may not command 'f'" in each for each in said)


# Notifications.


@clause("BUS-SEC-1", "AMO-27")
@pytest.mark.parametrize("host", ["s1", "s2"])
@pytest.mark.parametrize("early", [True, False])
def test_a_guest_receives_only_the_granted_notifications(
    host: str, early: bool
) -> None:
    stage = stage_of()
    hearer = stage.task("guest/a", GUEST)
    if early:
        hearer.process.subscribe(hearer, "**")
        stage.soon()
    news, secret = stage.task("news/b", host), stage.task("f", host)
    stage.soon()
    if not early:
        hearer.process.subscribe(hearer, "**")
        stage.soon()

    for notifier in (news, secret):
        notifier.process.notify(notifier)
    stage.soon()

    assert (received(stage, hearer, news), received(stage, hearer, secret)) == (1, 0)
    assert "f" not in stage.relays(GUEST)
    known = [
        each.task.name
        for each in stage.frames(None, GUEST)
        if isinstance(each, AddRelay)
    ]
    assert "news/b" in known
    assert "f" not in known


@clause("BUS-SEC-1")
@pytest.mark.parametrize("process", [GUEST, "s2"])
def test_a_guest_receives_no_notifications_of_another_machine(process: str) -> None:
    """Its subscription goes no further; that of a process with full rights does."""
    stage = Stage(machines=2, guests=Guests({GUEST}, by_all(RIGHTS)))
    said = complaints(stage, "s1")
    hearer, notifier = stage.task("guest/a", process), stage.task("news", "s1", "m2")
    hearer.process.subscribe(hearer, "ism://m2/news")
    stage.soon()

    notifier.process.notify(notifier)
    stage.soon()

    allowed = process != GUEST
    asked = {
        receiver.name
        for _, receiver, frame in stage.world.frames or ()
        if isinstance(frame, Subscribe) and receiver is not None
    }
    assert ("m2/s1" in asked) == allowed
    assert received(stage, hearer, notifier) == allowed
    assert any("may not subscribe to 'ism://m2/news'" in each for each in said) != (
        allowed
    )


@clause("BUS-SEC-1")
def test_queued_notifications_that_a_guest_may_not_receive_are_dropped() -> None:
    """Those that it may not receive; the master has accepted its subscription."""
    stage = Stage(
        slaves=3,
        guests=Guests(
            {GUEST}, lambda who, by: RIGHTS if (who, by) == (GUEST, "s2") else None
        ),
    )
    hearer = stage.task("guest/a", GUEST)
    news, secret = stage.task("news", "s2"), stage.task("f", "s2")
    hearer.process.subscribe(hearer, "**")
    host = stage.process("s2")
    while ("m1", GUEST) not in host.remote.topology.peers:
        stage.soon(0.0001)
    peer = host.remote.topology.peers["m1", GUEST]
    assert peer.credentials is None
    for notifier in (secret, news, secret):
        host.notify(notifier)
    assert peer.audience.queued == 3

    stage.soon()

    assert (received(stage, hearer, news), received(stage, hearer, secret)) == (1, 0)
    assert peer.notifications.dropped == 2


# Identity.


@clause("BUS-SEC-1", "BUS-SEC-2", "BUS-ROUTE-11")
@pytest.mark.parametrize("is_linked", [True, False])
def test_a_guest_does_not_pass_for_a_process_of_somebody_else(
    *, is_linked: bool
) -> None:
    """Nor can it end that process by claiming to be its next life.

    Not even while the link of that process is lost: the guest would take its place.
    """
    stage = stage_of()
    f, d = stage.task("f", "s4"), stage.task("d", "s2")
    stage.send(d, "f")
    stage.soon()
    stage.world.guests = Guests(
        {"s2"}, lambda who, _by: RIGHTS if who == "s2" else None
    )
    victim = stage.process("s2")
    if not is_linked:
        victim.frozen = True
        stage.cut("s2", "s4")
    rogue = stage.world.start("m1", "s2")
    stage.world.network.dial(rogue, LinkKind.DATA, ("m1", "s4"), "m1/s4")
    stage.forget()

    stage.soon()

    refusals = [each for each in stage.frames("s4") if isinstance(each, Refused)]
    assert [each.reason for each in refusals] == [Reason.DUPLICATE]
    if is_linked:
        sent_command = victim.command(d, "f")
        stage.soon()
        assert sent_command.taken_by == f.id


@clause("BUS-ROUTE-16", "BUS-SEC-1")
@pytest.mark.parametrize(
    ("gateway", "process", "address"),
    [
        ("s1", "s2", "m1/s2"),
        ("s1", GUEST, None),
        ("s1", "s9", None),
        ("s2", "s4", None),
    ],
    ids=["slave", "guest", "unknown", "not the master"],
)
def test_a_master_gives_links_to_its_slaves_with_full_rights(
    gateway: str, process: str, address: str | None
) -> None:
    """It knows where they listen; another process ignores such an address."""
    stage = stage_of()
    stage.send(stage.task("d", "s4"), stage.task("f", "s2").name)
    stage.soon()
    topology = stage.process(gateway).remote.topology
    if gateway != "s1":
        topology.peers["m1", process].inside_address = f"m1/{process}"

    assert topology.inside_address_of(process) == address


# Rights alone.


@clause("BUS-SEC-1")
@pytest.mark.parametrize(
    ("rights", "name", "allowed"),
    [
        (Rights(), "anything", True),
        (Rights(command=()), "anything", False),
        (Rights(command=patterns("a", "b/*")), "a", True),
        (Rights(command=patterns("a", "b/*")), "b/c", True),
        (Rights(command=patterns("a", "b/*")), "b/c/d", False),
        (Rights(command=patterns("**")), "_bus/s1", False),
        (Rights(command=patterns("_bus/*")), "_bus/s1", True),
    ],
)
def test_a_pattern_grants_only_the_names_that_it_matches(
    rights: Rights, name: str, allowed: bool
) -> None:
    assert rights.may_command(name) is allowed
