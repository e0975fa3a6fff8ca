"""Put the code of a mutant into the functions of the running library."""

from __future__ import annotations

import gc
import importlib
import inspect
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from tests.mutants.library import LIBRARY, module_of, source

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping

__all__ = ["Functions", "NotSwappableError"]

_KIND = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class NotSwappableError(Exception):
    """A mutant changes more than the code of functions that exist."""


class Functions:
    """All functions of the library in this process, by their code."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], list[FunctionType]] = {}
        self._look()

    def swap(self, trees: Mapping[str, ast.Module]) -> None:
        """Give the functions that these modules change their new code.

        Raises:
            NotSwappableError: a mutant changes something else as well; nothing is
              changed then.
        """
        for file in trees:
            try:
                importlib.import_module(module_of(file))
            except ImportError as error:
                raise NotSwappableError(str(error)) from None
        self._look()  # modules that were imported since
        pairs = [
            (function, new)
            for file, tree in trees.items()
            for old, new in _changes(file, tree)
            for function in self._of(old, new)
        ]
        for function, new in pairs:
            function.__code__ = new

    def _look(self) -> None:
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__module__:
                self._known.setdefault(_place(each.__code__), []).append(each)

    def _of(self, old: CodeType, new: CodeType) -> list[FunctionType]:
        found = self._known.get(_place(old))
        if not found:
            raise NotSwappableError(f"no function has the code of {old.co_qualname}")
        if old.co_freevars != new.co_freevars or (old.co_flags ^ new.co_flags) & _KIND:
            raise NotSwappableError(f"{old.co_qualname} becomes another kind")
        return found


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _changes(file: str, tree: ast.Module) -> Iterator[tuple[CodeType, CodeType]]:
    path = str(LIBRARY / file)
    old = compile(source(file), path, "exec", dont_inherit=True)
    new = compile(tree, path, "exec", dont_inherit=True)
    return _differences(old, new)


def _differences(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the outermost functions that differ.

    Raises:
        NotSwappableError: the code around them differs, which has run already.
    """
    if old == new:
        return
    if old.co_flags & inspect.CO_OPTIMIZED:
        yield old, new
        return
    if _around(old) != _around(new):
        raise NotSwappableError(f"{old.co_qualname} has run already")
    for mine, other in zip(old.co_consts, new.co_consts, strict=True):
        if isinstance(mine, CodeType):
            yield from _differences(mine, other)


def _around(code: CodeType) -> CodeType:
    """Return the code of a module or a class without that of its functions."""
    consts = [
        each.co_name if isinstance(each, CodeType) else each for each in code.co_consts
    ]
    return code.replace(co_consts=tuple(consts))
