"""The report: every verdict, every figure, no foreign markup, no external content."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from bus.journal.rules import RULES
from bus.pipeline.gold import (
    BUCKETS_MAX,
    MARKS_MAX,
    OTHERS,
    ROUTES_MAX,
    SCENE_RECORDS_MAX,
)
from bus.pipeline.report import render
from bus.pipeline.results import SCENES_MAX
from bus.pipeline.silver import NAMES_MAX
from tests.pipeline.by_hand import results, violation
from tests.pipeline.page import Page
from tests.pipeline.recorded import CLIENT, SENT, SERVER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bus.pipeline.folder import OutFolder

Row = dict[str, Any]

# Senders and receivers, all over time, distribution: each wide and narrow.
FIGURES = 2 * 3
EVIL = "</svg></script><script>alert('&lt;$x$')</script>\x1b[31m\n"


def record(n: int, kind: str, seq: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"scene": 0, "journal": 1, "n": n, "kind": kind}
    return fields | {"seq": seq, "mono": n, "size": 1}


def journal(**columns: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"journal": -1, "machine": EVIL, "process": EVIL}
    row |= {"records": 10, "gaps": 2, "lost": 0, "damaged": 0, "late": True}
    row |= {"closed": False, "died": False, "complete": False}
    row |= {"first_wall_us": 10**15, "last_wall_us": 10**15 + 2 * 10**6}
    return row | columns


def gold(name: str = "near") -> dict[str, Any]:
    """Return all tables of a run in which one name sent to another."""
    route = {"source": name, "target": "far", "via": "queue"}
    nobody = {"source": None, "target": None, "via": None}
    times = {"p50": 1500, "p90": 2000, "p99": 3000, "p999": 4000, "most": 5 * 10**9}
    amounts = {"dropped": 0, "bytes_sent": 2048, "depth_max": 3, "flows": 1}
    bucket = {"sent": 4, "received": 4, "dropped": 0, "bytes": 9, "width_us": 20_000}
    drop = {"via": "queue", "reason": "peer_left", "messages": 5}
    death = {"at_us": 10**15 + 10**6, "what": "death", "name": name, "reason": "died"}
    return {
        "depth": [route | {"at_us": 10**15, "depth": 0.5}],
        "drops": [drop | {"at_us": 10**15 + 20_000}],
        "marks": [death | {"journal": 1, "n": 4}],
        "journals": [journal()],
        "violations": [violation("Q3", sender=name, explanation="received 2 times")],
        "scenes": [
            record(7, "send", 3),
            record(8, "receive", 3),
            record(9, "receive", 3),
        ],
        "routes": [route | {"messages_sent": 1234, "messages_received": 4} | amounts],
        "traffic": [
            route | bucket | {"at_us": 10**15},
            route | bucket | {"at_us": 10**15 + 20_000},
        ],
        "latency": [
            nobody | {"at_us": None, "messages": 4} | times,
            nobody | {"at_us": 10**15, "messages": 4} | times,
            route | {"at_us": None, "messages": 4} | times,
        ],
        "distribution": [
            who | {"latency_ns": ns, "share": share}
            for who in (nobody, route)
            for ns, share in ((1500, 0.5), (5 * 10**9, 1.0))
        ],
        "waits": [{"what": "send", "calls": 7} | times],
    }


def test_every_verdict_is_there_with_its_promise(tmp_path: Path) -> None:
    folder = results(tmp_path, verdict="UNKNOWN", journals=[journal()])

    page = Page(render(folder))

    for rule in RULES.values():
        assert rule.title in page.text
        assert rule.text in page.text
        assert f"reason of {rule.id}." in page.text
        assert rule.unit in page.text
    assert page.text.count("? UNKNOWN") == len(RULES) + 1
    assert page.text.count("12\u202f345") == len(RULES)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("verdict", "sign"),
    [("PASS", "✓"), ("FAIL", "✗"), ("UNKNOWN", "?"), ("nothing to check", "∅")],
)
def test_a_verdict_is_recognized_without_colour(
    tmp_path: Path, verdict: str, sign: str
) -> None:
    html = render(results(tmp_path, verdict=verdict, journals=[journal()]))

    kind = verdict.replace(" ", "-")
    assert f'<span class="badge {kind}">{sign} {verdict}</span>' in html


def test_a_journal_that_is_complete_since_its_process_died_says_so(
    tmp_path: Path,
) -> None:
    dead = journal(late=False, died=True, complete=True)

    page = Page(render(results(tmp_path, journals=[dead])))

    assert "no: its process died ✓ yes" in " ".join(page.text.split())


def test_a_run_without_messages_has_a_report(tmp_path: Path) -> None:
    page = Page(render(results(tmp_path, journals=[journal(records=0)])))

    assert page.problems == []
    assert "No message was sent." in page.text
    assert "svg" not in page.tags


@pytest.mark.deep
def test_all_pictures_are_drawn(tmp_path: Path) -> None:
    page = Page(render(results(tmp_path, verdict="FAIL", **gold())))

    assert page.tags.count("svg") == FIGURES + 1  # the figure of the violation
    assert page.problems == []
    for text in ("1\u202f234", "near → far", "1.5 µs", "5 s", "2 KiB", "sent a second"):
        assert text in page.text, text


@pytest.mark.deep
def test_the_first_violation_stands_above_the_verdicts(tmp_path: Path) -> None:
    page = Page(render(results(tmp_path, of_rules={"Q3": "FAIL"}, **gold())))

    output, _, _ = " ".join(page.text.split()).partition("Verdicts")
    headline = "Q3 broken: message 3 from near to far, port 5, received 2 times"
    assert f"✗ FAIL {headline} 10 records" in output
    assert "In journal 0000000000000001; see also record 8." in output
    assert (
        "bus journal cat DIR --flow 0000000000000002 --around 0000000000000001:9"
        in output
    )
    assert "In the order of recording: send 3, receive 3, receive 3." in output
    assert "from near" in output
    assert "to far" in output


@pytest.mark.deep
def test_a_violation_of_the_bus_names_its_message(
    tmp_path: Path,
) -> None:
    on_bus = violation("B1", origin=7, sort="notification", port=None)
    tables: dict[str, Any] = gold() | {"violations": [on_bus]}
    del tables["scenes"]

    page = Page(render(results(tmp_path, of_rules={"B1": "FAIL"}, **tables)))

    assert "B1 broken: notification 3 from near to far on the bus, why" in page.text
    assert page.tags.count("svg") == FIGURES


@pytest.mark.deep
def test_a_violation_of_a_journal_or_a_channel_names_it(tmp_path: Path) -> None:
    nowhere: dict[str, Any] = {"n": None, "other_n": None, "mono": None, "seq": None}
    tables: dict[str, Any] = gold() | {
        "violations": [
            violation("J1", **nowhere | {"flow": None, "journal": -1}),
            violation("Q1", **nowhere | {"flow": 2, "journal": None}),
        ]
    }
    del tables["scenes"]

    verdicts = {"J1": "FAIL", "Q1": "FAIL"}

    page = Page(render(results(tmp_path, of_rules=verdicts, **tables)))

    output = " ".join(page.text.split())
    assert "J1 and 1 more broken: the journal of pid ?: why" in output
    assert "bus journal ls DIR" in output
    assert f"Channel {1:016x} from near to far, port 5: why." in output


@pytest.mark.deep
def test_only_the_first_violations_of_each_rule_are_shown(tmp_path: Path) -> None:
    many = [violation(rule, seq=n) for rule in ("Q2", "Q3") for n in range(1, 50)]
    tables = gold() | {"violations": many}

    page = Page(render(results(tmp_path, verdict="FAIL", **tables)))

    # The title repeats the one that the headline names.
    assert page.text.count("from near to far") == 20 + 1
    assert "Message 10 from near to far" in page.text
    assert "essage 11 from" not in page.text


@pytest.mark.deep
@pytest.mark.parametrize("name", [EVIL, "a" * 1000, "$x^{ #010101", ""])
def test_names_are_text_and_nothing_else(tmp_path: Path, name: str) -> None:
    html = render(results(tmp_path, verdict="FAIL", **gold(name)))

    page = Page(html)
    assert page.problems == []
    assert page.tags.count("script") == 0
    assert page.tags.count("svg") == FIGURES + 1
    assert "\x1b" not in html
    assert "cannot read <a file>: it no longer exists" in page.text


@pytest.mark.deep
def test_nothing_is_fetched_from_anywhere(tmp_path: Path) -> None:
    html = render(results(tmp_path, verdict="FAIL", **gold()))

    assert Page(html).addresses == []
    assert "http" not in html
    assert "<script" not in html


@pytest.mark.deep
def test_figures_take_their_colours_from_the_page(tmp_path: Path) -> None:
    html = render(results(tmp_path, verdict="FAIL", **gold()))

    figures = html[html.index("<svg") :]
    assert "#" not in "".join(
        part for part in figures.split('"') if part.startswith(("fill:", "stroke:"))
    )
    for variable in ("--ink", "--faint", "--series-1", "--series-2"):
        assert f"var({variable})" in figures
        assert html.count(f"{variable}: #") == 2  # light and dark


@pytest.mark.deep
def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    folder = results(tmp_path, verdict="FAIL", **gold())

    assert render(folder) == render(folder)


@pytest.mark.spark
def test_the_report_of_a_run_is_whole(finished: OutFolder) -> None:
    html = finished.report.read_text(encoding="utf-8")

    page = Page(html)
    assert page.problems == []
    assert page.addresses == []
    assert "script" not in page.tags
    assert page.tags.count("svg") == FIGURES
    output = " ".join(page.text.split())
    messages = sum(SENT.values())
    assert f"✓ PASS all 9 rules that apply hold on {messages} messages" in output
    for rule in RULES.values():
        badge = "∅ nothing to check" if rule.id.startswith("B") else "✓ PASS"
        assert f"{rule.id} {badge} {rule.title} {rule.text}" in output
    assert f"{CLIENT} → {SERVER} queue {SENT[CLIENT, SERVER]}" in output
    assert "right → left queue 0 0 0 0 4 KiB" in output
    assert OTHERS not in output


@pytest.mark.deep
def test_failed_rules_come_first_unknown_ones_next_and_the_others_are_folded(
    tmp_path: Path,
) -> None:
    verdicts = {"Q2": "UNKNOWN", "B1": "nothing to check", "B5": "FAIL"}
    folder = results(tmp_path, of_rules=verdicts, **gold())

    shown, _, folded = render(folder).partition("<details>")

    rows = [re.findall(r'"row">([JQB]\d)<', part) for part in (shown, folded)]
    assert rows[0] == ["B5", "Q2"]
    assert rows[1][-1] == "B1"
    assert sorted(rows[0] + rows[1]) == sorted(RULES)


@pytest.mark.deep
def test_the_figures_over_time_span_all_records_and_carry_the_marks(
    tmp_path: Path,
) -> None:
    """Formerly the header stated 31.2 s, and the figures spanned 19.5 s."""
    page = Page(render(results(tmp_path, verdict="FAIL", **gold())))

    output = " ".join(page.text.split())
    assert "2 s from 2001-09-09 01:46:40.000 UTC" in output
    assert output.count("seconds since 2001-09-09 01:46:40.000 UTC") == 1
    assert output.count("seconds since 01:46:40.000 UTC") == 1
    for label in ("sent a second", "send to receive", "on their way", "dropped"):
        assert output.count(label) >= 2, label
    # The table, and the legend of both; the violation has no clock.
    assert output.count("death") == 3
    assert "1 s death near died" in output


@pytest.mark.deep
def test_a_violation_is_a_mark_where_its_journal_has_a_clock(tmp_path: Path) -> None:
    clock = journal(journal=1, first_mono=4000)
    late = violation("Q3", mono=4000 + 10**9)

    tables: dict[str, Any] = gold() | {"journals": [clock], "violations": [late]}

    page = Page(render(results(tmp_path, **tables)))

    assert "1 s violation Q3 no duplicate twice" in " ".join(page.text.split())


@pytest.mark.deep
def test_the_report_describes_its_recording(tmp_path: Path) -> None:
    about = {
        "command": "/opt/env/bin/bus pipeline all --journals x",
        "started": "2026-01-01",
        "master": "spark://far:7077",
        "settings": {"spark.a": "<b>"},
        "versions": {"pyspark": "4.3.0", "Java": None},
    }
    process = journal(
        name="paper", program="/opt/shop.py", machine="vm", tasks=["desk"]
    )
    tables: dict[str, Any] = gold() | {"journals": [process]}
    folder = results(tmp_path, **tables)
    folder.about.write_text(json.dumps(about))

    output = " ".join(Page(render(folder)).text.split())

    assert "programs shop.py machines vm processes paper command bus pipeline" in output
    assert (
        "versions pyspark 4.3.0 Spark on spark://far:7077 settings spark.a=<b>"
        in output
    )
    assert "tasks and brokers" in output
    assert "desk" in output


@pytest.mark.deep
def test_others_are_no_cell_of_the_heat_map(tmp_path: Path) -> None:
    tables: dict[str, Any] = gold()
    (route,) = tables["routes"]
    others = {"source": OTHERS, "target": OTHERS, "messages_sent": 10**6}
    rows = [route | {"source": f"worker/{n}", "messages_sent": n} for n in range(1, 4)]
    tables["routes"] = [route | others, *rows, route]

    page = Page(render(results(tmp_path, **tables)))

    figure = page.text.partition("Messages by route")[2].partition("route")[0]
    assert OTHERS not in figure
    names = [word for word in figure.split() if word.startswith(("near", "worker/"))]
    # The busiest first, those of one prefix together.
    assert names[:4] == ["near", "worker/3", "worker/2", "worker/1"]
    assert OTHERS in page.text


@pytest.mark.deep
def test_messages_of_a_bus_have_the_parts_of_their_way(tmp_path: Path) -> None:
    times = {"p50": 10, "p90": 20, "p99": 3000, "p999": 3000, "most": 4000}
    part = {"place": 1, "part": "on link 1", "messages": 17} | times

    tables: dict[str, Any] = gold() | {"hops": [part]}

    page = Page(render(results(tmp_path, **tables)))

    assert "on link 1 17 10 ns 3 µs 4 µs" in " ".join(page.text.split())


UNDECIDED = "2 of 15 rules cannot be judged; "


@pytest.mark.parametrize(
    ("of_rules", "violations", "headline"),
    [
        ({}, [], "all 15 rules hold on 1\u202f234 messages"),
        ({"B1": "nothing to check"}, [], "all 14 rules that apply hold on"),
        ({"Q1": "UNKNOWN", "Q5": "UNKNOWN"}, [], f"{UNDECIDED}reason of Q1"),
        (
            {"J1": "UNKNOWN", "Q5": "UNKNOWN"},
            [violation("J1", verdict="UNKNOWN", flow=None, seq=None)],
            f"{UNDECIDED}the journal of near: why",
        ),
        # A message says more than a journal, and FAIL more than UNKNOWN.
        (
            {"J1": "FAIL", "Q4": "UNKNOWN", "Q5": "FAIL"},
            [
                violation("J1", flow=None, seq=None),
                violation("Q4", verdict="UNKNOWN"),
                violation("Q5", seq=7),
            ],
            "Q5 and 1 more broken: message 7 from near to far, port 5, why",
        ),
    ],
)
def test_the_headline_is_the_outcome(
    tmp_path: Path, of_rules: Row, violations: list[Row], headline: str
) -> None:
    near = [journal(journal=1, name="near")]
    tables: Row = {"routes": gold()["routes"], "journals": near}
    if violations:
        tables["violations"] = violations

    page = Page(render(results(tmp_path, of_rules=of_rules, **tables)))

    assert headline in page.text.partition("Verdicts")[0]


def test_a_verdict_leads_to_its_violations_and_so_does_an_event(tmp_path: Path) -> None:
    late = [violation("Q3", seq=n, mono=4000 + 10**9) for n in (3, 4)]
    tables: Row = gold() | {"journals": [journal(journal=1, first_mono=4000)]}
    folder = results(tmp_path, of_rules={"Q3": "FAIL"}, **tables | {"violations": late})
    told = json.loads(folder.verdicts.read_text())
    for one in told["verdicts"]:
        one["violated"] = 2 * (one["rule"] == "Q3")
    folder.verdicts.write_text(json.dumps(told))

    html = render(folder)

    assert Page(html).problems == []  # among them links that lead nowhere
    assert '<a href="#Q3-1">2</a>' in html
    assert '<a href="#Q3-2">violation</a>' in html
    assert (
        html.index('id="Q3-1"') < html.index('id="verdicts"') < html.index('id="Q3-2"')
    )


def test_the_largest_report_is_below_a_megabyte(tmp_path: Path) -> None:
    """Every table as large as `bus.pipeline.gold` makes it, with long names."""
    names = [f"{'long' * 20}/{n}" for n in range(ROUTES_MAX)]
    routes = [{"source": name, "target": name, "via": "bus"} for name in names]
    ats = [10**15 + 20_000 * n for n in range(BUCKETS_MAX)]
    tables = gold()

    def copies(table: str, rows: Sequence[Row]) -> None:
        tables[table] = [tables[table][-1] | row for row in rows]

    everywhere = [route | {"at_us": at} for route in routes for at in ats]
    for table in ("traffic", "depth"):
        copies(table, everywhere)
    copies("routes", routes)
    nobody: Row = {"source": None, "target": None, "via": None}
    totals = [nobody | {"at_us": at} for at in ats]
    rows: list[Row] = [nobody, *routes]
    copies("latency", [*(row | {"at_us": None} for row in rows), *totals])
    bins: list[Row] = [
        {"latency_ns": 2 ** (n // 20) + n, "share": n / 600} for n in range(600)
    ]
    copies("distribution", [row | each for row in rows for each in bins])
    copies("drops", [{"at_us": at, "reason": f"r{n}"} for at in ats for n in range(9)])
    copies("marks", [{"at_us": 10**15 + n, "name": names[0]} for n in range(MARKS_MAX)])
    copies(
        "journals", [{"journal": n, "tasks": names[:NAMES_MAX]} for n in range(1000)]
    )
    broken = [
        violation(rule, seq=n, n=n, sender=names[0], receiver=names[1])
        for rule in RULES
        for n in range(1, 99)
    ]
    scenes = [
        record(n, "send", n) | {"scene": scene}
        for scene in range(SCENES_MAX)
        for n in range(SCENE_RECORDS_MAX)
    ]
    tables |= {"violations": broken, "scenes": scenes}

    html = render(results(tmp_path, verdict="FAIL", **tables))

    assert len(html.encode()) < 1_000_000
    assert Page(html).problems == []
