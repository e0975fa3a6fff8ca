"""Mutants of what tells who asks of the frames of a process (OPEN-12)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["BUS_MONITOR"]

_TAP = "bus/core/tap.py"

BUS_MONITOR: tuple[Mutant, ...] = (
    Mutant(
        "P1",
        "frames are noted on after the last who listened has gone",
        ("OPEN-12",),
        (
            Edit(
                "bus/links/tapping.py",
                "        comm.tap = None if tap.idle else tap\n",
                "        comm.tap = comm.tap if tap.idle else tap\n",
            ),
        ),
    ),
    Mutant(
        "P2",
        "who listens hears of his own links",
        ("OPEN-12",),
        (
            Edit(
                _TAP,
                "        if any((each.machine, each.process) == other for each in listeners):\n",
                "        if any((each.machine, each.process) == other for each in ()):\n",
            ),
        ),
    ),
    Mutant(
        "P3",
        "frames that find no room are left out without a word",
        ("OPEN-12",),
        (Edit(_TAP, "                each.left_out += 1\n", "                pass\n"),),
    ),
    Mutant(
        "P4",
        "who is killed while he listens does so for ever",
        ("OPEN-12",),
        (
            Edit(
                _TAP,
                "            if listener.until > now\n",
                "            if listener.until\n",
            ),
        ),
    ),
)
