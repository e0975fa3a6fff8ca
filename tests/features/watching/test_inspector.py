"""The report of each process's inspector, invisible to everybody else."""

from __future__ import annotations

import os
import re
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import asdict
from msgspec.structs import fields as fields_of

from bus import (
    LongMessageCounters,
    Role,
    Service,
    SharedMemoryInfo,
    SlabInfo,
    TaskInfo,
    open_bus,
)
from bus.features.watching.inspection import _shared_memory
from bus.features.watching.inspector import inspector_of
from bus.kernel.peer.run_queue import ENDS
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import socket_bus
from tests.kit.comm_threads import held, settled
from tests.kit.inspection import report
from tests.kit.systems import needs_shared_memory
from tests.kit.tasks import Holder, echo, unwanted
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus


def test_a_process_reports_its_name_role_and_pid(near: Bus) -> None:
    with socket_bus("far") as far:
        both = {"near", "far"}
        until(lambda: set(report(near, "near")["processes"]) == both, "both are known")
        mine, other = report(near, "near"), report(near, "far")

        assert (mine["bus"], mine["machine"]) == ("bus1", "machine")
        assert (mine["process"], mine["role"]) == ("near", "master")
        assert (other["process"], other["role"]) == ("far", "slave")
        assert mine["pid"] == other["pid"] == os.getpid()
        assert 0 <= other["since_s"] < LIMIT_S
        assert "processes" not in other
        assert report(far, "near")["process"] == "near"


def test_a_brief_report_is_the_part_without_tasks(near: Bus) -> None:
    with socket_bus("far") as far:
        far.register("f", on_command=echo)
        assert near.call("f", 1) == 1
        whole = report(near, "near")
        brief = near.call(inspector_of("near"), {"report": "brief"}, timeout=LIMIT_S)

    left_out = {"parked", "gave_up", "relays", "relay_counters", "shared_memory"}
    left_out |= {"notifying", "processes", "totals", "users", "machines"}
    assert whole.keys() - brief.keys() == left_out | {"ignored_announcements"}
    assert [each["name"] for each in brief["threads"]] == [
        each["name"] for each in whole["threads"]
    ]
    assert "tasks" not in brief["threads"][0]
    assert brief["links"] == whole["links"]
    assert brief["role"] == "master"


def test_a_busy_report_leaves_out_sums_names_and_idle_relays(near: Bus) -> None:
    with socket_bus("far") as far:
        far.register("f", on_command=echo)
        far.register("full", capacity=1)
        assert near.call("f", 1) == 1
        near.command("full", 1)

        def relays(question: object) -> set[str]:
            told = near.call(inspector_of("near"), question, timeout=LIMIT_S)
            return {each["name"] for each in told["relays"]}

        until(lambda: relays({"report": "busy"}) == {"full"}, "f has its answer")
        assert relays(None) >= {"f", "full"}
        busy = near.call(inspector_of("near"), {"report": "busy"}, timeout=LIMIT_S)
        left_out = report(near, "near").keys() - busy.keys()
        assert left_out == {"totals", "processes", "users"}


_PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "look-at-a-live-bus.md"


