"""The catalogue of mutants, read from the files of ``tests/mutants/faults``.

A file has a block for each mutant, and an empty line between two::

    Y3 BUS-MSG-15 BUS-CHAN-7
      a question goes by a link that is not in use any more
    bus/core/remote/fast_path.py
    = if not (
    -     self.stands
    -     and session.room
    +     session.room

First come its id, its clauses, and ``locked`` if only the locked kind of end has it;
then its title; then each changed file with consecutive lines of it: see `Edit`. Instead
of files, a line ``implementation FILE:factory`` may name a small implementation that
has the fault. Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.mutants.mutant import Edit, Mutant, MutantError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["load_mutants", "parse"]

FOLDER: Final = Path(__file__).parent / "faults"
# In this order: ``--by-clause`` takes the first mutant that names a clause.
FILES: Final = (
    *("seen_elsewhere", "ours", "lock_free", "receive_any", "aio", "streams"),
    *("bus_routing", "bus_relays", "bus_ends", "bus_runs", "bus_links"),
    *("bus_payload", "traffic_rules", "journals", "bus_monitor", "bus_trace"),
    *("bus_names", "bus_fast_path", "bus_threads", "sockets", "bus_discovery"),
    *("bus_horizon", "multicast", "shared_memory", "shared_memory_schedules"),
    *("bus_memory", "notification_runs", "loans", "long_fast_path"),
    *("pattern_nodes", "pattern_wire", "pattern_faces", "pattern_interop"),
    "pattern_ends",
)
_SIGNS: Final = "-+="
_IMPLEMENTATION: Final = "implementation "


def load_mutants() -> tuple[Mutant, ...]:
    """Return all mutants.

    Raises:
        MutantError: a block is malformed, or two mutants have one id.
    """
    mutants = [
        mutant
        for name in FILES
        for mutant in parse((FOLDER / f"{name}.txt").read_text())
    ]
    ids = [mutant.id for mutant in mutants]
    if twice := {each for each in ids if ids.count(each) > 1}:
        raise MutantError(f"two mutants are called {', '.join(sorted(twice))}")
    return tuple(mutants)


def parse(text: str) -> Iterator[Mutant]:
    """Yield the mutants of one file.

    Raises:
        MutantError: a block is malformed.
    """
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            yield _mutant(lines)


def _mutant(lines: list[str]) -> Mutant:
    head, *rest = lines
    number, *clauses = head.split()
    locked = clauses[-1:] == ["locked"]
    if locked:
        clauses.pop()
    if not clauses or not rest or not rest[0].startswith("  "):
        msg = f"mutant {number} needs clauses, and a title in a line that is indented"
        raise MutantError(msg)
    title, implementation, edits = rest[0].strip(), "", list[Edit]()
    for line in rest[1:]:
        if line.startswith(_IMPLEMENTATION):
            implementation = line.removeprefix(_IMPLEMENTATION)
        elif line[0] not in _SIGNS:
            edits.append(Edit(line, ()))
        elif edits:
            edit = edits[-1]
            edits[-1] = Edit(edit.file, (*edit.lines, (line[0], line[2:])))
        else:
            raise MutantError(f"mutant {number} names no file before {line!r}")
    if bool(implementation) == bool(edits):
        raise MutantError(f"mutant {number} needs a change, or an implementation")
    return Mutant(number, title, tuple(clauses), tuple(edits), implementation, locked)
