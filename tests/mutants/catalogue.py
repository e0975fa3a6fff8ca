"""The faults made by hand, read from the files of ``tests/mutants/faults``.

A file has a block for each fault, and an empty line between two::

    L13 BUS-FLOW-1
      only messages on the way to a relay are counted, not the messages in it
      tests/process/test_quick_commands.py::test_each_command_with_room_is_accepted_and_no_other
    RelayAccount.update
    - self._left = self._moved - relay.queued
    + self._left = self._moved

First come its id, its clauses, and ``locked`` if only the locked kind of end has it;
then its title; then each test that must catch it; then each changed function with the
statements or the expression that ``+`` lines replace: see `Edit` and `file_of`. A
``-`` line after a ``+`` line begins another change. Lines that begin with ``#`` are
comments.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from tests.mutants.edit import Edit, MutantError
from tests.mutants.library import file_of, source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "FOLDER",
    "Equivalent",
    "Fault",
    "changed",
    "load_equivalents",
    "load_faults",
    "parse",
]

FOLDER: Final = Path(__file__).parent / "faults"
EQUIVALENTS: Final = Path(__file__).with_name("equivalents.txt")


@attrs.frozen
class Fault:
    """A fault made by hand.

    title: the wrong behaviour of the library.
    clauses: those whose tests must catch it.
    tests: those that must fail, each by itself.
    edits: the changes, each with its address.
    locked: True if only the locked kind of end has it: that kind is tested.
    """

    id: str
    title: str
    clauses: tuple[str, ...]
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]
    locked: bool = False

    def trees(self) -> dict[str, ast.Module]:
        """Return the changed modules by their files; see `changed`."""
        return changed(self.edits)


@attrs.frozen
class Equivalent:
    """A change that no test can notice, and the reason."""

    reason: str
    edits: tuple[Edit, ...]

    def trees(self) -> dict[str, ast.Module]:
        """Return the changed module by its file; see `changed`."""
        return changed(self.edits)


def changed(edits: Iterable[Edit]) -> dict[str, ast.Module]:
    """Return the modules that edits change, by their files.

    Raises:
        MutantError: an edit does not apply, or the result is not Python.
    """
    trees: dict[str, ast.Module] = {}
    for edit in edits:
        file, name = file_of(edit.address)
        if file not in trees:
            trees[file] = ast.parse(source(file))
        attrs.evolve(edit, address=name).apply(trees[file])
    for file, tree in trees.items():
        try:
            compile(tree, file, "exec")
        except SyntaxError as error:
            raise MutantError(f"{file}: {error}") from None
    return trees


def load_faults() -> tuple[Fault, ...]:
    """Return all faults.

    Raises:
        MutantError: a block is malformed, or two faults have one id.
    """
    faults = [
        fault
        for path in sorted(FOLDER.glob("*.txt"))
        for fault in parse(path.read_text())
    ]
    ids = [fault.id for fault in faults]
    if twice := {each for each in ids if ids.count(each) > 1}:
        raise MutantError(f"two faults are called {', '.join(sorted(twice))}")
    return tuple(faults)


def parse(text: str) -> Iterator[Fault]:
    """Yield the faults of one file.

    Raises:
        MutantError: a block is malformed.
    """
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            yield _fault(lines)


def load_equivalents() -> Iterator[Equivalent]:
    """Yield the equivalent mutants: blocks of an indented reason and edits.

    Raises:
        MutantError: a block is malformed.
    """
    for block in EQUIVALENTS.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            reason = " ".join(line.strip() for line in lines if line.startswith("  "))
            edits = tuple(_edits(reason, [each for each in lines if each[:2] != "  "]))
            if not reason or not edits:
                raise MutantError(
                    f"an equivalent needs a reason and a change:\n{block}"
                )
            yield Equivalent(reason, edits)


def _fault(lines: list[str]) -> Fault:
    head, *rest = lines
    number, *clauses = head.split()
    locked = clauses[-1:] == ["locked"]
    if locked:
        clauses.pop()
    about = [line.strip() for line in rest if line.startswith("  ")]
    tests = tuple(line for line in about if "::" in line)
    if not clauses or not tests or about[1:] != list(tests):
        msg = f"fault {number} needs clauses, and below, indented, a title and tests"
        raise MutantError(msg)
    edits = tuple(_edits(number, rest[len(about) :]))
    if not edits:
        raise MutantError(f"fault {number} needs a change")
    return Fault(number, about[0], tuple(clauses), tests, edits, locked)


def _edits(number: str, lines: list[str]) -> Iterator[Edit]:
    address, old, new = "", list[str](), list[str]()
    for line in [*lines, ""]:
        sign = line[:1]
        if old and (sign not in {"-", "+"} or (sign == "-" and new)):
            yield Edit(address, "\n".join(old), "\n".join(new))
            old, new = [], []
        if sign == "-" and address:
            old.append(line[2:])
        elif sign == "+" and old:
            new.append(line[2:])
        elif sign in {"-", "+"}:
            raise MutantError(f"fault {number} removes nothing before {line!r}")
        else:
            address = line
