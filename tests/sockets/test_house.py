"""QB-SOCK-7: no peer can make this package run code."""

from __future__ import annotations

import ast
from pathlib import Path

import queuebroker.sockets
from specs.clauses import clause

FORBIDDEN = {"multiprocessing", "pickle", "marshal", "shelve"}


def imported(tree: ast.AST) -> set[str]:
    """Return the top-level modules that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@clause("QB-SOCK-7")
def test_neither_multiprocessing_nor_pickle_is_used() -> None:
    """Neither in its modules, nor in the public module of sockets."""
    folder = Path(queuebroker.sockets.__file__).parent
    net = folder.parent / "_net"
    modules = [*folder.glob("*.py"), *net.glob("*.py")]
    assert len(modules) > 10
    for module in modules:
        assert imported(ast.parse(module.read_text())) & FORBIDDEN == set()
