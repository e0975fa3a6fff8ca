"""Three processes in the report: each delivery once, names by process, deaths once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from bus.journal.checker import check
from bus.journal.format import Flag, RecordKind
from bus.journal.reader import open_journals
from bus.journal.wording import reason_name
from bus.model.events import BusReason
from bus.pipeline import gold
from bus.pipeline.folder import OutFolder
from bus.pipeline.results import first_violations, read_rows, read_verdicts
from bus.pipeline.run import run_pipeline
from tests.journal.bus_history import process, step, subscribe, task
from tests.journal.deaths import KILLED, death
from tests.journal.histories import Entry, History, store
from tests.pipeline.by_hand import event, events
from tests.pipeline.page import Page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.deep]

NAMES: Final = ("top", "near", "far")
TOP, NEAR, FAR = range(3)
SENSOR: Final = task(TOP, 2)
NOTE: Final = int(Flag.NOTIFICATION)
LATE: Final = 10**9


def note(kind: RecordKind, mid: int, to: int, journal: int, hop: int = 0) -> Entry:
    return step(kind, SENSOR, mid, to, journal=journal, hop=hop, flags=NOTE)


def leaves(mid: int, there: int) -> list[Entry]:
    """The sensor's notification is put on the link to a process."""
    return [
        note(RecordKind.NOTIFY, mid, process(there), TOP),
        note(RecordKind.RELAY_OUT, mid, process(there), TOP, 1),
    ]


def arrives(mid: int, there: int) -> list[Entry]:
    """The process hands it to its subscriber, a second later."""
    kinds = (RecordKind.NOTIFY, RecordKind.EXTRACT, RecordKind.DELIVER)
    steps = [
        note(RecordKind.RELAY_IN, mid, process(there), there, 1),
        note(RecordKind.DELIVER, mid, process(there), there, 1),
        *(note(kind, mid, task(there), there, 1) for kind in kinds),
    ]
    for each in steps:
        each.late = LATE
    return steps


def recorded() -> History:
    """Return a bus on which `NEAR` gets a notification twice, and `FAR` dies."""
    registers = [
        Entry(
            RecordKind.REGISTER,
            task=name,
            journal=home,
            origin=number,
            destination=number,
        )
        for home, of_process in enumerate(NAMES)
        for number, name in (
            (process(home), ""),
            (task(home), "_script1"),
            (task(home, 1), f"_bus/{of_process}"),
        )
    ]
    sensor = Entry(
        RecordKind.REGISTER, task="sensor", origin=SENSOR, destination=SENSOR
    )
    listening = [subscribe(task(home), 1, "sensor") for home in (TOP, NEAR, FAR)]
    lost = note(RecordKind.IN_DOUBT, 3, process(FAR), TOP, 1)
    lost.reason = BusReason.PROCESS_LOST
    here = [
        note(kind, 1, task(TOP), TOP)
        for kind in (RecordKind.NOTIFY, RecordKind.DELIVER)
    ]
    there = [*leaves(2, NEAR), *leaves(2, FAR), *arrives(2, NEAR), *arrives(2, FAR)]
    again = note(RecordKind.DELIVER, 2, task(NEAR), NEAR, 1)
    again.late = LATE
    deaths = [death(FAR, TOP, late=5 * LATE), death(FAR, NEAR, late=4 * LATE)]
    entries = [
        *registers,
        sensor,
        *listening,
        *here,
        *there,
        again,
        *leaves(3, FAR),
        lost,
        *deaths,
    ]
    history = History(entries, journals=3)
    history.number()
    return history


