"""The brokers' model follows the tables: names, waiting lists, matches, closes."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from specs.models.answers import Answer, Ending
from specs.models.rendezvous import Brokers, Medium, Role
from tests.specs.models.lists import ListPorts

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

NAMES = st.sampled_from(["a", "b"])
PORTS = st.integers(0, 1)
# Labels are given in the order of creation; some were never given.
LABELS = st.integers(0, 5)

WAITS = Answer(Ending.WAITS)
DONE = Answer(Ending.DONE)
CLOSED = Answer(Ending.BROKER_CLOSED)
UNKNOWN = Answer(Ending.UNKNOWN_BROKER)
IN_USE = Answer(Ending.PORT_IN_USE)

ENDS = {"closed": CLOSED, "unknown": UNKNOWN, "in use": IN_USE}


def brokers(*names: str) -> Brokers:
    """Return brokers whose labels are their names."""
    made = Brokers()
    for name in names:
        made.create(name, name)
    return made


class AgainstLists(RuleBasedStateMachine):
    """Any operations in any order, compared with two lists for each port."""

    @initialize()
    def begin(self) -> None:
        self.brokers = Brokers()
        self.ports = ListPorts()
        self.labels = 0
        self.tickets = 0
        # Outcomes of the calls that did not have to wait.
        self.at_once: dict[int, Answer] = {}
        self.withdrawn: set[int] = set()

    @rule(name=NAMES)
    def create(self, name: str) -> None:
        answer = self.brokers.create(self.labels, name)
        if self.ports.create(self.labels, name):
            assert answer == Answer(Ending.DONE, self.labels)
        else:
            assert answer == Answer(Ending.NAME_IN_USE)
        self.labels += 1

    @rule(label=LABELS)
    def close(self, label: int) -> None:
        assert self.brokers.close(label) == DONE
        self.ports.close(label)

    @rule(label=LABELS, port=PORTS, exclusive=st.booleans())
    def accept(self, label: int, port: int, exclusive: bool) -> None:
        self.tickets += 1
        answer = self.brokers.accept(self.tickets, label, port, exclusive=exclusive)
        self.ports.accept(self.tickets, label, port, exclusive=exclusive)
        self.called(answer)

    @rule(source=LABELS, name=NAMES, port=PORTS)
    def connect(self, source: int, name: str, port: int) -> None:
        self.tickets += 1
        answer = self.brokers.connect(self.tickets, source, name, port)
        self.ports.connect(self.tickets, source, name, port)
        self.called(answer)

    def called(self, answer: Answer) -> None:
        if answer != WAITS:
            self.at_once[self.tickets] = answer

    @rule(ticket=st.integers(1, 20))
    def withdraw(self, ticket: int) -> None:
        answer = self.brokers.withdraw(ticket)
        left = self.ports.withdraw(ticket)
        assert answer == (DONE if left else WAITS)
        if left:
            self.withdrawn.add(ticket)

    @invariant()
    def calls_end_alike(self) -> None:
        for ticket in range(1, self.tickets + 1):
            answer = self.at_once.get(ticket) or self.brokers.end_of(ticket)
            end = self.ports.ended.get(ticket)
            if end is None:
                assert answer is None
            elif isinstance(end, str):
                assert answer == ENDS[end]
            else:
                assert answer == Answer(Ending.DONE, end)
                assert self.ports.ended[end] == ticket

    @invariant()
    def the_same_wait_in_the_same_order(self) -> None:
        for role, lists in (
            (Role.ACCEPT, self.ports.wa),
            (Role.CONNECT, self.ports.wc),
        ):
            for (label, port), tickets in lists.items():
                waiting = [
                    each.ticket
                    for each in self.brokers.state.waiting
                    if (each.role, each.broker, each.port) == (role, label, port)
                ]
                assert waiting == tickets

    @invariant()
    def nobody_waits_for_who_waits_too(self) -> None:
        waiting = self.brokers.state.waiting
        accepting = {each.place for each in waiting if each.role is Role.ACCEPT}
        connecting = {each.place for each in waiting if each.role is Role.CONNECT}
        assert not accepting & connecting

    @invariant()
    def every_call_is_in_one_place_only(self) -> None:
        places: list[Iterable[Hashable]] = [
            self.at_once.keys(),
            {ticket for ticket, _ in self.brokers.state.ended},
            {each.ticket for each in self.brokers.state.waiting},
            self.withdrawn,
        ]
        found = collections.Counter(ticket for place in places for ticket in place)
        assert found == dict.fromkeys(range(1, self.tickets + 1), 1)

    @invariant()
    def only_the_living_have_names_and_waiters(self) -> None:
        assert self.brokers.names() == set(self.ports.names)
        living = set(self.ports.names.values())
        for each in self.brokers.state.waiting:
            assert {each.broker, each.source} <= living


TestAgainstLists = AgainstLists.TestCase


def test_connects_are_served_in_the_order_in_which_they_came() -> None:
    both = brokers("a", "b")
    for ticket in (1, 2, 3):
        assert both.connect(ticket, "a", "b", 7) == WAITS
    assert both.waiting_connects("b") == {7: 3}
    assert [each.ticket for each in both.outgoing("a")] == [1, 2, 3]

    served = [both.accept(ticket, "b", 7).value for ticket in (4, 5, 6)]

    assert served == [1, 2, 3]
    assert both.waiting_connects("b") == {}
    assert both.outgoing("a") == []


def test_ports_and_media_are_apart() -> None:
    both = brokers("a", "b")
    both.connect(1, "a", "b", 7)

    assert both.accept(2, "b", 8) == WAITS
    assert both.accept(3, "b", 7, medium=Medium.CHANNEL) == WAITS
    assert both.waiting_accepts("b") == {8: 1}
    assert both.waiting_accepts("b", Medium.CHANNEL) == {7: 1}


def test_a_broker_may_connect_to_itself() -> None:
    one = brokers("a")

    assert one.accept(1, "a", 7) == WAITS
    assert one.connect(2, "a", "a", 7) == Answer(Ending.DONE, 1)
    assert one.end_of(1) == Answer(Ending.DONE, 2)


def test_a_plain_broker_is_unknown_for_messages() -> None:
    both = brokers("a")
    both.create("b", "b", queue=False)

    assert both.connect(1, "a", "b", 7) == UNKNOWN
    assert both.connect(2, "a", "b", 7, medium=Medium.CHANNEL) == WAITS


def test_a_reused_name_inherits_no_waiting_caller() -> None:
    both = brokers("a", "b")
    both.connect(1, "a", "b", 7)
    both.close("b")

    both.create("second", "b")

    assert both.end_of(1) == CLOSED
    assert both.accept(2, "second", 7) == WAITS


def test_close_ends_every_call_that_involves_the_broker_and_no_other() -> None:
    three = brokers("a", "b", "c")
    three.accept(1, "b", 1)
    three.connect(2, "a", "b", 2)
    three.connect(3, "b", "c", 3)
    three.connect(4, "a", "c", 4)

    three.close("b")

    assert [three.end_of(ticket) for ticket in (1, 2, 3)] == [CLOSED] * 3
    assert [each.ticket for each in three.state.waiting] == [4]


def test_an_exclusive_accept_wants_the_port_for_itself() -> None:
    shared, single = brokers("a"), brokers("a")
    shared.accept(1, "a", 7)
    single.accept(1, "a", 7, exclusive=True)

    assert shared.accept(2, "a", 7, exclusive=True) == IN_USE
    assert single.accept(2, "a", 7) == IN_USE
    assert single.accept(3, "a", 8) == WAITS


def test_an_exclusive_accept_may_meet_a_waiting_connect() -> None:
    both = brokers("a", "b")
    both.connect(1, "a", "b", 7)

    assert both.accept(2, "b", 7, exclusive=True) == Answer(Ending.DONE, 1)
