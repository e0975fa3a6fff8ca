"""`Selection`: the options that select a part of a recording, such as ``--since``.

A time is written in one of three ways: as a date and time, as a duration after the
first record, or as one before the last.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.journal.messages import KINDS
from bus.journal.reader import open_journals
from bus.model.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.journal.reader import StoredJournal

__all__ = [
    "Selection",
    "Time",
    "checked_patterns",
    "parsed_time",
    "selection_options",
]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_UNITS_NS: Final = {
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
}
_DURATION: Final = re.compile(r"(\+?)([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")


@attrs.frozen
class Time:
    """A point in time, as the user wrote it.

    base: "begin" or "end" of the recording, or "" for the epoch.
    ns: after that base, in nanoseconds.
    """

    base: str
    ns: int


@attrs.frozen
class Selection:
    """The selected part of a recording.

    since, until: its first time, and the first one after it; None for no limit.
    names: patterns of task names; none for all.
    kinds: of messages.
    """

    since: Time | None = None
    until: Time | None = None
    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = KINDS

    def range_ns(
        self, journals: Iterable[StoredJournal]
    ) -> tuple[int | None, int | None]:
        """Return both limits in nanoseconds of the wall clock.

        journals: the recording. They are read only if a limit refers to their first or
          last record.
        """
        bases = {"": 0}
        limits = self.since, self.until
        if any(each is not None and each.base for each in limits):
            bases |= _ends(journals)
        since, until = (
            None if each is None else bases[each.base] + each.ns for each in limits
        )
        return since, until

    def filters(self, directory: str) -> dict[str, Any]:
        """Return the arguments that let `read_messages` yield the selected part."""
        since_ns, until_ns = self.range_ns(open_journals(directory))
        return {
            "names": self.names,
            "since_ns": since_ns,
            "until_ns": until_ns,
            "kinds": self.kinds,
        }


def selection_options(
    *, kinds: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options to a verb.

    The verb receives them as a `Selection`, ``selection``.

    kinds: True for a verb about messages, which gets ``--kind``, too.
    """
    options = [
        click.option(
            "--since",
            metavar="TIME",
            callback=parsed_time,
            help="Begin at TIME: a date and time in UTC; 5m is 5 minutes before the"
            " last record, +90s is 90 seconds after the first.",
        ),
        click.option(
            "--until",
            metavar="TIME",
            callback=parsed_time,
            help="End before TIME, in the same form.",
        ),
        click.option(
            "--only",
            metavar="PATTERN",
            multiple=True,
            callback=checked_patterns,
            help="Select tasks by name; * matches one segment of a name, ** any number"
            " of them. May be repeated.",
        ),
    ]
    if kinds:
        option = click.option(
            "--kind",
            "message_kinds",
            multiple=True,
            type=click.Choice(KINDS),
            help="Select messages of this kind; may be repeated.",
        )
        options.append(option)

    def decorated(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def run(
            *args: Any,
            since: Time | None,
            until: Time | None,
            only: tuple[str, ...],
            message_kinds: tuple[str, ...] = (),
            **kwargs: Any,
        ) -> None:
            kinds = message_kinds or KINDS
            selection = Selection(since, until, only, kinds)
            verb(*args, selection=selection, **kwargs)

        decorated_run: Callable[..., None] = run
        for option in reversed(options):
            decorated_run = option(decorated_run)
        return decorated_run

    return decorated


def parsed_time(_: object, __: object, text: str | None) -> Time | None:
    """Return the time in an option; click calls this. A wrong one is a usage error."""
    if text is None:
        return None
    if duration := _DURATION.fullmatch(text):
        sign, number, unit = duration.groups()
        ns = round(float(number) * _UNITS_NS[unit])
        return Time("begin", ns) if sign else Time("end", -ns)
    try:
        at = dt.datetime.fromisoformat(text)
        # Without a zone it is in UTC, as the times that `bus journal cat` shows.
        at = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
        return Time("", (at - _EPOCH) // _MICROSECOND * 1000)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is no time: give a date and time in UTC such as"
            " 2026-07-30T14:03:05.25, a duration before the last record such as 5m,"
            " or one after the first record such as +90s; the units are"
            f" {', '.join(_UNITS_NS)}"
        ) from None


def checked_patterns(_: object, __: object, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns in an option or argument; click calls this."""
    for text in texts:
        try:
            Specification.parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return texts


def _ends(journals: Iterable[StoredJournal]) -> dict[str, int]:
    """Return the wall clock at the first and the last record of some journals."""
    begin: list[int] = []
    end: list[int] = []
    for journal in journals:
        times = [
            (next(segment.records()).mono, segment.last_mono)
            for segment in journal.segments()
            if segment.count
        ]
        if times:
            begin.append(journal.wall_ns(times[0][0]))
            end.append(journal.wall_ns(max(last for _, last in times)))
    return {"begin": min(begin, default=0), "end": max(end, default=0)}
