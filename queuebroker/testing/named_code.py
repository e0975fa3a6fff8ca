"""`NamedCode`: the code that a test names to get switch points inside of lines."""

from __future__ import annotations

from functools import cached_property, partial, partialmethod
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from queuebroker.testing.instructions import looks_of, nested, points_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from queuebroker.testing.instructions import Instruction

__all__ = ["NamedCode"]


class NamedCode:
    """All code objects of some functions, classes and modules.

    names: the names of the named objects, as written in source.
    codes: the code objects. The keys are their identities, because the hash of a code
      object is computed anew from its whole contents every time.
    points: for each, the instructions that are switch points, by their offsets.
    looks: for each, the instructions after which the interpreter checks for interrupts.
    """

    def __init__(self, named: Iterable[object]) -> None:
        """Find the code.

        Raises:
            TypeError: an object is of another kind, or has no code in Python.
        """
        self.names: list[str] = []
        codes: list[CodeType] = []
        for each in named:
            found = list(_codes_of(each))
            if not found:
                msg = (
                    "bytecode takes functions, classes and modules with code in"
                    f" Python, got {each!r}"
                )
                raise TypeError(msg)
            codes += found
            self.names.append(_name_of(each))
        self.codes: dict[int, CodeType] = {id(code): code for code in nested(codes)}
        self.points: dict[int, dict[int, Instruction]] = {
            key: points_of(code) for key, code in self.codes.items()
        }
        self.looks: dict[int, dict[int, int]] = {
            key: looks_of(code) for key, code in self.codes.items()
        }


def _codes_of(named: object) -> Iterator[CodeType]:
    """Yield the code of a function, of all methods of a class, or of a whole module."""
    if isinstance(named, ModuleType):
        for value in list(vars(named).values()):
            if getattr(value, "__module__", None) == named.__name__:
                yield from _codes_of(value)
    elif isinstance(named, type):
        within = f"{named.__qualname__}."
        for value in list(vars(named).values()):
            if not isinstance(value, type):
                yield from _codes_of_function(value)
            elif value.__qualname__.startswith(within):
                yield from _codes_of(value)
    else:
        yield from _codes_of_function(named)


def _codes_of_function(named: object) -> Iterator[CodeType]:
    if isinstance(named, FunctionType):
        yield named.__code__
    for inner in _within(named):
        if inner is not None:
            yield from _codes_of_function(inner)


def _within(named: Any) -> Iterator[object]:
    """Yield the functions inside a wrapper, which may be named in their place."""
    if isinstance(named, property):
        yield from (named.fget, named.fset, named.fdel)
    elif isinstance(named, (staticmethod, classmethod, MethodType)):
        yield named.__func__
    elif isinstance(named, (partial, partialmethod, cached_property)):
        yield named.func
    else:
        yield getattr(named, "__dict__", {}).get("__wrapped__")


def _name_of(named: object) -> str:
    if isinstance(named, ModuleType):
        return named.__name__
    return str(getattr(named, "__qualname__", named)).rpartition("<locals>.")[2]
