"""The implementation under test: its members, and the groups it offers or lacks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from specs.conformance.members import has
from specs.conformance.scenario import Scenario
from specs.conformance.scenarios import SCENARIOS
from specs.conformance.subject import SubjectError, load

if TYPE_CHECKING:
    from pathlib import Path

    from specs.conformance.stage import Stage

ADAPTER = """
number = 5
def number_maker():
    return 5
def raising():
    raise ValueError("on\\ntwo lines")
class World:
    def broker(self, name):
        pass
def strange():
    world = World()
    world.offers = {"RDV", "FOO"}
    return world
def empty():
    world = World()
    world.offers = ()
    return world
"""


def scenario(*needs: str, clause: str = "QB-RDV-1") -> Scenario:
    """Return a scenario that is never run."""

    def program(stage: Stage) -> None:
        raise AssertionError

    return Scenario("test.never", (clause,), program, needs)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with adapters; undo imports afterwards."""
    (tmp_path / "adapter_of_a_test.py").write_text(ADAPTER)
    (tmp_path / "broken.py").write_text("def factory(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ("nothing.py:factory", "there is no file nothing.py"),
        ("./nothing:factory", "there is no file nothing"),
        ("no.such.module:factory", "No module named 'no'"),
        ("adapter.py", "expected FILE:factory or module:factory, got 'adapter.py'"),
        ("adapter.py:", "expected FILE:factory or module:factory, got 'adapter.py:'"),
        (":factory", "expected FILE:factory or module:factory, got ':factory'"),
        ("adapter_of_a_test.py:nothing", "adapter_of_a_test.py has no nothing"),
        ("adapter_of_a_test:number", "number is no callable"),
        ("adapter_of_a_test.py:number_maker", "returned a int without broker()"),
        ("adapter_of_a_test.py:raising", "calling it raised ValueError: on two lines"),
        ("adapter_of_a_test.py:strange", "it offers FOO, known are BUF BULK CHAN"),
        ("adapter_of_a_test.py:empty", "it offers nothing, known are BUF BULK CHAN"),
        ("broken.py:factory", "SyntaxError"),
    ],
)
def test_load_reports_a_subject_that_cannot_be_tested_in_one_line(
    folder: Path, source: str, reported: str
) -> None:
    """The line has the argument and the error."""
    with pytest.raises(SubjectError) as caught:
        load(source, SCENARIOS)

    text = str(caught.value)
    assert reported in text
    assert source in text
    assert "\n" not in text


def test_a_naive_broker_offers_the_five_default_groups() -> None:
    """By default the five groups; filling the buffer determines the capacity."""
    subject = load("examples/naive_broker.py:factory", SCENARIOS)

    assert subject.offers == {"RDV", "SEND", "RECV", "FIFO", "DISC"}
    assert subject.trial.capacity == 8
    assert subject.trial.explored
    assert {"bounded", "explorer"} <= subject.trial.met


def test_a_subject_names_its_missing_groups_and_members() -> None:
    """First the groups, then the members."""
    subject = load("examples/naive_broker.py:factory", SCENARIOS)

    assert subject.lacks(scenario()) is None
    assert subject.lacks(scenario("bounded")) is None
    assert subject.lacks(scenario(clause="QB-TIME-1")) == "TIME not in offers"
    lacking = subject.lacks(scenario("queue.pending", "broker.accept(timeout)"))
    assert lacking == "no queue.pending, broker.accept(timeout)"


def test_a_trial_detects_a_subject_that_the_explorer_cannot_control() -> None:
    """A queue implemented in C makes the explorer raise."""
    subject = load("tests.conformance.uncontrolled:factory", SCENARIOS)

    assert not subject.trial.explored
    assert subject.lacks(scenario("explorer")) == "no explorer"
    assert subject.lacks(scenario("broker.accept(timeout)")) is None


class Thing:
    """An object with members of many kinds."""

    fixed = 1
    absent = None

    def __init__(self) -> None:
        self.own = 2

    @property
    def raising(self) -> int:
        """Raise when read."""
        raise RuntimeError

    def call(self, one: int, *, two: int = 0) -> None:
        """Take two parameters."""

    def any_call(self, **options: Any) -> None:
        """Take any parameter."""


@pytest.mark.parametrize(
    ("need", "met"),
    [
        ("thing.fixed", True),
        ("thing.own", True),
        ("thing.raising", True),
        ("thing.absent", False),
        ("thing.nothing", False),
        ("nobody.fixed", False),
        ("thing.call", True),
        ("thing.call(one)", True),
        ("thing.call(two)", True),
        ("thing.call(three)", False),
        ("thing.any_call(three)", True),
        ("thing.nothing(one)", False),
        ("thing.own(one)", False),
    ],
)
def test_members_are_looked_up(need: str, met: bool) -> None:
    """On the class and on the object; parameters by name."""
    assert has({"thing": Thing()}, need) is met


def test_a_need_must_be_spelled_right() -> None:
    """A misspelled need would silently drop a scenario."""
    with pytest.raises(ValueError, match=r"need must be owner\.member"):
        has({}, "pending")


def test_every_need_of_the_suite_can_be_met() -> None:
    """The reference lacks nothing, so no need is misspelled."""
    subject = load("tests.conformance.reference:factory", SCENARIOS)
    needs = {need for each in SCENARIOS for need in each.needs}

    assert needs - subject.trial.met == set()
