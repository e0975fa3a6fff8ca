"""A few hundred cycles of each kind, and proof that the search for growth works.

``python -m tests.leaks --cycles 10000`` executes as many as the project promises.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.leaks.cycles import KINDS, repeated
from tests.leaks.growth import Growth

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.leaks.growth import Look


@clause("BUS-ENT-17", "BUS-DEREG-5")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.deep
def test_a_repeated_cycle_leaves_nothing_behind(kind: str) -> None:
    looks: list[Look] = []

    # Three steps: with two, a single resize of a table would count in both.
    assert repeated(kind, 105, looks=3, see=looks.append) == []

    assert [look.cycles for look in looks] == [50, 85, 120, 155]


def _unseen(_: Look) -> None:
    """Ignore a look."""


class Thing:
    """An object that is kept, or not."""


def _keep_things(kept: list[object]) -> None:
    thing = Thing()
    kept.append(thing)
    # The collector tracks only objects that may be part of a cycle.
    thing.__dict__["it"] = thing


@pytest.mark.deep
@pytest.mark.parametrize(
    ("keep", "words"),
    [
        (_keep_things, "100 more of type Thing after 100 cycles"),
        (lambda kept: kept.append(bytes(10_000)), "KiB more after 100 cycles"),
    ],
)
def test_growth_of_each_kind_is_reported(
    keep: Callable[[list[object]], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.leaks.growth._WHILE_S", 0.0)
    kept: list[object] = []

    said = Growth(lambda _: keep(kept), list).run(100, looks=2, see=_unseen)

    assert any(words in each for each in said), said


@pytest.mark.deep
def test_a_thread_that_is_kept_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.leaks.growth._WHILE_S", 0.0)
    end = threading.Event()
    threads: list[threading.Thread] = []

    def cycle(_: int) -> None:
        if len(threads) < 60:
            threads.append(threading.Thread(target=end.wait))
            threads[-1].start()

    said = Growth(cycle, list).run(20, looks=1, see=_unseen)

    end.set()
    for each in threads:
        each.join()
    assert any("threads, were" in each for each in said), said


@pytest.mark.deep
def test_objects_kept_for_a_while_are_no_leak() -> None:
    """A timer may still hold it."""
    kept: list[object] = []
    looked = 0

    def settled() -> None:
        nonlocal looked
        looked += 1
        if looked > 3:
            kept.clear()

    growth = Growth(lambda _: kept.append(bytes(10_000)), settled)
    assert growth.run(200, looks=1, see=_unseen) == []
