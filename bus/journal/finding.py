"""`Finding`: a would-be violation, as the small checker's fold produces it.

It has no verdict yet: that depends on how far the journals can be trusted, which the
fold does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from bus.journal.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Finding", "Place"]


@attrs.frozen
class Place:
    """The place of a record: its journal, its number, its time."""

    journal: int
    n: int
    mono: int


@attrs.frozen
class Finding:
    """The case of a rule that a record or message breaks.

    facts: the values for the template of the case.
    other_n: the record it conflicts with, None if unknown or an absence.
    origin, sort: of a message of the bus, whose `flow` is its destination and whose
      `seq` its number; None for anything else.
    """

    rule: str
    case: str
    flow: int
    seq: int | None
    place: Place | None
    other_n: int | None = None
    facts: Mapping[str, object] = attrs.field(factory=dict)
    origin: int | None = None
    sort: int | None = None

    @property
    def explanation(self) -> str:
        """The template of the case with its facts."""
        return RULES[self.rule].cases[self.case].format(**self.facts)
