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
    """Schedules for `replay`, each drawn as a whole before the program runs.

    A test draws one together with whatever else it needs, makes a program of these
    and gives both to `replay`. When it fails Hypothesis makes the schedule smaller:
    fewer switches first, then earlier ones, until the story is short. A choice that a
    program does not have counts as "go on", so that every schedule fits every program.

    switches: choices other than "go on", at most.
    gap: choices to go on before each of them, at most.
    options: the highest number of an option; about as many as there are tasks.

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
