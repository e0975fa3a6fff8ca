"""`Violation`: a violation of a rule, certain or possible, and its identity.

A `Finding` is one without a verdict.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import attrs

from bus.journal.rules import RULES
from bus.journal.wording import hex64, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.journal.rules import Verdict

__all__ = ["Finding", "Place", "Violation"]


@attrs.frozen
class Violation:
    """One violation of one rule: certain (FAIL) or possible (UNKNOWN).

    verdict: FAIL or UNKNOWN, nothing else.
    case: one of the rule's cases.
    flow, seq, n, journal: the offending message and record; None where the rule has
      none. `flow` is ``channel << 1`` for Q1.
    mono: the time of the record, in monotonic nanoseconds of that journal.
    other_n: the record it conflicts with, None if the violation is an absence.
    sender, receiver, port: the ends of the flow, "" and None if unknown.
    explanation: the case's template with its facts.
    origin, sort: of a message of the bus, the registration that sent it and one of
      `SORTS`; its destination is `flow`, its number `seq`. Else None and "".
    """

    rule: str
    verdict: Verdict
    case: str
    explanation: str
    flow: int | None = None
    seq: int | None = None
    n: int | None = None
    journal: int | None = None
    mono: int | None = None
    other_n: int | None = None
    sender: str = ""
    receiver: str = ""
    port: int | None = None
    origin: int | None = None
    sort: str = ""

    @property
    def key(self) -> tuple[str | int | None, ...]:
        """(rule, flow, seq, n, journal), None for fields outside its identity.

        For a message of the bus, its origin and its sort follow.
        """
        identity = RULES[self.rule].identity
        place = tuple(
            getattr(self, name) if name in identity else None
            for name in ("flow", "seq", "n", "journal")
        )
        of_bus = (self.origin, self.sort) if "origin" in identity else ()
        return (self.rule, *place, *of_bus)

    def inspect_command(self, journals: str | os.PathLike[str]) -> str:
        """Return the command that shows the records about it, for a shell.

        journals: the folder that was read.
        """
        folder = printable(shlex.quote(os.fspath(journals)))
        if self.flow is None:
            return f"bus journal ls {folder}"
        chosen = []
        # The records about a channel as a whole may be in either of its flows.
        if self.seq is not None or self.n is None:
            chosen += ["--flow", hex64(self.flow)]
        if self.n is not None:
            # Other journals may have records of this flow, and of this number.
            of = "" if self.journal is None else f"{hex64(self.journal)}:"
            chosen += ["--around", f"{of}{self.n}"]
        return " ".join(["bus journal cat", folder, *chosen])


@attrs.frozen
class Place:
    """The place of a record: its journal, its number, its time."""

    journal: int
    n: int
    mono: int


@attrs.frozen
class Finding:
    """The case of a rule that a record or message breaks.

    The small checker's fold makes it. It has no verdict yet: that depends on how far
    the journals can be trusted, which the fold does not know.

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
