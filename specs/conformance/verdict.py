"""The verdict on an implementation: clauses held, failed, not offered.

A clause is failed if one of its scenarios failed, held if one ran and none failed,
else not offered, with the missing members. Lines are plain text, one clause group each.
"""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import attrs

from specs.clauses import natural_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from specs.conformance.scenario import Scenario

__all__ = ["Verdict"]

_WIDTH = 88


@attrs.define
class Verdict:
    """The results so far for one implementation, filled scenario by scenario."""

    source: str
    _held: set[str] = attrs.field(factory=set)
    _failed: dict[str, list[str]] = attrs.field(factory=lambda: defaultdict(list))
    _missing: dict[str, set[str]] = attrs.field(factory=lambda: defaultdict(set))
    _drivers: Counter[str] = attrs.field(factory=Counter)

    def note_run(self, scenario: Scenario, driver: str, *, passed: bool) -> None:
        """Record a run of a scenario by ``driver``."""
        self._drivers[driver] += 1
        for clause in scenario.clauses:
            if passed:
                self._held.add(clause)
            else:
                self._failed[clause].append(scenario.name)

    def note_missing(self, scenario: Scenario, why: str) -> None:
        """Record that a scenario was not run, and the feature that is missing."""
        for clause in scenario.clauses:
            self._missing[clause].add(why)

    @property
    def held(self) -> list[str]:
        """The clauses that hold."""
        return _sorted(self._held - self._failed.keys())

    @property
    def failed(self) -> list[str]:
        """The clauses that do not hold."""
        return _sorted(self._failed)

    @property
    def not_offered(self) -> list[str]:
        """The clauses that could not be checked."""
        return _sorted(self._missing.keys() - self._held - self._failed.keys())

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        counts = sorted(self._drivers.items())
        modes = ", ".join(f"{count} {_BY[name]}" for name, count in counts)
        yield f"conformance of {self.source}"
        yield f"scenarios: {modes or 'none was run'}"
        yield f"held: {len(self.held)}"
        yield from _rows(self.held, lambda _: "")
        yield f"failed: {len(self.failed)}"
        for clause in self.failed:
            yield from _wrap(f"{clause:<12} {', '.join(self._failed[clause])}")
        yield f"not offered: {len(self.not_offered)}"
        yield from _rows(self.not_offered, self._why)

    def _why(self, clause: str) -> str:
        return "; ".join(sorted(self._missing[clause]))


_BY = {"explorer": "under the explorer", "real threads": "on real threads"}


def _rows(clauses: list[str], why: Callable[[str], str]) -> Iterator[str]:
    """Yield rows of clauses with the same group and reason."""
    rows: dict[tuple[str, str], list[str]] = {}
    for clause in clauses:
        rows.setdefault((natural_key(clause)[0], why(clause)), []).append(clause)
    for (_, reason), members in rows.items():
        yield from _wrap(" ".join(members) + (f" ({reason})" if reason else ""))


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _sorted(clauses: Iterable[str]) -> list[str]:
    return sorted(clauses, key=natural_key)
