"""The frame monitor: its reports to listeners, and its cost for everybody else."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from msgspec.structs import replace

from bus import Role
from bus.errors import RemoteError
from bus.features.watching import frame_monitor as core_module
from bus.features.watching import frame_monitor as monitor_leases
from bus.features.watching.frame_monitor import (
    ALL,
    FRAMES_MAX,
    LEASE_S,
    LISTENERS_MAX,
    FrameMonitor,
    facts,
    messages,
)
from bus.features.watching.inspector import inspector_of, own_inspector
from bus.kernel.wire import NO_DEADLINE, WANTS_REPLY, Batch, Ping, Run, Search
from bus.model.message import Kind
from bus.model.registration import RegistrationId
from specs.clauses import clause
from tests.kernel.golden import FRAMES
from tests.kit.buses import processes, socket_bus
from tests.kit.comm_threads import comm_of
from tests.process.processes import subscribed
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus

Three: TypeAlias = "tuple[Bus, Bus, Bus]"


@pytest.fixture
def three() -> Iterator[Three]:
    """Yield a master, which listens, and two other processes with a task each."""
    with ExitStack() as stack:
        near = stack.enter_context(socket_bus("near", role=Role.MASTER))
        one, two = (stack.enter_context(socket_bus(each)) for each in ("one", "two"))
        for bus in (one, two):
            bus.register(f"t/{bus.process}", on_command=lambda message: message.payload)
        yield near, one, two


def received(bus: Bus, process: str, *types: str) -> Any:
    """Return the frames noted by a process since the last call."""
    return bus.call(inspector_of(process), {"frames": types}, timeout=LIMIT_S)


def runs(reported: Any) -> list[tuple[str, ...]]:
    """Return the runs of a report: direction, other end, from, to, kind."""
    return [
        (frame["direction"], frame["other"], run["from"], run["to"], run["kind"])
        for frame in reported["frames"]
        for run in frame["runs"]
    ]


# The reports.


@clause("OPEN-12")
def test_each_end_of_a_link_tells_of_the_messages_that_cross_it(three: Three) -> None:
    near, one, _ = three
    sender = one.register("sender", thread=one.here())
    for process in ("one", "two"):
        assert received(near, process, "MSG") == {"frames": (), "left_out": 0}

    sender.call("t/two", b"12345")

    ways = {"one": ("out", "in", "two"), "two": ("in", "out", "one")}
    for process, (there, back, other) in ways.items():
        reported = received(near, process, "MSG")
        assert runs(reported) == [
            (there, other, "sender", "t/two", "command"),
            (back, other, "t/two", "sender", "command_response"),
        ]
        assert "12345" not in str(reported)
        [first], [second] = (each["runs"] for each in reported["frames"])
        assert (first["count"], first["bytes"], first["hop"]) == (1, 5, 0)
        assert (first["wants_reply"], second["wants_reply"]) == (True, False)
        assert reported["frames"][0]["at_ns"] <= reported["frames"][1]["at_ns"]


@clause("OPEN-12")
def test_a_notification_is_reported_as_sent_to_all_subscribers(three: Three) -> None:
    near, one, two = three
    clock = one.register("clock")
    got: list[Any] = []
    two.subscribe("clock", lambda message: got.append(message.payload))
    subscribed(one, "clock")
    received(near, "two", "MSG")

    clock.notify("now")
    until(lambda: got == ["now"], "it has come")

    assert runs(received(near, "two", "MSG")) == [
        ("in", "one", "clock", ALL, "notification")
    ]


@clause("OPEN-12")
def test_control_frames_are_reported_in_words(three: Three) -> None:
    near, one, _ = three
    received(near, "two")

    one.call("t/two", 1)

    reported = received(near, "two")["frames"]
    types = [(each["direction"], each["type"]) for each in reported]
    for expected in ("HELLO", "ADD_RELAY", "MSG"):
        assert ("in", expected) in types
    for expected in ("WELCOME", "OPEN_STREAM", "MSG"):
        assert ("out", expected) in types
    hello = next(each for each in reported if each["type"] == "HELLO")
    assert hello["other"] == "one"
    assert hello["facts"]["identity"].startswith("one (slave, pid ")


@clause("OPEN-12")
@pytest.mark.parametrize("name", FRAMES)
def test_there_are_words_for_each_type_of_frame(name: str) -> None:
    frame = FRAMES[name]

    if isinstance(frame, Batch):
        reported: Any = messages(frame, str, str, lambda _: False)
        assert sum(each["count"] for each in reported) == frame.count
    else:
        reported = facts(frame, "here", str, str)
        assert all(isinstance(each, str) for each in reported)
    assert "object at" not in repr(reported)


def batch(*relays: int) -> Batch:
    """Return a frame with a command for each of the given relays."""
    runs = [
        Run(relay, 7, Kind.COMMAND, WANTS_REPLY, question, NO_DEADLINE, 0, [b"xy"])
        for question, relay in enumerate(relays)
    ]
    return Batch(1, 1, 1, 1, runs)


def test_messages_that_differ_only_in_their_bodies_are_reported_as_one() -> None:
    reported = messages(batch(5, 5, 6), str, str, lambda _: False)

    assert reported is not None
    assert [(each["to"], each["count"], each["bytes"]) for each in reported] == [
        ("5", 2, 4),
        ("6", 1, 2),
    ]


def test_of_very_many_runs_in_a_frame_the_rest_is_counted() -> None:
    reported = messages(batch(*range(1, 31)), str, str, lambda _: False)

    assert reported is not None
    assert len(reported) == 17
    assert reported[-1] == {"more": 14}


# The listeners, and the frames hidden from them.


@clause("OPEN-12")
def test_a_listener_receives_no_frames_of_its_own_links(three: Three) -> None:
    near, _, two = three
    received(near, "one")
    for _ in range(3):
        assert near.call("t/one", 1) == 1
        assert received(near, "one") == {"frames": (), "left_out": 0}

    two.call("t/one", 1)

    others = {each["other"] for each in received(near, "one")["frames"]}
    assert others == {"two"}


@clause("OPEN-12")
def test_the_monitor_omits_the_tasks_of_the_bus(three: Three) -> None:
    near, _, two = three
    two.call("t/one", 1)
    types = ("MSG", "SEARCH", "ADD_RELAY", "EXPORT", "ELIMINATE", "SUBSCRIBE")
    received(near, "one", *types)

    assert two.call(inspector_of("one"), timeout=LIMIT_S)["process"] == "one"
    assert [
        each for each in received(near, "one", *types)["frames"] if "_bus" in str(each)
    ] == []
    assert runs({"frames": received(near, "one", "MSG")["frames"]}) == []


@clause("OPEN-12")
def test_a_process_that_listens_to_others_tells_nothing_of_itself(three: Three) -> None:
    near, one, _ = three
    inspector = own_inspector(one._exchange)
    assert inspector is not None
    inspector.closed = True
    received(near, "one")

    one.call("t/two", 1)

    assert received(near, "one") == {"frames": (), "left_out": 0}
    assert comm_of(one).watcher is None


@clause("OPEN-12")
def test_the_end_of_a_lease_is_answered_with_the_last_frames(three: Three) -> None:
    near, one, _ = three
    received(near, "one")
    one.call("t/two", 1)

    last = near.call(inspector_of("one"), {"frames": None}, timeout=LIMIT_S)

    assert last["frames"]
    assert comm_of(one).watcher is None


@pytest.mark.parametrize("wrong", [3, "MSG", ["NOTHING"], [["MSG"]], {"MSG": 1}])
def test_a_filter_that_is_no_list_of_types_is_rejected(
    three: Three, wrong: Any
) -> None:
    with pytest.raises(RemoteError, match="None or a list of frame types"):
        three[0].call(inspector_of("one"), {"frames": wrong}, timeout=LIMIT_S)
    assert comm_of(three[1]).watcher is None


def test_the_number_of_listeners_is_limited(three: Three) -> None:
    near = three[0]
    here = near.here()
    tasks = [near.register(f"a{each}", thread=here) for each in range(LISTENERS_MAX)]
    for task in tasks:
        task.call(inspector_of("one"), {"frames": []})

    with pytest.raises(RemoteError, match="8 listen"):
        received(near, "one")
    tasks[0].call(inspector_of("one"), {"frames": None})
    assert received(near, "one") == {"frames": (), "left_out": 0}


# The cost: nothing, or little.


@clause("OPEN-12")
def test_nothing_is_noted_unless_somebody_listens(three: Three) -> None:
    near, one, _ = three
    assert comm_of(one).watcher is None
    near.call(inspector_of("one"), {"frames": None}, timeout=LIMIT_S)
    assert comm_of(one).watcher is None

    asker = near.register("asker", thread=near.here())
    asker.call(inspector_of("one"), {"frames": []})
    received(near, "one")
    near.call(inspector_of("one"), {"frames": None}, timeout=LIMIT_S)
    assert comm_of(one).watcher is not None
    asker.call(inspector_of("one"), {"frames": None})
    assert comm_of(one).watcher is None


@clause("OPEN-12")
def test_a_listener_that_stops_asking_loses_its_lease(
    three: Three, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, one, _ = three
    for module in (core_module, monitor_leases):
        monkeypatch.setattr(module, "LEASE_S", 0.02)
    for _ in range(2):
        near.call(inspector_of("one"), {"frames": []}, timeout=LIMIT_S)
        until(lambda: comm_of(one).watcher is None, "nobody listens any more")


@pytest.fixture
def monitor() -> Iterator[tuple[FrameMonitor, int]]:
    """Yield the frame monitor of a process, and its one link."""
    with processes(2) as (bus, _):
        remote = comm_of(bus).remote
        links = remote.links.by_number

        def known() -> bool:
            """Return True if there is a link, and its peer is known."""
            return any(each.peer is not None for each in list(links.values()))

        until(known, "there is a link")
        [link] = links
        yield FrameMonitor(remote, lambda: 5), link


ONE = RegistrationId("machine", "who", 1)
TWO = RegistrationId("machine", "who", 2)
PING = Ping(number=1)


@clause("OPEN-12")
def test_frames_without_room_are_left_out_and_counted(
    monitor: tuple[FrameMonitor, int],
) -> None:
    noting, link = monitor
    noting.take_frames(ONE, [], 0.0)
    for _ in range(FRAMES_MAX + 3):
        noting.on_frame(link, PING, out=False)
    noting.take_frames(TWO, [], 0.0)
    noting.on_frame(link, PING, out=True)

    first, second = noting.take_frames(ONE, [], 0.0), noting.take_frames(TWO, [], 0.0)

    assert first is not None
    assert (len(first["frames"]), first["left_out"]) == (FRAMES_MAX, 4)
    assert second == {
        "frames": [
            {
                "at_ns": 5,
                "direction": "out",
                "other": "p1",
                "type": "PING",
                "facts": {"number": 1},
            }
        ],
        "left_out": 0,
    }
    assert noting.take_frames(ONE, [], 0.0) == {"frames": [], "left_out": 0}


@clause("OPEN-12")
def test_a_listener_that_asks_again_in_time_keeps_its_lease(
    monitor: tuple[FrameMonitor, int],
) -> None:
    noting, _ = monitor
    noting.take_frames(ONE, [], 0.0)
    noting.take_frames(TWO, [], 1.0)
    noting.take_frames(ONE, [], 2.0)

    assert noting.review(LEASE_S) == LEASE_S + 1
    assert noting.review(LEASE_S + 1) == LEASE_S + 2
    assert not noting.idle
    assert noting.review(LEASE_S + 2) is None
    assert noting.idle


def test_the_monitor_remembers_the_peer_of_a_closed_link(
    monitor: tuple[FrameMonitor, int],
) -> None:
    noting, link = monitor
    noting.take_frames(ONE, [], 0.0)
    noting.on_frame(link, PING, out=False)
    noting._remote.links.by_number.clear()
    noting.on_frame(link, PING, out=True)
    noting.on_frame(link + 1, PING, out=True)

    reported = noting.take_frames(ONE, [], 0.0)
    assert reported is not None
    assert [each["other"] for each in reported["frames"]] == ["p1", "p1", ""]


def test_a_task_that_has_left_is_reported_by_its_announced_name(
    monitor: tuple[FrameMonitor, int],
) -> None:
    noting, _ = monitor
    noting.take_frames(ONE, ["MSG"], 0.0)
    search = next(each for each in FRAMES.values() if isinstance(each, Search))
    sender = search.sender
    noting._links[99] = (sender.id.machine, sender.id.process)
    command = replace(batch(1).runs[0], source=sender.relay)
    noting.on_frame(99, Batch(1, 1, 1, 1, [command]), out=False)
    noting.take_frames(ONE, [], 0.0)
    noting.on_frame(99, search, out=False)
    noting.on_frame(99, Batch(1, 1, 1, 1, [command]), out=False)

    reported = noting.take_frames(ONE, [], 0.0)
    assert reported is not None
    [run] = reported["frames"][-1]["runs"]
    assert (run["from"], run["to"]) == (sender.name, "#1")
