"""The journal of a bus in words, and the verdict of the small checker on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.journal.checker import check
from bus.journal.format import Flag, RecordKind, kind_name
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.journal.wording import reason_name

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from bus.journal.format import Record
    from bus.journal.reader import StoredJournal

__all__ = ["OF_COMMANDS", "holds", "lines", "links", "names", "steps_of"]

# The rules that apply wherever commands are delivered.
OF_COMMANDS: Final = ("B1", "B2", "B3", "B5", "B6")

_SORTS: Final = {
    0: "",
    int(Flag.NOTIFICATION): "*",
    int(Flag.ANSWER): "!",
    int(Flag.NOTIFICATION | Flag.ANSWER): "*!",
}


def names(folder: Path) -> dict[int, str]:
    """Return a name for each registration, used by all functions below.

    The second and later registrations of one name get a prime each; a process is
    ``process`` or the upper-case name of its folder.
    """
    found: dict[int, str] = {}
    for journal in open_journals(folder):
        for record in journal.records():
            if record.kind == RecordKind.REGISTER:
                name = journal.name(record.task) or _process(journal, folder)
                while name in found.values():
                    name += "'"
                found[record.flow] = name
    return found


def _process(journal: StoredJournal, folder: Path) -> str:
    parts = journal.path.relative_to(folder).parts
    return parts[0].upper() if len(parts) > 2 else "process"


def _of_messages(record: Record) -> bool:
    return RecordKind.COMMAND <= record.kind <= RecordKind.IN_DOUBT


def steps_of(folder: Path, process: str = "") -> list[str]:
    """Return the steps in the only journal below a folder, or that of one process.

    Kind, sender, addressee, number and reason: ``deliver a b 2`` concerns the second
    message of ``a``. A star before the number marks a notification, an exclamation mark
    an answer. ``+1`` is the hop.
    """
    called = names(folder)
    (journal,) = open_journals(folder / process)
    steps = [
        _line(record, called) for record in journal.records() if _of_messages(record)
    ]
    assert journal.problems == []
    return steps


def lines(text: str) -> list[str]:
    """Return the steps of a text, one per line, in the form of `steps_of`."""
    return [line.strip() for line in text.strip().splitlines()]


def _line(record: Record, called: dict[int, str]) -> str:
    sort = _SORTS[record.flags & int(Flag.NOTIFICATION | Flag.ANSWER)]
    words = [
        kind_name(record.kind),
        called[record.origin],
        called[record.flow],
        f"{sort}{record.mid}",
    ]
    if record.hop:
        words.append(f"+{record.hop}")
    if record.reason:
        words.append(reason_name(record.reason))
    return " ".join(words)


def links(folder: Path) -> list[str]:
    """Return the link records of the only journal: kind, peer, reason."""
    (journal,) = open_journals(folder)
    return [
        " ".join(
            filter(
                None,
                [
                    kind_name(record.kind),
                    journal.name(record.task),
                    reason_name(record.reason) if record.reason else "",
                ],
            )
        )
        for record in journal.records()
        if record.kind in {RecordKind.LINK_UP, RecordKind.LINK_DOWN}
    ]


def holds(folder: Path, *, checked: Collection[str] = OF_COMMANDS) -> None:
    """Assert that each rule of the bus holds, and that the checked ones had cases."""
    result = check(open_journals(folder))
    assert result.problems == ()
    assert result.violations == (), result.violations
    found = {each.rule: each for each in result.verdicts if each.rule[0] == "B"}
    for rule, each in found.items():
        assert each.verdict is (Verdict.PASS if each.checked else Verdict.NOTHING), each
        assert each.checked or rule not in checked, f"{rule} had nothing to check"
