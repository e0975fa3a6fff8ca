"""A fault planted in the text of the reference, and who must notice.

A piece of text that does not stand there exactly once is an error, never a catch.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from tests.conformance import reference

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Fault"]

_SOURCE = Path(reference.__file__).read_text(encoding="utf-8")


@attrs.frozen
class Fault:
    """One fault.

    edits: pairs of text in the reference and what stands there instead.
    caught_by: names of scenarios, each of which must fail.
    """

    name: str
    edits: list[tuple[str, str]]
    caught_by: list[str]

    def factory(self) -> Callable[[], Any]:
        """The factory of the reference with the fault in it."""
        source = _SOURCE
        for old, new in self.edits:
            if source.count(old) != 1:
                raise LookupError(f"{self.name}: {source.count(old)} times {old!r}")
            source = source.replace(old, new)
        module = types.ModuleType(f"reference_with_{self.name}")
        sys.modules[module.__name__] = module  # attrs looks its classes' module up
        exec(compile(source, f"<{self.name}>", "exec"), vars(module))
        factory: Callable[[], Any] = module.factory
        return factory
