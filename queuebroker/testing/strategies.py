"""Schedules as data for property tests: `schedules`, for Hypothesis.

The only module that imports Hypothesis; nothing else imports this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from queuebroker.testing.search import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["schedules"]


def schedules(
    *, switches: int = 8, gap: int = 16, options: int = 3
) -> st.SearchStrategy[Schedule]:
    """Return a strategy for schedules, each drawn as a whole before the program runs.

    A test draws a schedule together with its other data, builds a program from the data
    and passes both to `replay`. If the test fails, Hypothesis shrinks the schedule:
    first to fewer switches, then to earlier ones, until the story is short. A choice
    that is no option of a program counts as "go on", so that every schedule fits every
    program.

    switches: maximum choices other than "go on".
    gap: maximum "go on" choices before each of them.
    options: the highest number of an option; about the number of tasks.

    Raises:
        ValueError: ``switches`` or ``gap`` is negative, or ``options`` below 1.
    """
    for name, number, least in (
        ("switches", switches, 0),
        ("gap", gap, 0),
        ("options", options, 1),
    ):
        if number < least:
            msg = f"{name} must be >= {least}, got {number}"
            raise ValueError(msg)
    switch = st.tuples(st.integers(0, gap), st.integers(1, options))
    return st.lists(switch, max_size=switches).map(_joined)


def _joined(drawn: Iterable[tuple[int, int]]) -> Schedule:
    return Schedule(choice for gap, option in drawn for choice in (*[0] * gap, option))
