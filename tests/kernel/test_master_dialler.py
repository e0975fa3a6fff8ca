"""A slave dials the master of its machine again and again, until it has a link."""

from __future__ import annotations

import pytest

from bus.kernel.tasks.actions import Dial
from bus.kernel.wire import LinkKind, Role
from specs.clauses import clause
from tests.features.machines.test_static_addresses import Master, connect

MASTER = ("m1", "")


@pytest.fixture
def slave() -> Master:
    """Return a slave of machine m1 that has just dialled its master."""
    one = Master("m1", process="s1", role=Role.SLAVE)
    assert dials(one, 0.0) == 1
    return one


def dials(slave: Master, now: float, *, first: bool = True) -> int:
    """Return how often a slave dials its master at a time; first: as it begins."""
    actions = slave.remote.begin(now) if first else slave.remote.tick(now)
    keys = [each.key for each in actions if isinstance(each, Dial)]
    assert set(keys) <= {MASTER}
    return len(keys)


def redial_s(slave: Master, now: float) -> float:
    """Let the dial of a slave fail; return the delay before the next one."""
    slave.remote.on_dial_failed(LinkKind.SIGNALLING, MASTER, now)
    at = slave.remote.links.dialler.redial_at
    assert at is not None
    return at - now


@clause("BUS-INIT-3")
def test_each_delay_is_longer_up_to_less_than_a_second(slave: Master) -> None:
    now, longest_s = 1.0, 0.1
    for _ in range(7):
        delay_s = redial_s(slave, now)
        assert longest_s / 2 <= round(delay_s, 6) <= longest_s
        longest_s = min(2 * longest_s, 0.8)
        assert dials(slave, now + 0.99 * delay_s, first=False) == 0
        now += delay_s
        assert dials(slave, now, first=False) == 1
        assert dials(slave, now, first=False) == 0


@clause("BUS-INIT-3")
def test_after_a_link_the_next_delay_is_a_short_one(slave: Master) -> None:
    for _ in range(4):
        redial_s(slave, 1.0)
    connect(slave, Master("m1"), 1, "m1", None, 2.0, outside=False)
    assert slave.remote.topology.has_master

    slave.remote.on_link_lost(1, 3.0)

    assert redial_s(slave, 3.0) <= 0.1
    assert slave.remote.topology.joined() == []


@clause("BUS-INIT-3", "OPEN-1")
def test_a_process_that_becomes_master_dials_no_master(slave: Master) -> None:
    redial_s(slave, 1.0)

    slave.remote.become_master(1.0, ())

    assert dials(slave, 9.0, first=False) == 0
    slave.remote.on_dial_failed(LinkKind.SIGNALLING, MASTER, 9.0)  # begun before
    assert slave.remote.links.dialler.redial_at is None
