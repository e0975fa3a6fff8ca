"""`Violation`: a violation of a rule, certain or possible, and its identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from bus.journal.rules import RULES

if TYPE_CHECKING:
    from bus.journal.rules import Verdict

__all__ = ["Violation"]


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
