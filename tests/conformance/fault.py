"""A fault planted in the text of the reference, and the scenarios that must fail.

A piece of text that does not occur exactly once is an error, never a catch.
"""

from __future__ import annotations

import inspect
import sys
import types
from typing import TYPE_CHECKING, Any

import attrs

from tests.conformance import reference, reference_ends

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Fault"]

# The imported module comes first.
_SOURCES = {
    module.__name__: inspect.getsource(module) for module in (reference_ends, reference)
}


@attrs.frozen
class Fault:
    """One fault.

    edits: pairs of text in the reference and its replacement.
    caught_by: names of scenarios, each of which must fail.
    """

    name: str
    edits: list[tuple[str, str]]
    caught_by: list[str]

    def factory(self) -> Callable[[], Any]:
        """Return the factory of the reference with the fault in it."""
        sources = _SOURCES
        for old, new in self.edits:
            count = sum(source.count(old) for source in sources.values())
            if count != 1:
                raise LookupError(f"{self.name}: {count} times {old!r}")
            sources = {
                name: source.replace(old, new) for name, source in sources.items()
            }
        for name, source in sources.items():
            module = types.ModuleType(self._copy_of(name))
            sys.modules[module.__name__] = module  # attrs looks up a class's module
            ends = reference_ends.__name__
            text = source.replace(f"from {ends} ", f"from {self._copy_of(ends)} ")
            exec(compile(text, f"<{self.name}>", "exec"), vars(module))
        factory: Callable[[], Any] = module.factory
        return factory

    def _copy_of(self, module: str) -> str:
        """Return the name of a module's copy with the fault in it."""
        return f"{module.rpartition('.')[2]}_with_{self.name}"
