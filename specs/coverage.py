"""The map from clauses to tests, read from the source of the tests.

The decorators are read from the AST and nothing is imported: the map needs no test
run, and includes tests that cannot be imported on this machine. For that reason the
arguments must be string literals. This module does not depend on pytest.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from specs.clauses import is_clause_id, natural_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from specs.clauses import Clause

__all__ = ["ROOTS", "Coverage", "Tie", "Trouble", "read_ties", "weigh"]

# Folders with tests, below the folder of the project. A clause that a benchmark checks
# is tied to it in the last one.
ROOTS = ("tests", "specs/conformance", "benchmarks")

_MODULE = "specs.clauses"
_DECORATOR = "clause"


@attrs.frozen(order=True)
class Tie:
    """A test that names a clause; `test` is "file::name" as pytest writes it."""

    clause: str
    test: str
    line: int


@attrs.frozen(order=True)
class Trouble:
    """A place in the source that cannot be read as a tie, with the reason."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@attrs.frozen
class Coverage:
    """The clauses that the tests cover.

    tests: for every clause in force its ties, in natural order, empty for a hole.
    withdrawn: the withdrawn clauses.
    orphans: ties to a clause that is unknown or withdrawn.
    troubles: decorators and files that could not be read.
    """

    tests: Mapping[str, tuple[Tie, ...]]
    withdrawn: tuple[str, ...]
    orphans: tuple[Tie, ...]
    troubles: tuple[Trouble, ...]

    @property
    def holes(self) -> tuple[str, ...]:
        """The clauses in force that no test names."""
        return tuple(name for name, ties in self.tests.items() if not ties)

    @property
    def sound(self) -> bool:
        """True if there is no hole, no orphan and no trouble."""
        return not (self.holes or self.orphans or self.troubles)


def weigh(clauses: Mapping[str, Clause], project: Path) -> Coverage:
    """Compare the ties found below ``project`` with ``clauses``."""
    ties, troubles = read_ties(project)
    in_force = [name for name, each in clauses.items() if not each.withdrawn]
    return Coverage(
        tests={
            name: tuple(sorted(tie for tie in ties if tie.clause == name))
            for name in sorted(in_force, key=natural_key)
        },
        withdrawn=tuple(name for name, each in clauses.items() if each.withdrawn),
        orphans=tuple(sorted(tie for tie in ties if tie.clause not in in_force)),
        troubles=tuple(sorted(troubles)),
    )


def read_ties(project: Path) -> tuple[list[Tie], list[Trouble]]:
    """Return every tie below the `ROOTS` of a project, and the unreadable places.

    Raises:
        FileNotFoundError: none of the roots exists.
    """
    roots = [project / root for root in ROOTS if (project / root).is_dir()]
    if not roots:
        names = ", ".join(ROOTS)
        raise FileNotFoundError(f"cannot find tests: none of {names} in {project}")
    ties: list[Tie] = []
    troubles: list[Trouble] = []
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            file = path.relative_to(project).as_posix()
            reader = _Reader(file, ties, troubles)
            try:
                reader.read(path.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError) as error:
                line = getattr(error, "lineno", None) or 1
                troubles.append(Trouble(file, line, f"cannot read: {error}"))
    return ties, troubles


@attrs.define
class _Reader:
    """A reader of one file, which appends to two lists given to it."""

    file: str
    ties: list[Tie]
    troubles: list[Trouble]
    # Names of the decorator in this file: "clause", "clauses.clause", or an alias.
    names: set[str] = attrs.field(factory=set)

    def read(self, source: str) -> None:
        # Most files never mention a clause: do not parse those.
        if _DECORATOR not in source:
            return
        tree = ast.parse(source, self.file)
        for node in ast.walk(tree):
            self.names.update(_spellings(node))
        for name, node in _definitions(tree, ""):
            for decorator in node.decorator_list:
                if self._is_ours(decorator):
                    self._tie(name, decorator)

    def _is_ours(self, decorator: ast.expr) -> bool:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        return ast.unparse(called) in self.names

    def _tie(self, name: str, decorator: ast.expr) -> None:
        if not isinstance(decorator, ast.Call):
            self._trouble(decorator, "clause is not called with any id")
            return
        if decorator.keywords or not decorator.args:
            self._trouble(decorator, "clause takes one or more ids, by position")
        for argument in decorator.args:
            if not (
                isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            ):
                given = ast.unparse(argument)
                self._trouble(argument, f"clause id must be a literal, got {given}")
            elif not is_clause_id(argument.value):
                self._trouble(argument, f"no clause id: {argument.value!r}")
            else:
                test = f"{self.file}::{name}"
                self.ties.append(Tie(argument.value, test, argument.lineno))

    def _trouble(self, node: ast.expr, reason: str) -> None:
        self.troubles.append(Trouble(self.file, node.lineno, reason))


def _spellings(node: ast.AST) -> Iterator[str]:
    """Yield the names that an import gives the decorator in a file."""
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        for name in node.names:
            if (node.module, name.name) == (_MODULE, _DECORATOR):
                yield name.asname or name.name
            elif f"{node.module}.{name.name}" == _MODULE:
                yield f"{name.asname or name.name}.{_DECORATOR}"
    elif isinstance(node, ast.Import):
        for name in node.names:
            if name.name == _MODULE:
                yield f"{name.asname or name.name}.{_DECORATOR}"


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Definition]]:
    """Yield functions and classes, also under `if` and `with`, named as by pytest."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Definition):
            name = f"{prefix}{child.name}"
            yield name, child
            yield from _definitions(child, f"{name}::")
        else:
            yield from _definitions(child, prefix)
