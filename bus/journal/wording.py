"""How what stands in a record is said: numbers, names, reasons.

For the names of kinds see `bus.journal.format.kind_name`. A name was chosen by whoever
was recorded: it reaches people only through `printable`.
"""

from __future__ import annotations

import contextlib
from typing import Final

from bus.events import BusReason
from queuebroker.observer import Reason

__all__ = ["counted", "hex64", "printable", "reason_name"]

_64_BITS: Final = 2**64 - 1


def counted(number: int, noun: str) -> str:
    """A number of things: "1 file", "2,000 files"; for nouns that take an s."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def hex64(number: int) -> str:
    """A 64-bit number as everybody shows it: 16 hexadecimal digits.

    The same bits have the same digits, whether they are taken as signed or not.
    """
    return f"{number & _64_BITS:016x}"


def printable(text: str) -> str:
    """Text without anything a terminal would obey or could not show."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def reason_name(number: int) -> str:
    """The lower-case name of a reason, ``reason-77`` for one this version knows not."""
    for reasons in (Reason, BusReason):
        with contextlib.suppress(ValueError):
            return reasons(number).name.lower()
    return f"reason-{number}"
