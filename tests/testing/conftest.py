"""Fixtures shared by the tests of the explorer."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

_numbers = itertools.count()


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Import a module with the given text, as a user's in another folder."""
    loaded: list[str] = []

    def load(text: str) -> ModuleType:
        name = f"users_{next(_numbers)}"
        path = tmp_path / f"{name}.py"
        path.write_text(inspect.cleandoc(text) + "\n", encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loaded.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        del sys.modules[name]
