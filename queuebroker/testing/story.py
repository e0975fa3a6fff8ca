"""`tell`: the story of a failed run.

It has one line per step: number, task, action, place. The steps of one task on one line
of source are merged. A long sequence of steps of one task is shortened in the middle.
"""

from __future__ import annotations

import itertools
import re
import threading
import traceback
from typing import TYPE_CHECKING, Final

import attrs

from queuebroker.testing.places import Place, is_own
from queuebroker.testing.recorder import RUNS, Remark, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queuebroker.testing.failure import Trouble
    from queuebroker.testing.recorder import Recorder

__all__ = ["tell"]

_PHRASES_MAX: Final = 4  # of one task on one line of source
_LINES_MAX: Final = 8  # of one task without a break
_TEXT_WIDTH_MAX: Final = 72


def tell(trouble: Trouble, recorder: Recorder, how_to_repeat: Sequence[str]) -> str:
    """Return the whole story as text."""
    events = _merged(recorder.events)
    steps = [event for event in (*events, *recorder.endings) if isinstance(event, Step)]
    name_width = max((len(step.task) for step in steps), default=0)
    text_width = min(
        max((len(step.text) for step in steps), default=0), _TEXT_WIDTH_MAX
    )
    widths = (name_width, text_width)
    lines = [f"{trouble.kind}: {trouble.text}", "", *_numbered(events, widths), ""]
    if recorder.endings:
        lines.append(f"how it ended, at {recorder.ended_at_s:g} s of virtual time:")
        lines += [_line("", step, widths) for step in recorder.endings]
        lines.append("")
    if trouble.error is not None:
        lines += [*_raised(trouble.error), ""]
    return "\n".join((*lines, *how_to_repeat))


def _merged(events: Iterable[Step | Remark]) -> list[Step | Remark]:
    """Merge the steps of a task on one line of source into one."""
    merged: list[Step | Remark] = []
    for event in events:
        before = merged[-1] if merged else None
        if (
            isinstance(event, Step)
            and isinstance(before, Step)
            and (event.task, event.place) == (before.task, before.place)
        ):
            told = f"{before.text}, " if before.text != RUNS else ""
            merged[-1] = attrs.evolve(before, text=f"{told}{event.text}")
        else:
            merged.append(event)
    return [_brief(event) for event in merged]


# Not the comma in the name of a task, "connect('b', 1)".
_BETWEEN_PHRASES: Final = re.compile(r", (?![^()]*\))")


def _brief(event: Step | Remark) -> Step | Remark:
    phrases = _BETWEEN_PHRASES.split(event.text)
    if isinstance(event, Remark) or len(phrases) <= _PHRASES_MAX:
        return event
    phrases[_PHRASES_MAX // 2 : -1] = ["..."]
    return attrs.evolve(event, text=", ".join(phrases))


def _numbered(events: Sequence[Step | Remark], widths: tuple[int, int]) -> list[str]:
    digits = len(str(sum(isinstance(event, Step) for event in events)))
    numbers = itertools.count(1)
    lines = []
    for task, group in itertools.groupby(events, key=_whose):
        shown = [
            _line(f"{next(numbers):{digits}}", event, widths)
            if isinstance(event, Step)
            else f"{'':{digits}}  -- {event.text} --"
            for event in group
        ]
        if task is not None and len(shown) > _LINES_MAX:
            left_out = len(shown) - _LINES_MAX + 1
            middle = f"{'':{digits}}  {task:{widths[0]}}  ... {left_out} more lines"
            shown[_LINES_MAX // 2 : -(_LINES_MAX // 2 - 1)] = [middle]
        lines += shown
    return lines


def _whose(event: Step | Remark) -> str | None:
    return event.task if isinstance(event, Step) else None


def _line(number: str, step: Step, widths: tuple[int, int]) -> str:
    name_width, text_width = widths
    line = f"{number}  {step.task:{name_width}}  {step.text}"
    place = step.place
    if place is None:
        return line
    line = f"{line:{len(number) + 4 + name_width + text_width}}  {place}"
    if place.source:
        line += f"  {place.source}"
    return f"{line}  [{place.call}]" if place.call else line


def _raised(error: BaseException) -> list[str]:
    """Return the exception, with the lines it passed through."""
    lines = ["raised at:"]
    for frame in traceback.extract_tb(error.__traceback__):
        # Every thread begins in `Thread.run`: omit that line.
        begins = frame.filename == threading.__file__ and frame.name == "run"
        if not is_own(frame.filename) and not begins:
            place = Place(frame.filename, frame.lineno or 0)
            lines.append(f"  {place} in {frame.name}  {place.source}")
    return lines + "".join(traceback.format_exception_only(error)).splitlines()
