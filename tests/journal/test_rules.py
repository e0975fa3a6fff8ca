"""The rules as a table: complete, frozen, and the same for both checkers."""

from __future__ import annotations

import string

import attrs
import pytest

from bus.journal.rules import RULES, Basis, Rule, Verdict
from bus.journal.violation import Violation

FACTS = {
    "J1": {"damaged", "lost", "gaps", "first", "last"},
    "Q1": {
        *("accepts", "connects", "accept_port", "connect_port"),
        *("a_task", "a_peer", "c_task", "c_peer", "late"),
    },
    "Q2": {"other_seq"},
    "Q3": {"count"},
    "Q4": set(),
    "Q5": {"other_seq"},
    "Q6": set(),
    "Q7": set(),
    "Q8": {"smallest", "largest"},
    "B1": {"count"},
    "B2": {"other_seq"},
    "B3": {"other_seq"},
    "B4": set(),
    "B5": {"other_seq"},
    "B6": set(),
}


def test_the_rules_are_these_in_this_order() -> None:
    of_queues = ["Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8"]
    assert list(RULES) == ["J1", *of_queues, "B1", "B2", "B3", "B4", "B5", "B6"]
    absent = [rule.id for rule in RULES.values() if rule.basis is Basis.ABSENCE]
    assert absent == ["J1", "Q1", "Q4", "Q5", "B2", "B3", "B4"]


def test_a_case_has_the_basis_of_its_rule_unless_it_is_proven() -> None:
    for rule in RULES.values():
        assert set(rule.proven) <= rule.cases.keys()
    assert RULES["B2"].basis_of("again") is Basis.PRESENCE
    assert RULES["B2"].basis_of("foreign") is Basis.ABSENCE


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_asks_only_for_facts_that_both_checkers_give(rule: Rule) -> None:
    asked = {
        name
        for template in rule.cases.values()
        for _, name, _, _ in string.Formatter().parse(template)
        if name is not None
    }

    assert asked == FACTS[rule.id]


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ("J1", ("J1", None, None, None, 5)),
        ("Q1", ("Q1", 2, None, None, None)),
        ("Q2", ("Q2", 2, 3, 4, None)),
        ("Q3", ("Q3", 2, 3, None, None)),
        ("Q4", ("Q4", 2, 3, None, None)),
        ("Q5", ("Q5", 2, 3, None, None)),
        ("Q6", ("Q6", 2, 3, None, None)),
        ("Q7", ("Q7", 2, None, 4, None)),
        ("Q8", ("Q8", 2, 3, None, None)),
        ("B1", ("B1", 2, 3, None, None, 7, "command")),
        ("B2", ("B2", 2, 3, None, None, 7, "command")),
        ("B3", ("B3", 2, 3, None, None, 7, "command")),
        ("B4", ("B4", 2, 3, 4, None, 7, "command")),
        ("B5", ("B5", 2, 3, 4, None, 7, "command")),
        ("B6", ("B6", 2, 3, 4, None, 7, "command")),
    ],
)
def test_a_violation_is_identified_by_the_key_of_its_rule(
    rule: str, key: tuple[str | int | None, ...]
) -> None:
    place = {"flow": 2, "seq": 3, "n": 4, "journal": 5, "mono": 6, "origin": 7}
    one = Violation(rule, Verdict.FAIL, "", "", **place, sort="command")  # type: ignore[arg-type] # all numbers

    assert one.key == key


def test_nothing_in_the_table_can_be_changed() -> None:
    with pytest.raises(TypeError):
        RULES["Q9"] = RULES["Q8"]  # type: ignore[index] # fails on purpose
    with pytest.raises(TypeError):
        RULES["Q8"].cases["new"] = ""  # type: ignore[index] # fails on purpose
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        RULES["Q8"].title = ""  # type: ignore[misc] # fails on purpose
