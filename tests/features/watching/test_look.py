"""``bus tree``, ``bus list``, ``bus route``: the processes and tasks of a live bus."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from bus.cli import queries
from bus.features.watching.verb import _process_lines, _task_line
from tests.cli.verbs import read, verb
from tests.process.real import Far
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def test_a_tree_shows_processes_threads_and_tasks(alpha: Far, beta: Far) -> None:
    hidden = "visibility=__import__('bus').Visibility.PRIVATE"
    beta(f"counter('hidden', thread=bus.thread('tool room'), {hidden})")
    beta("bus.call('echo', 1)")
    beta("bus.subscribe('echo', print) and None")

    lines = verb("tree").stdout.splitlines()

    assert lines[0] == "bus bus1 on machine"
    assert lines[1].startswith(f"  alpha, master, pid {alpha.pid}, up ")
    assert "      echo: 1 delivered, 0 unread" in lines
    [at] = [i for i, line in enumerate(lines) if line.startswith("  beta, slave")]
    assert f"pid {beta.pid}" in lines[at]
    assert lines[at + 1 : at + 3] == [
        "    thread default, waits",
        "      far: 0 delivered, 0 unread",
    ]
    assert "    thread tool room, waits" in lines[at:]
    assert "      hidden (private): 0 delivered, 0 unread" in lines[at:]
    assert any(line.endswith(", subscribed to echo") for line in lines[at:])
    assert "    signalling link with alpha" in lines[at:]
    assert "cli" not in "\n".join(lines)
    assert "_bus/" not in "\n".join(lines)


def test_a_tree_shows_the_dropped_and_doubtful_messages_of_a_link() -> None:
    counters = {"posted": 9, "taken": 3, "dropped": 4, "failed": 0, "in_doubt": 2}
    link = {"process": "far", "kind": "data", "ready": True, "unresponsive": False}
    link |= {"machine": "machine"}
    process = {"process": "near", "role": "slave", "pid": 1, "since_s": 2.0}
    process |= {"machine": "machine"}
    others = {"links": [link | {"counters": counters}], "relays": [], "parked": {}}

    lines = list(_process_lines(process | {"threads": []} | others))

    assert lines[1:] == ["  data link with far, 4 dropped, 2 in doubt"]


@pytest.mark.parametrize(
    ("missed", "drops", "words"),
    [
        (0, {}, "subscribed to s/*"),
        (2, {}, "subscribed to s/* (2 dropped)"),
        (2, {"dropped": 3, "refused": 4}, "subscribed to s/* (9 dropped)"),
        (0, {"unread": 5}, "subscribed to s/* (5 unread)"),
        (1, {"unread": 5}, "subscribed to s/* (5 unread, 1 dropped)"),
    ],
)
def test_a_tree_shows_the_unread_and_the_missed_messages_of_a_task(
    missed: int, drops: dict[str, int], words: str
) -> None:
    """Also drops in the notifier's process, as a gap has reported."""
    counters = {
        "delivered": 1,
        "unread": 0,
        "dropped": 0,
        "expired": 0,
        "refused": 0,
    }
    received = {"to": "s/*", "notifications": counters | drops, "missed": missed}
    task = {"name": "t", "visibility": "public", "commands": counters}

    line = _task_line(task | {"subscriptions": [received]})

    assert line == f"t: 1 delivered, 0 unread, {words}"


def test_a_tree_shows_notifications_without_a_subscriber(alpha: Far) -> None:
    """Beside their notifier; those with one are not among them."""
    for name in ("alone", "news"):
        alpha(f"made.update({name}=bus.register('{name}')) or None")
    alpha("bus.subscribe('news', print) and None")
    for name in ("alone", "news"):
        alpha(f"[made['{name}'].notify(n) for n in range(3)] and None")
    line = "alone: 0 delivered, 0 unread, 3 notifications without a subscriber\n"
    until(lambda: line in verb("tree").stdout, "they are counted")

    assert "news: 0 delivered, 0 unread\n" in verb("tree").stdout


def test_a_tree_shows_waiting_messages_and_busy_threads(alpha: Far) -> None:
    alpha("bus.register('shelf', capacity=2, overflow='drop-oldest') and None")
    alpha("[bus.command('shelf', n) for n in range(5)] and None")
    alpha("bus.command('nobody', 1)")
    grinds = "lambda _: __import__('threading').Event().wait()"
    alpha(f"bus.register('mill', thread=bus.thread(), on_command={grinds}) and None")
    alpha("bus.command('mill', 1)")
    until(lambda: "busy for" in verb("tree").stdout, "the mill grinds")

    text = verb("tree").stdout

    assert "      shelf: 0 delivered, 2 unread, 3 dropped\n" in text
    assert "    for nobody, a name that no task has: 1 parked\n" in text


