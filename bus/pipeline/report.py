"""The report: one HTML file, made of gold tables, needing nothing but itself.

No Spark and no network, neither when it is written nor when it is read. Every name in
it was chosen by somebody else: the template escapes all text, and only the figures,
which escape their own, are put in as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2
from markupsafe import Markup

from bus.journal.rules import RULES
from bus.journal.wording import hex64, printable
from bus.pipeline import plots, wording
from bus.pipeline.results import (
    drawn_violations,
    first_violations,
    read_rows,
    read_verdicts,
)
from bus.pipeline.scene import draw_scene

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.journal.rules import Violation
    from bus.pipeline.folder import OutFolder

__all__ = ["render"]

TEMPLATE: Final = "report.html"
PER_RULE: Final = 10
ROUTES_MAX: Final = 12
JOURNALS_MAX: Final = 50

Row = dict[str, Any]

_SIGNS: Final = {"PASS": "✓", "FAIL": "✗", "UNKNOWN": "?", "nothing to check": "∅"}
_WAITS: Final = {
    "send": "send, for room in the buffer",
    "receive": "receive, for a message",
    "accept": "accept, for a connect",
    "connect": "connect, for an accept",
}


def render(folder: OutFolder) -> str:
    """The whole page, from the tables and verdicts of a run."""
    result = read_verdicts(folder)
    journals = list(read_rows(folder, "journals"))
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
        "sign": _SIGNS.__getitem__,
    }
    return environment.get_template(TEMPLATE).render(
        verdict=result["verdict"],
        verdicts=result["verdicts"],
        rules=RULES,
        problems=result["problems"],
        summary=_summary(journals),
        violations=_violations(folder),
        violations_total=result["violations"],
        journals=journals[:JOURNALS_MAX],
        journals_total=len(journals),
        **_pictures(folder),
    )


def _summary(journals: Sequence[Row]) -> Row:
    starts = [row["first_wall_us"] for row in journals if row["records"]]
    ends = [row["last_wall_us"] for row in journals if row["records"]]
    return {
        "records": sum(row["records"] for row in journals),
        "start": wording.moment(min(starts)) if starts else None,
        "length": wording.duration((max(ends) - min(starts)) * 1e3) if starts else None,
    }


def _violations(folder: OutFolder) -> list[tuple[Violation, Markup]]:
    """The first violations of each rule; each with its drawing, "" if it has none."""
    records: dict[int, list[Row]] = {}
    for row in read_rows(folder, "scenes"):
        records.setdefault(row["scene"], []).append(row)
    drawings = {
        violation: draw_scene(f"scene-{number}", violation, records.get(number, []))
        for number, violation in enumerate(drawn_violations(folder))
    }
    return [
        (violation, Markup(drawings.get(violation, "")))  # noqa: S704 - escapes its text
        for violation in first_violations(folder, PER_RULE)
    ]


def _pictures(folder: OutFolder) -> Row:
    routes = list(read_rows(folder, "routes"))
    routes.sort(key=lambda row: (-row["messages_sent"], row["source"], row["target"]))
    traffic = list(read_rows(folder, "traffic"))
    latency = list(read_rows(folder, "latency"))
    width_us = traffic[0]["width_us"] if traffic else 1
    by_route = {(row["source"], row["target"]): row for row in latency if row["source"]}
    for row in routes:
        row["latency"] = by_route.get((row["source"], row["target"]))
    overall = [r for r in latency if r["source"] is None and r["at_us"] is None]
    figures = {
        "heat_map": plots.heat_map(routes),
        "rate": plots.rate(traffic),
        "latency": plots.latency(latency, width_us),
        "distribution": plots.distribution(
            list(read_rows(folder, "distribution")), routes
        ),
    }
    return {
        "figures": {name: Markup(svg) for name, svg in figures.items()},  # noqa: S704 - they escape their text
        "overall": overall[0] if overall else None,
        "routes": routes[:ROUTES_MAX],
        "waits": [
            row | {"what": _WAITS[row["what"]]} for row in read_rows(folder, "waits")
        ],
    }
