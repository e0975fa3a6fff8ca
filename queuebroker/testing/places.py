"""`Place`: a line of source as shown to the author of the program.

A frame is *own* (the explorer's), *library* (the standard library, ``queuebroker``), or
the user's. A story shows the user's line and the library function that it calls. Only
for a task without such a line it shows the library's line.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import os
import re
import sysconfig
import threading
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

__all__ = ["Place", "assigned_name", "is_own", "place_in", "place_of", "place_of_code"]

_SOURCE_MAX: Final = 64  # characters

_OWN: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PACKAGE: Final = os.path.dirname(os.path.dirname(_OWN)) + os.sep
_STDLIB: Final = sysconfig.get_paths()["stdlib"] + os.sep
_INSTALLED: Final = sysconfig.get_paths()["purelib"] + os.sep
_THREADING: Final = threading.__file__

# The target of an assignment: ``self.lock: Lock = ...`` gives ``lock``.
_TARGET: Final = re.compile(r"\s*(?:self\.|cls\.)?([\w.\[\]]+)\s*(?::[^=]+)?=[^=]")


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
        path = os.path.relpath(self.path)
        if self.path.startswith(_PACKAGE):
            # The same for a source tree and for an installed package.
            path = f"queuebroker/{self.path.removeprefix(_PACKAGE)}"
        elif path.startswith(os.pardir):
            path = os.path.basename(self.path)
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


def assigned_name(frame: FrameType | None) -> str:
    """Return the name to which a new object is assigned, as far as the lines show it.

    The name in the library's line follows the name in the user's: ``q.mutex``.
    """
    names: list[str] = []
    for outer in _outwards(frame):
        path = outer.f_code.co_filename
        if path == _THREADING:
            continue
        library = _is_library(path)
        found = _target(outer)
        if found and not (library and names):
            names.insert(0, found)
        if not library:
            break
    return ".".join(names)


def is_own(path: str) -> bool:
    """Return True if a file belongs to the explorer."""
    return path.startswith(_OWN)


def _target(frame: FrameType) -> str:
    """Return the target of the value that a frame is about to get, "" if none."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    if found := _TARGET.match(line):
        return found[1]
    if "," not in line.partition("=")[0]:
        return ""
    try:
        (statement,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):  # the line is only a part of a statement
        return ""
    match statement:
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
            column = _column(frame) - (len(line) - len(line.lstrip()))
            for target, value in zip(targets, values, strict=False):
                if value.col_offset <= column < (value.end_col_offset or 0):
                    return ast.unparse(target).removeprefix("self.")
    return ""


def _column(frame: FrameType) -> int:
    """Return the column of the expression that a frame is about to evaluate."""
    at = frame.f_lasti // 2  # two bytes per instruction
    position = next(itertools.islice(frame.f_code.co_positions(), at, None), None)
    return -1 if position is None or position[2] is None else position[2]


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