def test_a_tree_for_programs_has_all_figures(alpha: Far, beta: Far) -> None:
    beta("bus.call('echo', 1)")

    tree = read("tree")

    assert (tree["bus"], tree["machine"]) == ("bus1", "machine")
    first, second = tree["processes"]
    assert (first["pid"], second["pid"]) == (alpha.pid, beta.pid)
    assert (first["role"], second["role"]) == ("master", "slave")
    assert first["users"]["far"] == "beta"
    assert "users" not in second
    [thread] = first["threads"]
    [task] = thread["tasks"]
    assert task["name"] == "echo"
    assert task["commands"]["delivered"] == 1
    [link] = second["links"]
    counters = link.pop("counters")
    assert counters["posted"] >= 1
    assert [link] == [
        {
            "machine": "machine",
            "process": "alpha",
            "kind": "signalling",
            "ready": True,
            "direct": True,
            "unresponsive": False,
        }
    ]
    [relay] = [each for each in second["relays"] if each["name"] == "echo"]
    assert (relay["process"], relay["queue"], relay["state"]) == ("alpha", 0, "named")


@pytest.mark.usefixtures("alpha", "beta")
def test_a_list_has_public_names_only() -> None:
    assert verb("list").stdout.splitlines() == [
        "name  process",
        "echo  alpha",
        "far   beta",
    ]
    assert read("list") == [
        {"name": "echo", "process": "alpha"},
        {"name": "far", "process": "beta"},
    ]


def ways(name: str, *arguments: str) -> dict[str, tuple[str, str | None]]:
    """Return the path, and kind of link, from each process to a name."""
    found: dict[str, Any] = read("route", name, *arguments)
    return {each["process"]: (each["way"], each["link"]) for each in found["ways"]}


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
def test_route_prints_the_route_that_a_message_would_take(beta: Far) -> None:
    with Far("gamma") as gamma:
        gamma.started()

        assert ways("far") == {
            "alpha": ("search", "signalling"),
            "beta": ("thread", None),
            "gamma": ("search", "data"),
        }
        gamma("bus.call('far', 1)")
        beta("bus.call('echo', 1)")
        assert ways("far", "--from", "gamma") == {"gamma": ("relay", "data")}
        assert ways("ism://bus1@machine/echo") == {
            "alpha": ("thread", None),
            "beta": ("relay", "signalling"),
            "gamma": ("search", "signalling"),
        }


@pytest.mark.usefixtures("alpha")
def test_a_task_of_the_bus_itself_has_a_route_too() -> None:
    assert verb("route", "_bus/alpha").stdout.splitlines() == [
        "_bus/alpha: process alpha",
        "  from alpha: within the process, to a thread of the bus itself",
    ]


@pytest.mark.usefixtures("beta")
def test_a_route_says_why() -> None:
    with Far("gamma") as gamma:
        gamma.started()

        assert verb("route", "far").stdout.splitlines() == [
            "far: process beta",
            "  from alpha: by search: it asks beta, which has reported the name to it;"
            " then over its signalling link with beta",
            "  from beta: within the process, to thread default",
            "  from gamma: by search: it asks its master alpha, which asks beta;"
            " then over a new data link with beta",
        ]
        gamma("bus.call('far', 1)")
        assert verb("route", "far", "--from", "gamma").stdout.splitlines() == [
            "far: process beta",
            "  from gamma: by its relay, over its data link with beta",
        ]


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("nobody",), "bus: no task has the public name 'nobody' on bus 'bus1'\n"),
        (("echo", "--from", "omega"), "bus: bus 'bus1' has no process 'omega'\n"),
        (
            ("ism://bus2@machine/echo",),
            "bus: no task has the public name 'ism://bus2@machine/echo'"
            " on bus 'bus1'\n",
        ),
        (
            ("ism://other/echo",),
            "bus: the master of this machine has no link with 'other': check `peers` in"
            " its network, and that a bus is open there\n",
        ),
    ],
)
def test_a_route_of_an_unknown_task_or_process_is_one_line(
    arguments: tuple[str, ...], line: str
) -> None:
    result = verb("route", *arguments)

    assert (result.exit_code, result.stdout, result.stderr) == (1, "", line)


def test_a_route_from_a_hung_process_is_a_timeout(beta: Far) -> None:
    """Its process is alive, but stopped."""
    beta.signal(signal.SIGSTOP)
    result = verb("route", "echo", "--from", "beta", "--timeout", "0.5")
    beta.signal(signal.SIGCONT)

    assert (result.exit_code, result.stdout) == (124, "")
    words = r"bus: cannot query beta: no answer from 'beta': waited for 0\.\d+ s\n"
    assert re.fullmatch(words, result.stderr)


def test_a_process_that_has_just_left_is_not_queried_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The master keeps the process a little longer than its names."""
    asked: list[list[str]] = []
    reported = {
        "process": "alpha",
        "processes": ["alpha", "beta", "gone", "me"],
        "users": {"_bus/alpha": "alpha", "_bus/beta": "beta", "_bus/me": "me"},
    }

    def ask(_: object, __: object, processes: Iterable[str]) -> queries.Answers:
        asked.append(list(processes))
        return queries.Answers([reported], {})

    monkeypatch.setattr(queries, "ask", ask)
    monkeypatch.setattr(queries, "_known_master", lambda _: "alpha")

    queries.query_own_machine(Mock(timeout_s=1.0), Mock(process="me"))

    assert asked == [["alpha"], ["beta"]]
