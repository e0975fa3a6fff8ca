"""The report: one self-contained HTML file, made of gold tables.

It needs no Spark and no network, neither to write nor to read. The names in it come
from recorded programs, so the template escapes all text; only the figures, which escape
their own, are inserted unchanged.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import jinja2
from markupsafe import Markup

from bus.journal.rules import RULES, Verdict
from bus.journal.wording import hex64, printable
from bus.pipeline import plots, wording
from bus.pipeline.comparison import Comparison
from bus.pipeline.results import (
    drawn_violations,
    first_violations,
    read_routes,
    read_rows,
    read_verdicts,
    span,
)
from bus.pipeline.scene import draw_scene
from bus.pipeline.schemas import signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bus.journal.violation import Violation
    from bus.pipeline.folder import OutFolder

__all__ = ["render"]

TEMPLATE: Final = "report.html"
PER_RULE: Final = 10
ROUTES_MAX: Final = 12
JOURNALS_MAX: Final = 50
NAMES_MAX: Final = 8
MARKS_MAX: Final = 20
WHOLE_PATH: Final = "all of it"  # the part in `bus.pipeline.gold.hops`

Row = dict[str, Any]

_SIGNS: Final = {"PASS": "✓", "FAIL": "✗", "UNKNOWN": "?", "nothing to check": "∅"}
_OPEN: Final = ("FAIL", "UNKNOWN")  # the verdicts whose rows are not folded
_ORDER: Final = {"FAIL": 0, "UNKNOWN": 1, "PASS": 2, "nothing to check": 3}
_WAITS: Final = {
    "send": "send, for room in the buffer",
    "receive": "receive, for a message",
    "accept": "accept, for a connect",
    "connect": "connect, for an accept",
}


def render(folder: OutFolder, other: OutFolder | None = None) -> str:
    """Return the whole page, from the tables and verdicts of a run.

    other: the results of another run, with which the page compares this one.
    """
    result = read_verdicts(folder)
    run = _run(folder)
    journals = list(read_rows(folder, "journals"))
    routes = read_routes(folder)
    violations = list(_shown(folder, journals))
    first = _first(violations)
    headline = _headline(result["verdicts"], first, routes)
    marks = _marks(folder, journals, violations)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": count,
        "rate": wording.count,
        "duration": wording.duration,
        "size": wording.size,
        "printable": printable,
        "short": wording.short,
        "hex64": hex64,
        "process": process_name,
        "sign": _SIGNS.__getitem__,
        "kind": lambda verdict: verdict.replace(" ", "-"),
    }
    verdicts = sorted(result["verdicts"], key=lambda one: _ORDER[one["verdict"]])
    return environment.get_template(TEMPLATE).render(
        verdict=result["verdict"],
        headline=headline,
        verdicts=[one for one in verdicts if one["verdict"] in _OPEN],
        folded=[one for one in verdicts if one["verdict"] not in _OPEN],
        rules=RULES,
        problems=result["problems"],
        about=_about(run, journals),
        folder_read=run.get("journals", "DIR"),
        summary=_summary(journals),
        first=first,
        violations=violations,
        places={one.violation.rule: one.place for one in reversed(violations)},
        comparison=None if other is None else Comparison.of(folder, other),
        changes_max=ROUTES_MAX,
        journals=journals[:JOURNALS_MAX],
        journals_total=len(journals),
        **_pictures(folder, journals, routes, marks),
    )


@attrs.frozen
class Shown:
    """A violation on the page.

    place: its identifier on the page.
    scene: its drawing, or "".
    process: the name of the process that wrote its journal.
    """

    violation: Violation
    place: str
    scene: Markup
    process: str

    @property
    def subject(self) -> str:
        """The message, channel or journal that broke the rule."""
        one = self.violation
        if one.flow is None:
            return f"the journal of {wording.short(self.process)}"
        sender, receiver = (
            wording.short(name or "?") for name in (one.sender, one.receiver)
        )
        route = f"from {sender} to {receiver}"
        if one.origin is not None:
            return f"{one.sort} {one.seq} {route} on the bus"
        if one.seq is None:
            return f"channel {hex64(one.flow // 2)} {route}, port {one.port}"
        return f"message {one.seq} {route}, port {one.port}"

    @property
    def sentence(self) -> str:
        """The subject and the explanation."""
        sign = ":" if self.violation.seq is None else ","
        return f"{self.subject}{sign} {printable(self.violation.explanation)}"


def _first(violations: Sequence[Shown]) -> Shown | None:
    """Return the violation of the headline: certain if one is, of a message if any."""
    certain = [one for one in violations if one.violation.verdict is Verdict.FAIL]
    of_messages = [one for one in certain if one.violation.seq]
    return next(iter([*of_messages, *certain, *violations]), None)


def _headline(
    verdicts: Sequence[Row], first: Shown | None, routes: Sequence[Row]
) -> str:
    """Return the outcome in one sentence: the broken rule and its message, if any."""
    by_verdict: dict[str, list[Row]] = {}
    for one in verdicts:
        by_verdict.setdefault(one["verdict"], []).append(one)
    broken, unknown = by_verdict.get("FAIL", []), by_verdict.get("UNKNOWN", [])
    if broken:
        if first is None or first.violation.verdict is not Verdict.FAIL:
            return (
                f"{broken[0]['rule']} broken"  # `first` is of `PER_RULE` of each rule
            )
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        return f"{first.violation.rule}{more} broken: {first.sentence}"
    if unknown:
        why = first.sentence if first else unknown[0]["why"]
        return f"{len(unknown)} of {len(verdicts)} rules cannot be judged; {why}"
    holding = len(by_verdict.get("PASS", []))
    if not holding:
        return "no record concerns any rule"
    sent = sum(row["messages_sent"] for row in routes)
    on = f" on {count(sent)} {'message' if sent == 1 else 'messages'}" if sent else ""
    that = "" if holding == len(verdicts) else " that apply"
    return f"all {holding} rules{that} hold{on}"


def _run(folder: OutFolder) -> Row:
    """Return the facts that the run wrote about itself."""
    run: Row = {}
    with contextlib.suppress(FileNotFoundError):
        run = json.loads(folder.about.read_text(encoding="utf-8"))
    return run


def _about(run: Row, journals: Sequence[Row]) -> Row:
    """Return the facts about the recording and the run."""

    def distinct(texts: Iterable[str | None]) -> str:
        names = sorted({wording.short(text, 60) for text in texts if text})
        more = len(names) - NAMES_MAX
        return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")

    versions = run.get("versions", {}).items()
    settings = run.get("settings", {}).items()
    facts = {
        "programs": distinct(Path(row.get("program") or "").name for row in journals),
        "machines": distinct(row.get("machine") for row in journals),
        "processes": distinct(map(process_name, journals)),
        "command": _as_typed(run.get("command") or ""),
        "judged": _as_moment(run.get("started")),
        "versions": ", ".join(f"{name} {it}" for name, it in versions if it),
        "Spark on": run.get("master"),
        "settings": ", ".join(f"{name}={value}" for name, value in settings),
    }
    return {name: printable(fact) for name, fact in facts.items() if fact}


def _as_moment(started: str | None) -> str:
    """Return a time of `run.json` in the form of all others."""
    if started is None:
        return ""
    return wording.moment(int(dt.datetime.fromisoformat(started).timestamp() * 1e6))


def _as_typed(command: str) -> str:
    """Return a command with the name of its program in place of the path."""
    program, space, rest = command.partition(" ")
    return Path(program).name + space + rest


def count(number: int) -> str:
    """Return a number with all its digits, in groups of three."""
    return f"{number:,}".replace(",", "\u202f")


def process_name(journal: Row) -> str:
    """Return the name of a journal's process: on its bus, else by its pid."""
    return journal.get("name") or f"pid {journal.get('pid') or '?'}"


def _summary(journals: Sequence[Row]) -> Row:
    start, end = span(journals)
    return {
        "records": sum(row["records"] for row in journals),
        "start": wording.moment(start) if end else None,
        "length": wording.duration((end - start) * 1e3) if end else None,
    }


def _marks(
    folder: OutFolder, journals: Sequence[Row], violations: Sequence[Shown]
) -> list[Row]:
    """Return the events in order of time: deaths, lost links, violations."""
    clocks = {row["journal"]: row for row in journals if row["records"]}
    found = list(read_rows(folder, "marks"))
    for shown in violations:
        one = shown.violation
        clock = clocks.get(signed(one.journal)) if one.journal is not None else None
        if clock is None or one.mono is None or clock.get("first_mono") is None:
            continue
        at_us = clock["first_wall_us"] + (one.mono - clock["first_mono"]) // 1000
        name = f"{one.rule} {RULES[one.rule].title}"
        found.append(
            {"at_us": at_us, "what": "violation", "name": name, "reason": one.case}
            | {"place": shown.place}
        )
    start, _ = span(journals)
    for row in found:
        row["since"] = wording.duration(max(0, row["at_us"] - start) * 1e3)
        row["reason"] = row["reason"].replace("_", " ")
    return sorted(found, key=lambda row: row["at_us"])


def _shown(folder: OutFolder, journals: Sequence[Row]) -> Iterator[Shown]:
    """Yield the first violations of each rule."""
    processes = {row["journal"]: process_name(row) for row in journals}
    records: dict[int, list[Row]] = {}
    for row in read_rows(folder, "scenes"):
        records.setdefault(row["scene"], []).append(row)
    drawings = {
        violation: draw_scene(f"scene-{number}", violation, records.get(number, []))
        for number, violation in enumerate(drawn_violations(folder))
    }
    numbers: dict[str, int] = {}
    for one in first_violations(folder, PER_RULE):
        number = numbers[one.rule] = numbers.get(one.rule, 0) + 1
        drawing = Markup(drawings.get(one, ""))  # noqa: S704 - escapes its text
        process = (
            "?" if one.journal is None else processes.get(signed(one.journal), "?")
        )
        yield Shown(one, f"{one.rule}-{number}", drawing, process)


def _pictures(
    folder: OutFolder,
    journals: Sequence[Row],
    routes: Sequence[Row],
    marks: Sequence[Row],
) -> Row:
    traffic = list(read_rows(folder, "traffic"))
    latency = list(read_rows(folder, "latency"))
    dropped = list(read_rows(folder, "drops"))
    width_us = traffic[0]["width_us"] if traffic else 1
    axis = plots.TimeAxis(*span(journals), width_us, marks)
    overall = [r for r in latency if r["source"] is None and r["at_us"] is None]
    hops = list(read_rows(folder, "hops"))
    shares = list(read_rows(folder, "distribution"))
    figures = {
        "heat_map": plots.heat_map(routes),
        "time": plots.timeline(
            traffic, latency, list(read_rows(folder, "depth")), dropped, axis
        ),
        "distribution": plots.distribution(shares, routes),
    }
    return {
        "figures": {name: Markup(svg) for name, svg in figures.items()},  # noqa: S704 - they escape their text
        "overall": overall[0] if overall else None,
        "routes": routes[:ROUTES_MAX],
        "routes_total": len(routes),
        "waits": [
            row | {"what": _WAITS[row["what"]]} for row in read_rows(folder, "waits")
        ],
        "machines": list(read_rows(folder, "machines")),
        # If all messages are of the bus, the latency above is that of all of the path.
        "hops": [
            row
            for row in hops
            if row["part"] != WHOLE_PATH
            or not overall
            or row["messages"] != overall[0]["messages"]
        ],
        "drops": _by_reason(dropped),
        "marks": marks[:MARKS_MAX],
        "marks_total": len(marks),
    }


def _by_reason(dropped: Iterable[Row]) -> list[Row]:
    """Return the number of messages by medium and reason, the greatest first."""
    sums: dict[tuple[str, str], int] = {}
    for row in dropped:
        key = row["via"], row["reason"]
        sums[key] = sums.get(key, 0) + row["messages"]
    return [
        {"via": via, "reason": reason.replace("_", " "), "messages": many}
        for (via, reason), many in sorted(
            sums.items(), key=lambda item: (-item[1], item[0])
        )
    ]
