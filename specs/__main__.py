"""``python -m specs [CLAUSE ...]``: clauses with their tests, holes and orphans.

With clauses, it prints the text of each, its place, and its tests.

Reads the project in the current folder without running any of its code. The exit code
is 0 if every clause in force has a test and every test names only such clauses, 1 if
not, 2 if the command or the folder is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from specs.clauses import load_clauses, natural_key
from specs.coverage import weigh

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from specs.clauses import Clause
    from specs.coverage import Coverage

__all__ = ["main"]

_SOUND, _UNSOUND, _USAGE = 0, 1, 2

# Columns of a clause's text on a terminal: enough to recognise the clause.
_TEXT_COLUMNS = 72


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the map from clause to test; return the exit code."""
    options = _options(arguments)
    clauses = load_clauses()
    try:
        coverage = weigh(clauses, Path.cwd())
        if options.markdown is not None:
            page = "\n".join(_markdown(clauses, coverage))
            options.markdown.write_text(f"{page}\n", encoding="utf-8")
    except OSError as error:
        print(f"specs: {error}", file=sys.stderr)
        return _USAGE
    if unknown := [each for each in options.clauses if each not in clauses]:
        print(f"specs: there is no clause {', '.join(unknown)}", file=sys.stderr)
        return _USAGE
    if options.clauses:
        for name in options.clauses:
            print("\n".join(_one(clauses[name], coverage)))
    elif options.json:
        print(json.dumps(_plain(clauses, coverage), indent=2))
    else:
        print("\n".join(_text(clauses, coverage)))
    return _SOUND if coverage.sound else _UNSOUND


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m specs",
        description="Which test answers for which clause; fails on a hole.",
    )
    parser.add_argument(
        "clauses", nargs="*", metavar="CLAUSE", help="only these, such as QB-DISC-5"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--markdown",
        metavar="FILE",
        type=Path,
        help="also write the map as a page",
    )
    return parser.parse_args(arguments)


def _groups(coverage: Coverage) -> Iterator[tuple[str, list[str]]]:
    """Yield the clauses in force, group by group."""
    names = sorted(coverage.tests, key=natural_key)
    for group, members in itertools.groupby(names, lambda name: natural_key(name)[0]):
        yield group, list(members)


def _counts(coverage: Coverage) -> str:
    tests = {tie.test for ties in coverage.tests.values() for tie in ties}
    held = len(coverage.tests) - len(coverage.holes)
    return (
        f"{len(coverage.tests)} clauses in force, {held} with a test, "
        f"{len(tests)} tests, {len(coverage.withdrawn)} withdrawn, "
        f"{len(coverage.holes)} holes, {len(coverage.orphans)} orphans"
    )


def _text(clauses: Mapping[str, Clause], coverage: Coverage) -> Iterator[str]:
    width = max(map(len, clauses), default=0)
    for group, members in _groups(coverage):
        held = sum(bool(coverage.tests[name]) for name in members)
        yield f"{group}  {held} of {len(members)} with a test"
        for name in members:
            tests = [tie.test for tie in coverage.tests[name]] or ["-- no test --"]
            yield f"  {name:<{width}}  {tests[0]}"
            yield from (f"  {'':<{width}}  {test}" for test in tests[1:])
        yield ""
    if coverage.withdrawn:
        yield "withdrawn"
        for name in coverage.withdrawn:
            yield f"  {name:<{width}}  {_short(clauses[name].text)}"
        yield ""
    if coverage.holes:
        yield "holes: clauses that no test names"
        for name in coverage.holes:
            yield f"  {name:<{width}}  {_short(clauses[name].text)}"
        yield ""
    if coverage.orphans:
        yield "orphans: tests that name a clause not in force"
        for tie in coverage.orphans:
            yield f"  {tie.clause:<{width}}  {tie.test} (line {tie.line})"
        yield ""
    if coverage.troubles:
        yield "unreadable"
        yield from (f"  {trouble}" for trouble in coverage.troubles)
        yield ""
    yield _counts(coverage)


def _one(clause: Clause, coverage: Coverage) -> Iterator[str]:
    yield f"{clause.id}  (specs/{clause.file}:{clause.line})"
    yield textwrap.fill(clause.text, 88, initial_indent="  ", subsequent_indent="  ")
    tests = [tie.test for tie in coverage.tests.get(clause.id, ())]
    yield from (f"  {test}" for test in tests or ["-- no test --"])
    yield ""


def _short(text: str) -> str:
    return textwrap.shorten(text, _TEXT_COLUMNS, placeholder=" ...")


def _markdown(clauses: Mapping[str, Clause], coverage: Coverage) -> Iterator[str]:
    yield "# From clause to test"
    yield ""
    yield f"Written by `python -m specs --markdown`. {_counts(coverage)}."
    for group, members in _groups(coverage):
        yield ""
        yield f"## {group}"
        yield ""
        yield "| clause | what it says | tests |"
        yield "|---|---|---|"
        for name in members:
            tests = [f"`{tie.test}`" for tie in coverage.tests[name]] or ["**none**"]
            # A bar inside a cell would end it.
            text = clauses[name].text.replace("|", "\\|")
            yield f"| {name} | {text} | {'<br>'.join(tests)} |"
    for title, lines in (
        ("Withdrawn", [f"{each}: {clauses[each].text}" for each in coverage.withdrawn]),
        ("Orphans", [f"{tie.clause}: `{tie.test}`" for tie in coverage.orphans]),
        ("Unreadable", [str(trouble) for trouble in coverage.troubles]),
    ):
        if lines:
            yield ""
            yield f"## {title}"
            yield ""
            yield from (f"* {line}" for line in lines)


def _plain(clauses: Mapping[str, Clause], coverage: Coverage) -> dict[str, object]:
    """Return the same as data, for `--json`."""
    return {
        "clauses": {
            name: {
                "file": each.file,
                "line": each.line,
                "withdrawn": each.withdrawn,
                "tests": [tie.test for tie in coverage.tests.get(name, ())],
            }
            for name, each in clauses.items()
        },
        "withdrawn": list(coverage.withdrawn),
        "holes": list(coverage.holes),
        "orphans": [
            {"clause": tie.clause, "test": tie.test, "line": tie.line}
            for tie in coverage.orphans
        ],
        "unreadable": [str(trouble) for trouble in coverage.troubles],
        "sound": coverage.sound,
    }


if __name__ == "__main__":
    sys.exit(main())
