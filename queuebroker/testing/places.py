"""`Place`: a line of source as shown to the author of the program.

A frame is *own* (the explorer's), *library* (the standard library, ``queuebroker``), or
the user's. A story shows the user's line and the library function that it calls. Only
for a task without such a line it shows the library's line.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import os
import sysconfig
import threading
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

__all__ = [
    "AssignedName",
    "Place",
    "assigned_name",
    "is_own",
    "place_in",
    "place_of",
    "place_of_code",
    "sleep_text",
]

_SOURCE_MAX: Final = 64  # characters

_OWN: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PACKAGE: Final = os.path.dirname(os.path.dirname(_OWN)) + os.sep
_STDLIB: Final = sysconfig.get_paths()["stdlib"] + os.sep
_INSTALLED: Final = sysconfig.get_paths()["purelib"] + os.sep
_THREADING: Final = threading.__file__

_ASLEEP: Final = "sleeps until it is woken"
_LOCK: Final = "'s lock"
# The objects of `threading` that have a lock inside, by the function that makes it.
_KINDS: Final = {
    "Semaphore.__init__": "semaphore",
    "BoundedSemaphore.__init__": "semaphore",
    "Event.__init__": "event",
    "Barrier.__init__": "barrier",
}
# By the function that sleeps: its object, the attribute with the lock of that, and the
# end of the sleep.
_SLEEPS: Final = {
    "Semaphore.acquire": ("semaphore", "_cond", "{} is released"),
    "Event.wait": ("event", "_cond", "{} is set"),
    "Barrier.wait": ("barrier", "_cond", "{} is full"),
    "Queue.get": ("queue", "mutex", "{} has an item"),
    "Queue.put": ("queue", "mutex", "{} has room"),
    "Queue.join": ("queue", "mutex", "all items of {} are done"),
}


@attrs.frozen
class AssignedName:
    """The name of a new lock.

    name: the target of the assignment, "" if the lines show none.
    kind: of the object of `threading` that has the lock inside, "" if it has none.
    row: the frame of the statement if the target gets several objects, else None.
    """

    name: str
    kind: str
    row: FrameType | None

    def label(self, name: str) -> str:
        """Return how a story calls the lock, with its name made unique."""
        return f"{name}{_LOCK}" if self.kind else name


@attrs.frozen
class Place:
    """A line of source, and the library function that it calls.

    call: the qualified name of that function, "" if there is none.
    """

    path: str
    line: int
    call: str = ""

    @property
    def source(self) -> str:
        """The text of the line, truncated if it is long, "" if it is not available."""
        text = linecache.getline(self.path, self.line).strip()
        return text if len(text) <= _SOURCE_MAX else f"{text[: _SOURCE_MAX - 3]}..."

    def __str__(self) -> str:
        if self.path.startswith(_PACKAGE):
            # The same for a source tree and for an installed package.
            path = f"queuebroker/{self.path.removeprefix(_PACKAGE)}"
        else:
            try:
                path = os.path.relpath(self.path)
            except ValueError:  # on Windows: on another drive
                path = os.pardir
            if path.startswith(os.pardir):
                path = os.path.basename(self.path)
        # A story is the same on every system.
        path = path.replace(os.sep, "/")
        return f"{path}:{self.line}"


def place_of(frame: FrameType | None) -> Place | None:
    """Return the place of a thread in ``frame``; None if it has only own frames."""
    library: FrameType | None = None
    for outer in _outwards(frame):
        if not _is_library(outer.f_code.co_filename):
            call = library.f_code.co_qualname if library else ""
            if call.endswith(("__enter__", "__exit__")):
                call = ""  # the line says ``with``
            return Place(outer.f_code.co_filename, outer.f_lineno, call)
        library = outer
    if library is None:
        return None
    code = library.f_code
    return Place(code.co_filename, library.f_lineno, code.co_qualname)


def place_in(frame: FrameType | None) -> Place | None:
    """Return the exact line of a thread, also of library code; skip own frames."""
    for outer in _outwards(frame):
        return Place(outer.f_code.co_filename, outer.f_lineno)
    return None


def place_of_code(code: CodeType) -> Place:
    """Return the place where a function is defined."""
    return Place(code.co_filename, code.co_firstlineno)


def assigned_name(frame: FrameType | None) -> AssignedName:
    """Return the name to which a new lock is assigned, as far as the lines show it.

    The name in the library's line follows the name in the user's: ``q.mutex``.
    """
    names: list[str] = []
    kind, row = "", None
    for outer in _outwards(frame):
        code = outer.f_code
        if code.co_filename == _THREADING:
            kind = _KINDS.get(code.co_qualname, kind)
            continue
        library = _is_library(code.co_filename)
        found, is_item = _target(outer)
        if found and not (library and names):
            names.insert(0, found)
        if not library:
            row = _statement_frame(outer) if is_item else None
            break
    return AssignedName(".".join(names), kind, row)


def sleep_text(frame: FrameType | None) -> str:
    """Return in words how a task sleeps in ``frame``."""
    for outer in _outwards(frame):
        code = outer.f_code
        if not _is_library(code.co_filename):
            break
        if code.co_qualname in _SLEEPS:
            kind, attribute, text = _SLEEPS[code.co_qualname]
            lock = getattr(outer.f_locals.get("self"), attribute, None)
            label = getattr(getattr(lock, "_lock", lock), "label", "")
            name = label.removesuffix(_LOCK).removesuffix(f".{attribute}")
            is_named = name not in {"", attribute, f"a {kind}"}
            it = f"{kind} {name}" if is_named else f"a {kind}"
            return f"sleeps until {text.format(it)}"
    return _ASLEEP


def is_own(path: str) -> bool:
    """Return True if a file belongs to the explorer."""
    return path.startswith(_OWN)


def _target(frame: FrameType) -> tuple[str, bool]:
    """Return the target of the value that a frame is about to get, "" if none.

    The second item is True if the value is one of several in that target.
    """
    path, at = frame.f_code.co_filename, _position(frame)
    found, is_item = "", False
    for node in ast.walk(_parsed(path)):  # outer statements first
        match node:
            case ast.Assign([target], value) | ast.AnnAssign(target, _, value):
                if value is not None and _holds(value, at):
                    found, is_item = _within(target, value, at)
            case ast.Expr(ast.Call(ast.Attribute(target, "append"), [value])):
                if _holds(value, at):
                    found, is_item = _text(target), True
    return found, is_item


def _within(target: ast.expr, value: ast.expr, at: tuple[int, int]) -> tuple[str, bool]:
    """Return the target of the part of a value that a position is in; see `_target`."""
    match target, value:
        case ast.Tuple(targets), ast.Tuple(values):
            for one, part in zip(targets, values, strict=False):
                if _holds(part, at):
                    return _within(one, part, at)
            return "", False
        case ast.Tuple(), _:
            return "", False
        case _, ast.ListComp() | ast.List():
            return _text(target), True
        case _:
            return _text(target), False


def _text(target: ast.expr) -> str:
    return ast.unparse(target).removeprefix("self.").removeprefix("cls.")


@functools.lru_cache(maxsize=64)
def _parsed(path: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):  # it has changed since, or is no file
        return ast.Module([], [])


def _holds(node: ast.expr, at: tuple[int, int]) -> bool:
    begin = (node.lineno, node.col_offset)
    return begin <= at < (node.end_lineno or 0, node.end_col_offset or 0)


def _position(frame: FrameType) -> tuple[int, int]:
    """Return line and column of the expression that a frame is about to evaluate."""
    at = frame.f_lasti // 2  # two bytes per instruction
    found = next(itertools.islice(frame.f_code.co_positions(), at, None), None)
    if found is None or found[0] is None or found[2] is None:
        return -1, -1
    return found[0], found[2]


def _statement_frame(frame: FrameType) -> FrameType:
    """Return the frame of a statement; before 3.12 a comprehension has its own."""
    while frame.f_code.co_name == "<listcomp>" and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a thread, innermost first, own frames excluded."""
    while frame is not None:
        if not is_own(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _is_library(path: str) -> bool:
    if path.startswith((_INSTALLED, _PACKAGE)):
        return path.startswith(_PACKAGE)
    return path.startswith((_STDLIB, "<frozen"))
