"""Each alarm is set for the first deadline of its part, or earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from bus.core.remote.new_addresses import NewAddresses
from bus.core.remote.remote_manager import RemoteManager
from bus.core.timers import Rank
from tests.simulate.process import LIMITS
from tests.simulate.run import run

if TYPE_CHECKING:
    from collections.abc import Iterator


def deadlines(remote: RemoteManager) -> Iterator[tuple[Rank, float | None]]:
    """Yield the deadlines of all parts, found by a scan of their state."""
    resolver = remote.resolver
    yield (
        Rank.STREAMS,
        min(remote.inbound_messages._streams._ended.values(), default=None),
    )
    yield Rank.REPEATED_SEARCHES, min(resolver.own.again.values(), default=None)
    moves = resolver.own.moves
    assert isinstance(moves, NewAddresses)
    untils = (until for _, until in moves.by_name.values())
    yield Rank.NEW_ADDRESSES, min(untils, default=None)
    yield Rank.ANY_MACHINE_SEARCHES, resolver.anywhere._patience.next()
    yield Rank.SEARCHES, resolver.ledger.next_deadline()
    late = map(remote.links.late_at, remote.links.by_number.values())
    yield Rank.LINKS, min((at for at in late if at is not None), default=None)
    waits = remote.topology.limits
    for peer in remote.topology.peers.values():
        if peer.session.link is None:
            wait = waits.relink_timeout_s if peer.bound else waits.connect_timeout_s
            yield Rank.PEERS, peer.since + wait
    dialler = remote.links.dialler
    for at in dialler.redial_at.values():
        yield Rank.DIALS, max(at, dialler._turn_at())
    for peer in remote.keep_alive._linked():
        yield Rank.KEEP_ALIVE, remote.keep_alive._due_at(peer)
    for tasks in (remote._remote_presence._own, remote._remote_presence._passed_on):
        for task in tasks._tasks.values():
            yield Rank.PRESENCE, task.until
    yield Rank.NAMES, remote.name_registry._decides_at


@pytest.mark.parametrize(
    "seed",
    [*range(2), *(pytest.param(each, marks=pytest.mark.deep) for each in range(2, 20))],
)
@pytest.mark.parametrize("machines", [1, 2])
def test_no_part_has_a_deadline_before_its_alarm(
    machines: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So no deadline is missed, although no round asks the parts for theirs."""
    checked, next_deadline = set(), RemoteManager.next_deadline

    def checks(remote: RemoteManager, now: float) -> float | None:
        alarms = {each.rank: each for each in remote.topology.timers._alarms}
        for rank, deadline in deadlines(remote):
            if deadline is not None:
                assert alarms[rank].at <= deadline
                checked.add(rank)
        return next_deadline(remote, now)

    monkeypatch.setattr(RemoteManager, "next_deadline", checks)
    limits = replace(LIMITS, keep_alive_s=0.5, lease_s=2.0)
    monkeypatch.setattr("tests.simulate.run.LIMITS", limits)

    assert run(seed, machines=machines) is None
    assert Rank.KEEP_ALIVE in checked
