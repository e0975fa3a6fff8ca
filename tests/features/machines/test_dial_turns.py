"""A master starts few dials at a time, so that those that have started complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.kernel.tasks.actions import Dial
from bus.kernel.wire import LinkKind
from specs.clauses import clause
from tests.features.machines.test_static_addresses import Master, connect

if TYPE_CHECKING:
    from bus.kernel.tasks.actions import Action

TEN = [f"tls://192.0.2.{number}:7400" for number in range(10)]


def dialled(actions: list[Action]) -> list[str]:
    """Return the addresses that actions dial, in order."""
    return [
        address
        for each in actions
        if isinstance(each, Dial)
        for address in each.addresses
    ]


@clause("BUS-CHAN-3")
def test_four_dials_begin_at_a_time_and_each_end_begins_the_next() -> None:
    master = Master("m1", *TEN)
    assert dialled(master.remote.begin(0.0)) == TEN[:4]
    assert dialled(master.remote.tick(0.1)) == []

    made = master.dials(1, TEN[2], None)
    assert dialled(made) == [TEN[4]]
    failed = master.remote.on_dial_failed(LinkKind.SIGNALLING, (TEN[0], ""), 0.1)
    assert dialled(failed) == [TEN[5]]


@clause("BUS-CHAN-3")
def test_dials_without_an_answer_hold_up_the_others_for_half_a_second() -> None:
    master = Master("m1", *TEN)
    master.remote.begin(1.0)
    assert master.remote.topology.timers.next() == 1.5
    assert dialled(master.remote.tick(1.5)) == TEN[4:8]
    assert master.remote.topology.timers.next() == 2.0
    assert dialled(master.remote.tick(2.0)) == TEN[8:]


@clause("BUS-CHAN-3")
def test_a_dial_that_waits_for_its_turn_is_dropped_if_the_link_comes() -> None:
    one, five = Master("m1", *TEN[:4]), Master("m5")
    one.remote.begin(1.0)
    assert dialled(one.machines.on_found("m5", ("a",), 1.0)) == []
    connect(five, one, 1, "m1", "m1")
    assert dialled(one.remote.tick(9.0)) == []


@clause("BUS-CHAN-3")
def test_machines_dial_again_at_different_times_within_bounds() -> None:
    """They lost each other at the same time."""
    firsts = set()
    for machine in ("m1", "m2", "m3"):
        master, longest_s = Master(machine, TEN[0]), 0.1
        master.remote.begin(1.0)
        for _ in range(7):
            master.remote.on_dial_failed(LinkKind.SIGNALLING, (TEN[0], ""), 1.0)
            delay_s = master.redial[TEN[0]] - 1.0
            assert longest_s / 2 <= round(delay_s, 6) <= longest_s
            longest_s = min(2 * longest_s, 2.0)
            firsts.add(delay_s)
            assert dialled(master.remote.tick(1.0 + delay_s)) == [TEN[0]]
    assert len(firsts) == 21
