"""Each alarm is set for the first deadline of its part, or earlier."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import pytest

from bus.features.machines.any_machine import AnyMachineSearches
from bus.features.machines.machine_dialler import MachineDialler
from bus.features.moving.new_addresses import NewAddresses
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.features.subscriptions.remote_subscriptions import RemoteSubscriptions
from bus.kernel import constants
from bus.kernel.peer.delayed_acks import _EXCHANGE
from bus.kernel.peer.relay import Dismissal
from bus.kernel.relays import _is_provisional
from bus.kernel.remote_manager import RemoteManager
from tests.simulate.process import CONFIG
from tests.simulate.run import run
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.kernel.tasks.actions import Action
    from bus.kernel.timers import Alarm


TOGETHER_S = 0.005  # messages with deadlines this close expire together


def deadlines(
    remote: RemoteManager, now: float
) -> Iterator[tuple[Alarm, float | None]]:
    """Yield the deadlines of all parts, found by a scan of their state."""
    resolver = remote.resolver
    parked = remote.manager.parked.next_deadline()
    yield remote._parked_alarm, parked and max(parked, now + TOGETHER_S)
    yield (
        remote.inbound_messages._alarm,
        min(remote.inbound_messages._streams._ended.values(), default=None),
    )
    yield resolver.own._alarm, min(resolver.own.again.values(), default=None)
    moves = resolver.own.moves
    assert isinstance(moves, NewAddresses)
    untils = (until for _, until in moves.by_name.values())
    yield moves._alarm, min(untils, default=None)
    assert isinstance(resolver.anywhere, AnyMachineSearches)
    yield resolver.anywhere._alarm, resolver.anywhere._patience.next()
    assert resolver.ledger._alarm is not None
    yield resolver.ledger._alarm, resolver.ledger.next_deadline()
    late = map(remote.links.late_at, remote.links.by_number.values())
    yield remote.links._alarm, min((at for at in late if at is not None), default=None)
    waits = remote.topology.config
    for peer in remote.topology.peers.values():
        if peer.session.link is None:
            wait = constants.RELINK_TIMEOUT_S if peer.bound else waits.connect_timeout_s
            yield remote._process_loss._loss_alarm, peer.since + wait
        for relay in peer.active_relays():
            yield remote.topology.message_alarm, relay.next_deadline()
        if peer.session.ready:
            later = now + _EXCHANGE * waits.ack_delay_s
            at = later if peer.acks.in_exchange else peer.acks.due_at
            if at is not None and at > now:  # else the next flush acknowledges
                yield remote.topology.ack_alarm, at
    for relay in filter(_is_provisional, remote.relays._unconfirmed):
        expires_at = remote.relays._expires_at(relay)
        yield (
            remote.relays._alarm,
            max(expires_at, now + constants.LINK_LINGER_S * (expires_at <= now)),
        )
    yield remote.links.dialler._alarm, remote.links.dialler.redial_at
    masters = remote.links.masters
    assert isinstance(masters, MachineDialler)
    for at in masters.redial_at.values():
        yield masters._alarm, max(at, masters._turn_at())
    for peer in remote.keep_alive._linked():
        yield remote.keep_alive._alarm, remote.keep_alive._due_at(peer)
    subscriptions = subscriptions_of(remote.manager).remote
    assert isinstance(subscriptions, RemoteSubscriptions)
    for tasks in (subscriptions.presence._own, subscriptions.presence._passed_on):
        for task in tasks._tasks.values():
            yield subscriptions.presence._alarm, task.until
    yield remote.name_registry._alarm, remote.name_registry._decides_at
    if subscriptions._adopted():
        yield subscriptions._adoption_alarm, now + waits.connect_timeout_s
    if subscriptions._confirmations._awaits_joins:
        yield subscriptions._confirmations._alarm, now + 1.0
    yield from idle(remote, now)


def idle(remote: RemoteManager, now: float) -> Iterator[tuple[Alarm, float]]:
    """Yield when to close each link and relay that nothing here uses.

    One that its part does not know should have been closed long ago.
    """
    linger_s, links, relays = (
        constants.LINK_LINGER_S,
        remote.idle_links,
        remote.idle_relays,
    )
    for peer in remote.topology.peers.values():
        if links._is_unused(peer):
            key = peer.key
            since = now if key in links._new else links._since.get(key, -math.inf)
            yield links._alarm, since + linger_s
        for relay in peer.relays.values():
            if (
                not remote.relays.is_used(relay)
                and not relays._is_kept(relay)
                and relay.dismissal is Dismissal.NONE
            ):
                known = relay in relays._new
                since = now if known else relays._since.get(relay, -math.inf)
                yield relays._alarm, since + linger_s


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Check the alarms around each tick; return the parts that had a deadline."""
    parts, tick = set[str](), RemoteManager.tick

    def check(remote: RemoteManager, now: float) -> None:
        for alarm, deadline in deadlines(remote, now):
            if deadline is not None:
                assert alarm.at <= deadline
                parts.add(alarm.on_due.__qualname__)

    def checked_tick(remote: RemoteManager, now: float) -> list[Action]:
        check(remote, now)
        actions = tick(remote, now)
        check(remote, now)
        return actions

    monkeypatch.setattr(RemoteManager, "tick", checked_tick)
    return parts


@pytest.mark.parametrize(
    "seed",
    [0, *(pytest.param(each, marks=pytest.mark.deep) for each in range(1, 20))],
)
@pytest.mark.parametrize("machines", [1, 2])
def test_no_part_has_a_deadline_before_its_alarm(
    machines: int, seed: int, monkeypatch: pytest.MonkeyPatch, checked: set[str]
) -> None:
    """So no deadline is missed, although no round asks the parts for theirs."""
    config = attrs.evolve(CONFIG, keep_alive_s=0.5, lease_s=2.0)
    monkeypatch.setattr("tests.simulate.run.CONFIG", config)

    assert run(seed, machines=machines) is None
    assert "KeepAlive._on_due" in checked


def test_the_successor_of_a_lost_master_and_the_heirs_of_its_requests_have_alarms(
    checked: set[str],
) -> None:
    """A process adopts a subscription; the new master waits for others to join."""
    stage = Stage(slaves=3, machines=2)
    stage.task("news", "s1", "m2")
    hearer = stage.task("h", "s2")
    hearer.process.subscribe(hearer, "ism://m2/news")
    stage.soon()

    stage.process("s1").die()
    stage.soon(1.0)
    stage.world.promote(stage.process("s3"))
    stage.soon(1.0)

    assert checked >= {
        "Confirmations._on_due",
        "NameRegistry._on_due",
        "RemoteSubscriptions._check_all_adopted",
    }
