"""`footprint`: the memory of some objects and of all that they refer to."""

from __future__ import annotations

import gc
import sys
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    ModuleType,
)

__all__ = ["footprint"]

# Shared by all processes of a simulation, or a way out of the process.
_OUTSIDE = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType, CellType)


def footprint(*roots: object) -> int:
    """Return the bytes of all objects that can be reached from these.

    Classes, functions and the objects of the tests themselves are left out: a simulated
    task or link stands for one that a real process keeps elsewhere. The figure has no
    part for the unused room of the allocator, so the system counts a little more.
    """
    seen: set[int] = set()
    todo: list[object] = list(roots)
    size = 0
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, _OUTSIDE):
            continue
        seen.add(id(each))
        if type(each).__module__.startswith("tests."):
            continue
        size += sys.getsizeof(each)
        todo += gc.get_referents(each)
    return size
