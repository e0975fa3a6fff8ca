"""The rivals, one file each, with their best documented settings.

Each file has ``NAME`` (the key in the results), ``VERSION``, and ``link`` or ``doors``
as `benchmarks.workloads` wants them. A rival that is not installed is left out, and
the one who runs the benchmark is told so.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["load"]

# What each file cannot do without: the library's module, then what to install.
_NEEDS = {"pyzmq": ("zmq", "pyzmq"), "pynng": ("pynng", "pynng")}


def load(files: Iterable[str]) -> tuple[list[Any], list[str]]:
    """Import these rivals; give their modules, and a sentence for each missing one.

    Raises:
        ModuleNotFoundError: if anything else than the rival's library is missing.
    """
    found: list[Any] = []
    missing: list[str] = []
    for file in files:
        library, distribution = _NEEDS.get(file, ("", ""))
        try:
            found.append(importlib.import_module(f"benchmarks.rivals.{file}"))
        except ModuleNotFoundError as error:
            if error.name != library:
                raise
            missing.append(f"{distribution} is not installed: left out")
    return found, missing
