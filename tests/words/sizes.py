"""How long files, classes and functions are, and how much a constructor takes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["Largest", "largest_of"]


@attrs.frozen(order=True)
class Largest:
    """The largest thing of one kind: its size, in lines or parameters, and its name."""

    size: int
    name: str


def largest_of(paths: Iterable[Path]) -> dict[str, Largest]:
    """Return the longest file, class and function, and the widest constructor."""
    largest: dict[str, Largest] = {}

    def note(kind: str, size: int, name: str) -> None:
        largest[kind] = max(largest.get(kind, Largest(0, "")), Largest(size, name))

    for path in paths:
        text = path.read_text(encoding="utf-8")
        note("file", text.count("\n"), path.name)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                note("class", _lines(node), f"{path.stem}.{node.name}")
                for each in node.body:
                    if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                        count = len(each.args.args) - 1 + len(each.args.kwonlyargs)
                        note("constructor", count, f"{path.stem}.{node.name}")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                note("function", _lines(node), f"{path.stem}.{node.name}")
    return largest


def _lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
