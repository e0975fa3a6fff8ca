"""The user routing table: which process holds which name on a machine."""

from __future__ import annotations

import pytest

from bus.kernel.name_registry import User, UserRoutingTable
from bus.model.registration import RegistrationId
from specs.clauses import clause


def user(
    process: str, number: int, since: int, name: str = "f", *, granted: bool = True
) -> User:
    return User(
        *(RegistrationId("m", process, number), name, ("m", process), since),
        granted=granted,
    )


@clause("BUS-MOVE-7", "BUS-INIT-12")
@pytest.mark.parametrize("earlier_first", [True, False])
def test_the_earlier_of_two_registrations_has_the_name_in_any_order(
    earlier_first: bool,
) -> None:
    early, late = user("p1", 1, 10), user("p2", 1, 20)
    first, second = (early, late) if earlier_first else (late, early)
    table = UserRoutingTable()

    assert table.claim(first) is None
    assert table.claim(second) is late
    assert table.find("f") is early
    assert table.claim(early) is None
    assert table.owners() == {"f": ("m", "p1")}


@clause("OPEN-3", "BUS-MOVE-7")
@pytest.mark.parametrize("granted_first", [True, False])
def test_a_granted_name_is_not_lost_to_an_earlier_registration_that_requests_it(
    granted_first: bool,
) -> None:
    asks, granted = user("p1", 1, 10, granted=False), user("p2", 1, 20)
    first, second = (granted, asks) if granted_first else (asks, granted)
    table = UserRoutingTable()

    assert table.claim(first) is None
    assert table.claim(second) is asks
    assert table.find("f") is granted


@clause("OPEN-3")
def test_a_task_that_was_granted_its_name_keeps_it() -> None:
    table = UserRoutingTable()
    early, late = user("p1", 1, 10, granted=False), user("p2", 1, 20, granted=False)
    table.claim(late)
    table.grant("f")

    assert table.claim(early) is early
    assert table.owners() == {"f": ("m", "p2")}


@clause("BUS-DEREG-7")
def test_a_repeated_removal_keeps_the_later_registration() -> None:
    table = UserRoutingTable()
    table.claim(user("p1", 1, 10))
    assert table.remove(RegistrationId("m", "p1", 1), "f")
    table.claim(user("p1", 2, 20))

    assert not table.remove(RegistrationId("m", "p1", 1), "f")
    assert not table.remove(RegistrationId("m", "p1", 3), "g")
    assert [each.number for each in table.of(("m", "p1"))] == [2]
    assert len(table) == 1


@clause("BUS-FLOW-1")
def test_the_tasks_of_each_process_are_counted() -> None:
    """For every holder of a name, however it acquired the name."""
    table = UserRoutingTable()
    first, earlier = user("p1", 1, 10), user("p2", 1, 5)
    for each in (first, first, user("p1", 2, 10, "g"), earlier, first):
        table.claim(each)
    assert [table.count(("m", name)) for name in ("p1", "p2", "p3")] == [1, 1, 0]

    table.remove(earlier.id, "f")
    assert table.count(("m", "p2")) == 0
    table.clear()
    assert table.count(("m", "p1")) == 0
