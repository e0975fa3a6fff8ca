"""The texts for the content of a record: numbers, names, reasons.

For the names of kinds see `bus.journal.format.kind_name`. The recorded program chooses
its names, so they are shown to people only through `printable`.
"""

from __future__ import annotations

import contextlib
from typing import Final

from bus.model.events import BusReason
from queuebroker.observer import Reason

__all__ = [
    "AT_PROCESS",
    "INSPECTOR",
    "ON_MACHINE",
    "PID",
    "PROCESS",
    "counted",
    "hex64",
    "printable",
    "reason_name",
]

# The inspector of a process is a task with this and the name of the process.
INSPECTOR: Final = "_bus/"

# How a process is shown, and a task whose name several processes use.
PROCESS: Final = "process %s"
PID: Final = "pid %s"
ON_MACHINE: Final = "%s/%s"
AT_PROCESS: Final = "%s (%s)"

_64_BITS: Final = 2**64 - 1


def counted(number: int, noun: str) -> str:
    """Return a number of things: "1 file", "2,000 files"; for nouns that take an s."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def hex64(number: int) -> str:
    """Return a 64-bit number in its usual form: 16 hexadecimal digits.

    The same bits have the same digits, as a signed number or not.
    """
    return f"{number & _64_BITS:016x}"


def printable(text: str) -> str:
    """Return a text with control and unprintable characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def reason_name(number: int) -> str:
    """Return the lower-case name of a reason, ``reason-77`` for an unknown one."""
    for reasons in (Reason, BusReason):
        with contextlib.suppress(ValueError):
            return reasons(number).name.lower()
    return f"reason-{number}"
