"""``bus shm``: the arenas of a live bus, their recipients, and views of messages."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Any, Final

import pytest

from bus.features.memory.verb import _show
from specs.clauses import clause
from tests.cli.verbs import read, verb
from tests.kit.systems import needs_shared_memory
from tests.process.real import Far
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Mapping

MIB: Final = 2**20
KEEPS: Final = """bus.register("keeper", thread=bus.thread(),
    on_command=made.setdefault("kept", []).append) and None"""


def memories() -> dict[str, Any]:
    """Return the shared memory of each process, by name."""
    output = read("shm")
    assert (output["bus"], output["machine"]) == ("bus1", "machine")
    return {each["process"]: each["shared_memory"] for each in output["processes"]}


def keep(sender: Far, keeper: Far, count: int) -> None:
    """Send long messages until a process has views of so many."""
    keeper(KEEPS)
    sent = 0
    while keeper("sum(type(m.payload.obj) is not bytes for m in made['kept'])") < count:
        sent += 1
        assert sent < 100, "they lie in memory"
        sender(f"bus.call('keeper', bytes({MIB}))")


@needs_shared_memory
@clause("MC-39")
def test_both_ends_report_the_messages_that_one_sends_and_one_holds(
    alpha: Far, beta: Far
) -> None:
    keep(alpha, beta, 3)

    found = memories()

    owner, holder = found["alpha"], found["beta"]
    assert owner["slabs"] == [
        {
            "buffer_bytes": MIB,
            "slabs": 1,
            "buffers": 4,
            "used": 3,
            "loans": 0,
            "leases": 3,
            "abandoned": 0,
        }
    ]
    assert (owner["bytes_max"], owner["size"]) == (64 * MIB, 4 * MIB)
    [recipient] = owner["recipients"]
    assert (recipient["process"], recipient["pid"]) == ("beta", beta.pid)
    assert (recipient["leases"], recipient["held_bytes"]) == (3, 3 * MIB)
    assert recipient["messages"]["shared"] == 3
    assert recipient["messages"]["not_mapped"] >= 1
    assert owner["messages"] == recipient["messages"]
    [views] = holder["lent"]
    assert (views["process"], views["slabs"], views["views"]) == ("alpha", 1, 3)
    # The message was sent before it arrived.
    assert views["since_s"] > 0
    assert 0 < recipient["since_s"] < 60
    assert owner["lent"] == holder["recipients"] == holder["slabs"] == []

    beta("made['kept'].clear()")
    until(lambda: memories()["alpha"]["messages"]["released"] == 3, "all are free")
    found = memories()
    assert found["alpha"]["slabs"][0]["used"] == 0
    assert found["alpha"]["recipients"][0]["since_s"] is None
    assert found["beta"]["lent"][0]["views"] == 0


@needs_shared_memory
@clause("MC-39")
def test_the_tables_have_a_line_for_each_recipient_and_each_arena_that_is_read(
    alpha: Far, beta: Far
) -> None:
    keep(alpha, beta, 3)
    unmapped = memories()["alpha"]["messages"]["not_mapped"]

    arena, recipient, views = verb("shm").stdout.split("\n\n")

    columns = (
        "process arena limit buffer slabs buffers used free duplicates loans abandoned"
    )
    assert cells(arena) == [
        columns.split(),
        ["alpha", "4 MiB", "64 MiB", "1 MiB", *["1", "4", "3", "1", "3", "0", "0"]],
    ]
    columns = (
        "process recipient oldest queue held share mapped refused"
        " shared beyond_share no_room not_mapped"
    )
    head, [process, name, age, *rest] = cells(recipient)
    assert head == columns.split()
    assert (process, name) == ("alpha", "beta")
    assert re.fullmatch(r"\d+\.\d s", age)
    assert rest == ["3", "3 MiB", "16 MiB", *["1", "0", "3", "0", "0"], str(unmapped)]
    head, [process, name, age, *rest] = cells(views)
    assert head == ["process", "views_of", "oldest", "views", "slabs"]
    assert (process, name, rest) == ("beta", "alpha", ["3", "1"])
    assert re.fullmatch(r"\d+\.\d s", age)


def cells(table: str) -> list[list[str]]:
    """Return the cells of the lines of a table."""
    return [re.split("  +", line.strip()) for line in table.splitlines()]


@needs_shared_memory
@pytest.mark.usefixtures("beta")
def test_processes_that_sent_no_long_message_use_no_shared_memory() -> None:
    assert verb("shm").stdout == "no process uses shared memory\n"
    assert [each["slabs"] for each in memories().values()] == [[], []]


def test_a_process_without_an_arena_reports_none(alpha: Far) -> None:
    del alpha  # it is the master
    with Far("plain", settings={"shared_memory": False}) as plain:
        plain.started()

        assert memories()["plain"] is None
        assert verb("shm").stdout == "no process uses shared memory\n"


def test_a_process_of_an_earlier_version_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counters = dict.fromkeys(
        ("shared", "released", "beyond_share", "no_room", "not_mapped"), 0
    )
    recipient: Mapping[str, object] = {
        "process": "",
        "pid": 1,
        "since_s": None,
        "leases": 0,
        "held_bytes": 0,
        "slabs_mapped": 0,
        "slabs_refused": 1,
        "messages": counters,
    }
    memory = {"slabs": [], "recipients": [recipient], "lent": [], "share_bytes": 1024}

    _show([{"process": "old"}, {"process": "new", "shared_memory": memory}])

    [_, line] = cells(capsys.readouterr().out)
    assert line == ["new", "?", "-", "0", "0 B", "1 KiB", "0", "1", "0", "0", "0", "0"]


def test_a_process_that_does_not_answer_in_time_is_named(alpha: Far, beta: Far) -> None:
    del alpha
    beta.signal(signal.SIGSTOP)
    result = verb("shm", "--timeout", "0.5")
    beta.signal(signal.SIGCONT)

    assert result.exit_code == 124
    assert result.stdout == "no process uses shared memory\n"
    assert result.stderr.startswith("bus: cannot query beta: no answer from 'beta'")
