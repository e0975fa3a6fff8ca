"""Reads which module imports which, and imports none of them: a `Tree` of modules.

Imports under ``if TYPE_CHECKING`` count for the order and for circles: a reader follows
them as well. Imports inside functions count: an order that holds
only because one of its edges is drawn late is no order.
"""

from __future__ import annotations

import ast
import functools
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

from tests.kit.collector import uncollected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["Import", "Module", "Tree"]

# The fields of a statement that hold statements.
_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")


@attrs.frozen
class Import:
    """One module that is imported.

    target: the module; name: the name that is taken from it, if any.
    alias: its name here, if not its own.
    """

    target: str
    name: str | None
    alias: str | None
    line: int

    @property
    def known_as(self) -> str | None:
        """The name by which the importing module has a name that it imports."""
        return self.alias or self.name

    def hits(self, module: str) -> bool:
        """Whether it imports ``module``, a part of it, or a name from it."""
        taken = f"{self.target}.{self.name}" if self.name else self.target
        return any(
            path == module or path.startswith(f"{module}.")
            for path in (self.target, taken)
        )


@attrs.frozen
class Module:
    """One parsed module.

    name: dotted, such as "bus.journal.writer".
    is_package: whether it is the ``__init__.py`` of a package.
    text: its source.
    body: its syntax tree.
    """

    name: str
    is_package: bool
    text: str
    body: ast.Module

    @property
    def package(self) -> str:
        """What its relative imports start from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def path(self) -> str:
        """Its file, without the suffix."""
        return self.name.replace(".", "/") + ("/__init__" if self.is_package else "")

    def at(self, line: int) -> str:
        """Name a place in it, as a person would look it up."""
        return f"{self.path}.py:{line}"

    def imports(self, *, typing: bool = False) -> tuple[Import, ...]:
        """Give every import that can happen at run time, with absolute names.

        typing: also those for type checkers only.
        """
        return _imports(self, typing)

    def absolute(self, node: ast.ImportFrom) -> str:
        """Return the module that a node imports or imports from."""
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])


@functools.cache
def _imports(module: Module, typing: bool) -> tuple[Import, ...]:
    found = list[Import]()
    for node in _statements(module.body, typing=typing):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.append(Import(alias.name, None, alias.asname, node.lineno))
        elif isinstance(node, ast.ImportFrom):
            target = module.absolute(node)
            for alias in node.names:
                found.append(Import(target, alias.name, alias.asname, node.lineno))
    return tuple(found)


@attrs.frozen
class Tree:
    """Every module of one or more packages, by name."""

    modules: Mapping[str, Module]

    @classmethod
    @uncollected()
    def read(cls, *packages: Path) -> Tree:
        """Parse all files of these packages; each path is a package's folder."""
        modules = {}
        for package in packages:
            for path in sorted(package.rglob("*.py")):
                name = _dotted(package, path)
                text = path.read_text(encoding="utf-8")
                is_package = path.stem == "__init__"
                modules[name] = Module(name, is_package, text, ast.parse(text))
        return cls(modules)

    def below(self, *prefixes: str) -> list[Module]:
        """List the modules that are, or lie in, one of these."""
        return [
            module
            for module in self.modules.values()
            if any(
                module.name == prefix or module.name.startswith(f"{prefix}.")
                for prefix in prefixes
            )
        ]

    def target_of(self, one: Import) -> str:
        """Name the module an import reaches: ``from a import b`` may be ``a.b``."""
        inner = f"{one.target}.{one.name}"
        return inner if inner in self.modules else one.target

    def way_to(self, one: Import) -> list[str]:
        """Name the module that an import reaches, and those it has the name from.

        The last one defines the name; the others re-export it.
        """
        way: list[str] = []
        step: Import | None = one
        while step and (target := self.target_of(step)) not in way:
            way.append(target)
            step = self._source_of(step)
        return way

    def reached_from(self, starts: Iterable[str]) -> dict[str, str]:
        """Return all modules loaded by importing these, each with its importer.

        Importing ``a.b.c`` runs ``a`` and ``a.b`` too, so they are among them.
        """
        importers: dict[str, str] = {}
        todo = [(name, "") for name in starts]
        while todo:
            name, by = todo.pop()
            if name in importers or name not in self.modules:
                continue
            importers[name] = by
            todo += [
                (self.target_of(one), name) for one in self.modules[name].imports()
            ]
            if parent := name.rpartition(".")[0]:
                todo.append((parent, name))
        return importers

    def circles(self) -> list[list[str]]:
        """Return the sets of modules that import one another, the largest first.

        Imports for type checkers count. Packages do not: they are the door to modules.
        """
        edges = {
            name: {self.target_of(one) for one in module.imports(typing=True)}
            for name, module in self.modules.items()
            if not module.is_package
        }
        reached = {name: _reached(edges, name) for name in edges}
        found: list[list[str]] = []
        for name, others in reached.items():
            circle = sorted(each for each in others if name in reached[each])
            if name in others and circle not in found:
                found.append(circle)
        return sorted(found, key=lambda circle: (-len(circle), circle))

    def _source_of(self, one: Import) -> Import | None:
        """Return the import by which the module of a name has it, if it imports it."""
        if one.name is None or self.target_of(one) != one.target:
            return None
        door = self.modules.get(one.target)
        imports = door.imports(typing=True) if door else ()
        return next((each for each in imports if one.name == each.known_as), None)


def _reached(edges: Mapping[str, set[str]], start: str) -> set[str]:
    """Return the modules to which imports lead from one of them."""
    reached, todo = set[str](), [start]
    while todo:
        for name in edges[todo.pop()] & edges.keys():
            if name not in reached:
                reached.add(name)
                todo.append(name)
    return reached


def _dotted(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _statements(module: ast.Module, *, typing: bool) -> Iterator[ast.AST]:
    """Walk the statements, the outer ones first: an expression imports nothing.

    typing: also those under ``if TYPE_CHECKING``.
    """
    todo: deque[ast.AST] = deque([module])
    while todo:
        node = todo.popleft()
        yield node
        hidden = (
            not typing and isinstance(node, ast.If) and _is_type_checking(node.test)
        )
        for field in _BLOCKS[1:] if hidden else _BLOCKS:
            todo += getattr(node, field, ())


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )
