"""The report: one self-contained HTML file, made of gold tables.

It needs no Spark and no network, neither to write nor to read. The names in it come
from recorded programs, so the template escapes all text; only the figures, which escape
their own, are inserted unchanged.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2
from markupsafe import Markup

from bus.journal.rules import RULES
from bus.journal.wording import hex64, printable
from bus.pipeline import plots, wording
from bus.pipeline.plots import OTHERS
from bus.pipeline.results import (
    drawn_violations,
    first_violations,
    read_rows,
    read_verdicts,
)
from bus.pipeline.scene import draw_scene
from bus.pipeline.schemas import signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bus.journal.violation import Violation
    from bus.pipeline.folder import OutFolder

__all__ = ["render"]

TEMPLATE: Final = "report.html"
PER_RULE: Final = 10
ROUTES_MAX: Final = 12
JOURNALS_MAX: Final = 50
NAMES_MAX: Final = 8
MARKS_MAX: Final = 20

Row = dict[str, Any]

_SIGNS: Final = {"PASS": "✓", "FAIL": "✗", "UNKNOWN": "?", "nothing to check": "∅"}
_ORDER: Final = {"FAIL": 0, "UNKNOWN": 1, "PASS": 2, "nothing to check": 3}
_WAITS: Final = {
    "send": "send, for room in the buffer",
    "receive": "receive, for a message",
    "accept": "accept, for a connect",
    "connect": "connect, for an accept",
}


def render(folder: OutFolder) -> str:
    """Return the whole page, from the tables and verdicts of a run."""
    result = read_verdicts(folder)
    journals = list(read_rows(folder, "journals"))
    violations = list(first_violations(folder, PER_RULE))
    marks = _marks(folder, journals, violations)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": lambda number: f"{number:,}".replace(",", "\u202f"),
        "duration": wording.duration,
        "size": wording.size,
        "printable": printable,
        "short": wording.short,
        "hex64": hex64,
        "process": process_name,
        "sign": _SIGNS.__getitem__,
        "kind": lambda verdict: verdict.replace(" ", "-"),
    }
    return environment.get_template(TEMPLATE).render(
        verdict=result["verdict"],
        verdicts=sorted(result["verdicts"], key=lambda one: _ORDER[one["verdict"]]),
        rules=RULES,
        problems=result["problems"],
        about=_about(folder, journals),
        summary=_summary(journals),
        violations=_drawn(folder, violations),
        violations_total=result["violations"],
        journals=journals[:JOURNALS_MAX],
        journals_total=len(journals),
        **_pictures(folder, journals, marks),
    )


def _about(folder: OutFolder, journals: Sequence[Row]) -> Row:
    """Return the facts about the recording and the run."""
    run: Row = {}
    with contextlib.suppress(OSError):  # results of an earlier version have none
        run = json.loads(folder.about.read_text(encoding="utf-8"))

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
        "judged": run.get("started"),
        "versions": ", ".join(f"{name} {it}" for name, it in versions if it),
        "Spark on": run.get("master"),
        "settings": ", ".join(f"{name}={value}" for name, value in settings),
    }
    return {name: printable(fact) for name, fact in facts.items() if fact}


def _as_typed(command: str) -> str:
    """Return a command with the name of its program in place of the path."""
    program, space, rest = command.partition(" ")
    return Path(program).name + space + rest


def process_name(journal: Row) -> str:
    """Return the name of a journal's process: on its bus, else by its pid."""
    return journal.get("name") or f"pid {journal.get('pid') or '?'}"


def _summary(journals: Sequence[Row]) -> Row:
    start, end = _span(journals)
    return {
        "records": sum(row["records"] for row in journals),
        "start": wording.moment(start) if end else None,
        "length": wording.duration((end - start) * 1e3) if end else None,
    }


def _span(journals: Sequence[Row]) -> tuple[int, int]:
    """Return the times of the first and the last record, 0 if there are none."""
    starts = [row["first_wall_us"] for row in journals if row["records"]]
    ends = [row["last_wall_us"] for row in journals if row["records"]]
    return (min(starts), max(ends)) if starts else (0, 0)


def _marks(
    folder: OutFolder, journals: Sequence[Row], violations: Sequence[Violation]
) -> list[Row]:
    """Return the events in order of time: deaths, lost links, violations, drops."""
    clocks = {row["journal"]: row for row in journals if row["records"]}
    found = list(read_rows(folder, "marks"))
    for one in violations:
        clock = clocks.get(signed(one.journal)) if one.journal is not None else None
        if clock is None or one.mono is None or clock.get("first_mono") is None:
            continue
        at_us = clock["first_wall_us"] + (one.mono - clock["first_mono"]) // 1000
        name = f"{one.rule} {RULES[one.rule].title}"
        found.append(
            {"at_us": at_us, "what": "violation", "name": name, "reason": one.case}
        )
    dropped: dict[int, list[str]] = {}
    for row in read_rows(folder, "drops"):
        dropped.setdefault(row["at_us"], []).append(
            f"{row['messages']} {row['reason'].replace('_', ' ')}"
        )
    for at_us, reasons in dropped.items():
        found.append(
            {
                "at_us": at_us,
                "what": "dropped",
                "name": "",
                "reason": ", ".join(reasons),
            }
        )
    start, _ = _span(journals)
    for row in found:
        row["since"] = wording.duration(max(0, row["at_us"] - start) * 1e3)
        row["reason"] = row["reason"].replace("_", " ")
    return sorted(found, key=lambda row: row["at_us"])


def _drawn(
    folder: OutFolder, violations: Sequence[Violation]
) -> list[tuple[Violation, Markup]]:
    """Return the first violations of each rule, each with its drawing or ""."""
    records: dict[int, list[Row]] = {}
    for row in read_rows(folder, "scenes"):
        records.setdefault(row["scene"], []).append(row)
    drawings = {
        violation: draw_scene(f"scene-{number}", violation, records.get(number, []))
        for number, violation in enumerate(drawn_violations(folder))
    }
    return [
        (violation, Markup(drawings.get(violation, "")))  # noqa: S704 - escapes its text
        for violation in violations
    ]


def _pictures(folder: OutFolder, journals: Sequence[Row], marks: Sequence[Row]) -> Row:
    routes = list(read_rows(folder, "routes"))
    routes.sort(
        key=lambda row: (
            row["source"] == OTHERS,
            -row["messages_sent"],
            *(row["source"], row["target"], row["via"]),
        )
    )
    traffic = list(read_rows(folder, "traffic"))
    latency = list(read_rows(folder, "latency"))
    dropped = list(read_rows(folder, "drops"))
    width_us = traffic[0]["width_us"] if traffic else 1
    axis = plots.TimeAxis(*_span(journals), width_us, marks)
    by_route = {
        (row["source"], row["target"], row["via"]): row
        for row in latency
        if row["source"]
    }
    for row in routes:
        route = row["source"], row["target"], row["via"]
        row["latency"] = by_route.get(route)
    overall = [r for r in latency if r["source"] is None and r["at_us"] is None]
    shares = list(read_rows(folder, "distribution"))
    figures = {
        "heat_map": plots.heat_map(routes),
        "rate": plots.rate(traffic, axis),
        "latency": plots.latency(latency, axis),
        "distribution": plots.distribution(shares, routes),
        "drops": plots.drops(dropped, axis) if traffic else "",
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
        "hops": list(read_rows(folder, "hops")),
        "drops": _by_reason(dropped),
        "marks": [row for row in marks if row["what"] != "dropped"][:MARKS_MAX],
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