@pytest.fixture(scope="module")
def finished(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> OutFolder:
    folder = tmp_path_factory.mktemp("processes")
    store(recorded(), folder / "journals", slots=1024, conditions={FAR: KILLED})
    run_pipeline(folder / "journals", folder / "out")
    return OutFolder(folder / "out")


def test_a_notification_is_sent_to_each_subscriber_once(finished: OutFolder) -> None:
    """Was reported as sent to the process, too, and all subscribers as one task."""
    routes = {
        (row["source"], row["target"]): (
            *(row["messages_sent"], row["messages_received"], row["dropped"]),
        )
        for row in read_rows(finished, "routes")
    }

    assert routes == {
        ("sensor", "_script1 (top)"): (1, 1, 0),
        ("sensor", "_script1 (near)"): (1, 1, 0),
        ("sensor", "_script1 (far)"): (1, 1, 0),
        ("sensor", "process far"): (1, 0, 1),  # its subscribers are unknown
    }
    traffic = list(read_rows(finished, "traffic"))
    assert [sum(row[each] for row in traffic) for each in ("sent", "received")] == [
        4,
        3,
    ]


def test_its_time_is_from_the_notifier_to_the_subscriber(finished: OutFolder) -> None:
    """Was reported from its arrival in the process of the subscriber."""
    history = recorded()
    (sent,) = (
        e for e in history.of_kind(RecordKind.NOTIFY, process(FAR)) if e.port == 2
    )
    (delivered,) = history.of_kind(RecordKind.DELIVER, task(FAR))
    took_ns = LATE + 1000 * (delivered.at - sent.at)

    transfers = list(read_rows(finished, "transfers"))

    (copy,) = (row for row in transfers if row["destination"] == task(FAR))
    assert copy["latency_ns"] == took_ns
    parts = {row["part"]: row["messages"] for row in read_rows(finished, "hops")}
    assert parts == {
        "before the link": 3,
        "on link 1": 2,
        "after the link": 2,
        "all of it": 3,
    }


def test_both_checkers_count_and_name_alike(finished: OutFolder) -> None:
    small = check(open_journals(finished.path.parent / "journals"))

    large = {
        each["rule"]: each["checked"] for each in read_verdicts(finished)["verdicts"]
    }
    assert large == {each.rule: each.checked for each in small.verdicts}
    assert [large[rule] for rule in ("B1", "B2", "B3", "B5")] == [3, 3, 4, 4]
    for violations in (small.violations, tuple(first_violations(finished, 9))):
        (one,) = violations
        assert (one.rule, one.sender, one.receiver) == (
            "B1",
            "sensor",
            "_script1 (near)",
        )


def test_the_page_shows_the_process_of_each_task_and_a_death_once(
    finished: OutFolder,
) -> None:
    """Was listed by each process that had lost the link."""
    page = Page(finished.report.read_text(encoding="utf-8"))

    assert page.problems == []
    output = " ".join(page.text.split())
    assert "sensor → _script1 (near) bus 1 1 0" in output
    assert "to _script1 (near)" in output  # in the drawing of the violation
    assert "_script1 bus" not in output
    assert output.count("death dead died") == 1
    (mark,) = read_rows(finished, "marks")
    at_us = {
        row["name"]: row["last_wall_us"] for row in read_rows(finished, "journals")
    }
    assert mark["at_us"] == at_us["near"] < at_us["top"]


def test_a_death_is_distinguished_from_later_ones_and_from_lost_links(
    spark: SparkSession,
) -> None:
    """A process number may be used again, by another boot or in a container."""
    died, given_up = map(reason_name, (BusReason.DIED, BusReason.GIVEN_UP))
    boots = {1: "first", 2: "first", 3: "second"}
    reports = [  # journal, number of the process, reason, name
        (1, 7, died, "a"),
        (2, 7, died, "a"),
        (2, 8, given_up, "a"),
        (1, 8, given_up, "a"),
        (1, 7, died, "known by another name"),
        (1, 7, died, "a"),
        (3, 7, died, "a"),
    ]
    rows = [
        event(
            RecordKind.LINK_DOWN,
            journal=journal,
            n=n,
            port=pid,
            task=name,
            reason=reason,
        )
        for n, (journal, pid, reason, name) in enumerate(reports)
    ]
    journals = spark.createDataFrame(list(boots.items()), "journal BIGINT, boot STRING")

    marks = gold.marks(events(spark, rows), journals).collect()

    assert [(row["n"], row["what"]) for row in marks] == [
        (0, "death"),
        (2, "link lost"),
        (3, "link lost"),
        (5, "death"),
        (6, "death"),
    ]


def test_many_tasks_of_one_name_are_one_group(spark: SparkSession) -> None:
    names = [f"_script1 (vm/worker {n})" for n in range(gold.ROUTES_MAX + 1)]
    rows = spark.createDataFrame([(name,) for name in names], "name STRING")

    shown = rows.select(gold._prefix("name")).distinct().collect()

    assert [tuple(row) for row in shown] == [("_script1 (*)",)]