def _names(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def test_the_page_names_every_key_of_a_report(near: Bus) -> None:
    table = _PAGE.read_text(encoding="utf-8").partition("| key | value |\n")[2]
    rows = [line.split("|") for line in table.partition("\n\n")[0].splitlines()[1:]]
    keys = set[str]().union(*(_names(row[1]) for row in rows))
    values = {row[1].strip(): _names(row[2]) for row in rows}

    with socket_bus("far") as far:
        far.register("f", on_command=echo)
        near.register("n")
        assert near.call("f", 1) == 1
        reported = report(near, "near")

    assert keys == {*reported, "tasks"}
    for key in ("threads", "links", "relays"):
        assert values[f"`{key}`"] >= set(reported[key][0])
    tasks = [task for thread in reported["threads"] for task in thread["tasks"]]
    fields = {each.name for each in fields_of(TaskInfo)}
    assert set(tasks[0]) <= fields | {"name"} | values["`tasks` of a thread"]


def test_a_master_reports_the_process_that_holds_each_name(near: Bus) -> None:
    with socket_bus("far") as far:
        far.register("f", on_command=lambda _: None)
        near.register("n")
        assert near.call("f") is None

        users = dict(report(far, "near")["users"])

    assert users == {"f": "far", "n": "near", "_bus/far": "far", "_bus/near": "near"}


def test_an_inspector_reports_user_threads_and_tasks_with_their_figures(
    near: Bus,
) -> None:
    thread = near.thread("mill")
    near.register("t", thread=thread, on_command=lambda _: None)
    for _ in range(3):
        near.call("t")
    near.subscribe("t", unwanted)

    threads = {each["name"]: each for each in report(near, "near")["threads"]}

    [task] = threads["mill"]["tasks"]
    assert (task["name"], task["visibility"]) == ("t", "public")
    assert task["commands"]["delivered"] == 3
    [hearer] = threads["default"]["tasks"]
    assert hearer["visibility"] == "private"
    assert [each["to"] for each in hearer["subscriptions"]] == ["t"]
    assert "inspector" not in threads


def test_it_answers_while_all_tasks_are_busy(near: Bus) -> None:
    with Holder.holding(near):
        [busy] = [
            each["busy_s"]
            for each in report(near, "near")["threads"]
            if each["name"] == "holder"
        ]

    assert busy is not None


def test_a_sender_that_waits_for_room_is_counted(near: Bus) -> None:
    with Holder.holding(near, overflow="block", capacity=1):
        near.command("holder", 1)
        sender = threading.Thread(target=near.command, args=("holder", 2))
        sender.start()

        def blocked() -> int:
            return sum(each["blocked"] for each in report(near, "near")["threads"])

        until(lambda: blocked() == 1, "the sender waits")
    sender.join()


def test_an_inspector_reports_links_relays_and_parked_messages(near: Bus) -> None:
    with socket_bus("far") as far, Holder.holding(far):
        near.command("holder", 1)
        near.command("nobody", 1)

        def relay() -> Any:
            found = [
                each
                for each in report(near, "near")["relays"]
                if each["name"] == "holder"
            ]
            return found[0] if found else {"unacked": 0}

        until(lambda: relay()["unacked"] == 1, "it is under way")
        assert relay() == {
            "name": "holder",
            "machine": "machine",
            "process": "far",
            "state": "named",
            "queue": 0,
            "unacked": 1,
            "counters": {"posted": 1} | dict.fromkeys(ENDS, 0),
            "asked": 0,
        }
        mine = report(near, "near")
        [link] = [dict(each) for each in mine["links"]]
        assert link.pop("counters")["posted"] == 1
        assert [link] == [
            {
                "machine": "machine",
                "process": "far",
                "kind": "signalling",
                "ready": True,
                "direct": True,
                "unresponsive": False,
            }
        ]
        assert dict(mine["parked"]) == {"nobody": 1}


@pytest.mark.usefixtures("near")
def test_a_link_between_slaves_is_one_for_data() -> None:
    with socket_bus("one") as one, socket_bus("two") as two:
        two.register("t", on_command=echo)
        one.call("t")

        kinds = {each["process"]: each["kind"] for each in report(one, "one")["links"]}

    assert kinds == {"near": "signalling", "two": "data"}


# Invisibility.


@clause("BUS-NAME-6")
@pytest.mark.parametrize(
    "register",
    [
        lambda bus: bus.register("_bus/near"),
        lambda bus: bus.register("_bus/mine/own"),
        lambda bus: bus.task("_bus/x")(lambda _: None),
        lambda bus: Service(bus, "_bus/x"),
    ],
)
def test_a_user_cannot_register_a_reserved_name_of_the_bus(
    register: Callable[[Bus], object],
) -> None:
    with (
        memory_bus() as bus,
        pytest.raises(ValueError, match=r"begin with _bus/ .* got '_bus/"),
    ):
        register(bus)


def test_names_that_only_look_like_it_are_free() -> None:
    with memory_bus() as bus:
        for name in ("_bus", "_busy/x", "a/_bus/x"):
            bus.register(name)


def test_an_inspector_is_hidden_from_the_view_of_a_user(near: Bus) -> None:
    assert near.tasks() == ()
    assert near.inspect().threads == ()


@clause("BUS-NAME-6")
@pytest.mark.parametrize("pattern", ["**", "*/*", "*/near", "*/**", "**/near"])
def test_no_star_means_it(near: Bus, pattern: str) -> None:
    seen: list[str] = []
    watcher = near.register("watcher")
    watcher.watch(pattern, lambda presence: seen.append(presence.address.module))
    with socket_bus("far") as far:
        far.register("a/near")
        until(lambda: "a/near" in seen, "the processes are found")
        settled(near)

    assert not [name for name in seen if name.startswith("_bus")]


def test_a_watch_on_the_reserved_prefix_reports_inspectors(near: Bus) -> None:
    seen: list[tuple[str, bool]] = []
    near.register("watcher").watch(
        "_bus/*", lambda each: seen.append((each.address.module, each.here))
    )
    with socket_bus("far"):
        until(lambda: ("_bus/far", True) in seen, "it came")
    until(lambda: ("_bus/far", False) in seen, "it went")
    assert seen[0] == ("_bus/near", True)


# Lifetime.


def test_it_goes_with_its_bus() -> None:
    bus = open_bus(process="one", machine="machine")
    name = "bus1 inspector"
    assert name in [each.name for each in threading.enumerate()]

    bus.close()
    bus.close()

    assert name not in [each.name for each in threading.enumerate()]


def test_a_process_with_too_long_a_name_has_no_inspector() -> None:
    long = "p" * 125
    with socket_bus(long, role=Role.MASTER) as bus:
        bus.register("t", on_command=echo)
        assert bus.call("t", 1) == 1
        assert "_bus" not in str(
            bus._exchange.query(lambda: list(bus._exchange.manager.table))
        )


def test_many_may_ask_at_once(near: Bus) -> None:
    with ExitStack() as stack:
        names = [f"p{number}" for number in range(5)]
        for name in names:
            stack.enter_context(socket_bus(name))
        answers: list[Any] = []
        asker = near.register("asker", thread=near.here())
        asker.command(
            [inspector_of(name) for name in names],
            on_response=answers.append,
            timeout=LIMIT_S,
        )
        while len(answers) < len(names):
            near.here().poll(LIMIT_S)

    assert sorted(each.payload["process"] for each in answers) == names


@clause("MC-39")
def test_slabs_of_one_size_are_reported_together() -> None:
    def slab(number: int, buffer_bytes: int) -> SlabInfo:
        return SlabInfo(
            number=number,
            buffer_bytes=buffer_bytes,
            buffers=16,
            used=number,
            loans=2 * number,
            leases=3 * number,
            abandoned=4 * number,
        )

    counters = LongMessageCounters(
        shared=1, released=2, beyond_share=3, no_room=4, not_mapped=5
    )
    memory = SharedMemoryInfo(
        bytes_max=9,
        size=8,
        share_bytes=7,
        slabs=tuple(slab(at, 2**20 >> at % 2) for at in range(1, 1001)),
        recipients=(),
        messages=counters,
        stray_releases=6,
        lent=(),
    )

    reported = _shared_memory(memory)

    assert reported is not None
    assert reported["slabs"] == [
        {
            "buffer_bytes": size,
            "slabs": 500,
            "buffers": 8000,
            "used": total,
            "loans": 2 * total,
            "leases": 3 * total,
            "abandoned": 4 * total,
        }
        for size, total in ((2**19, 250_000), (2**20, 250_500))
    ]
    assert reported["messages"] == asdict(counters)
    assert (reported["bytes_max"], reported["size"], reported["share_bytes"]) == (
        9,
        8,
        7,
    )
    assert reported["stray_releases"] == 6


@needs_shared_memory
@clause("MC-39", "AMO-20")
def test_an_inspection_does_not_wait_for_a_round(near: Bus) -> None:
    """A round may wait for stable storage."""
    with held(near):
        found = near.inspect().shared_memory

    assert found is not None
    assert found.slabs == ()


def test_a_process_alone_on_its_bus_has_no_shared_memory() -> None:
    with memory_bus() as bus:
        assert bus.inspect().shared_memory is None
