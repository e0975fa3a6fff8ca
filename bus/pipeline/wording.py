"""The texts for numbers, times and foreign names in the report.

The recorded program chooses its names, so each is shown as one line of moderate length.
(The writer of the page must escape it as markup.)
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from bus.journal.wording import printable

__all__ = ["count", "duration", "moment", "remaining", "short", "size"]

NAME_CHARACTERS_MAX: Final = 28

_TIMES: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))
_SIZES: Final = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_COUNTS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(number: float) -> str:
    """Return a number in three digits: 950, 1.5 k, 12 M."""
    return _scaled(number, _COUNTS) or f"{number:.3g}"


def size(number: float) -> str:
    """Return a number of bytes in three digits."""
    return _scaled(number, _SIZES) or f"{number:.0f} B"


def duration(ns: float) -> str:
    """Return a length of time in three digits: 12 ns, 3.5 µs, 1 s."""
    return _scaled(ns, _TIMES) or f"{ns:.3g} ns"


def moment(wall_us: int) -> str:
    """Return a wall clock in UTC, to the millisecond."""
    seconds, rest_us = divmod(wall_us, 10**6)
    at = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{rest_us // 1000:03d} UTC"


def remaining(done: int, total: int, seconds: float) -> str:
    """Return the progress of a task that has done a part of its work in some seconds.

    total: an upper estimate.
    """
    share = f"{done:,} of at most {total:,} records"
    if not done:
        return share
    return f"{share}, {max(0.0, seconds * (total / done - 1)):.0f} s left"


def short(name: str, most: int = NAME_CHARACTERS_MAX) -> str:
    """Return a name as one line of at most ``most`` characters."""
    seen = printable(name)
    if len(seen) <= most:
        return seen
    half = (most - 1) // 2
    return f"{seen[:half]}…{seen[-half:]}"


def _scaled(number: float, units: tuple[tuple[float, str], ...]) -> str:
    for factor, unit in units:
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return ""
