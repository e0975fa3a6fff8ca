"""``bus top``: the activity of each process of a live bus."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import attrs
import pytest
from msgspec import to_builtins

from bus.cli.queries import Answers
from bus.errors import BusError, CommandTimeoutError, PeerLostError
from bus.features.watching import verb as looking
from bus.model.snapshot import TaskTotals
from tests.cli.verbs import MACHINE, program, read, verb
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from tests.process.real import Far

ROOT = Path(__file__).parents[3]
HEAD = [each.name for each in attrs.fields(looking._Row)]


def screen_of(columns: int, *arguments: str) -> tuple[int, bytes]:
    """Run it on a terminal of this width; return its exit code, and its output."""
    import pty  # noqa: PLC0415 # not on Windows

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bus", "top", "--interval", "0.1", *arguments]
    with subprocess.Popen(
        [*command, *MACHINE],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": f"{columns}", "NO_COLOR": "1"},
    ) as top:
        os.close(theirs)
        screen = b""
        try:
            while part := os.read(ours, 4096):
                screen += part
        except OSError:
            pass  # reading at the end of a terminal raises it
        finally:
            os.close(ours)
        return top.wait(LIMIT_S), screen


def test_one_look_is_not_several() -> None:
    result = verb("top", "--once", "--count", "2")

    assert result.exit_code == 2
    assert "--count cannot be combined with --once" in result.stderr


def test_one_look_shows_totals(alpha: Far, beta: Far) -> None:
    beta("[bus.call('echo', n) for n in range(7)] and None")
    alpha("bus.register('shelf', capacity=2, overflow='drop-oldest') and None")
    alpha("[bus.command('shelf', n) for n in range(5)] and None")

    first, second = read("top", "--once")

    assert (first["process"], first["role"], second["process"]) == (
        "alpha",
        "master",
        "beta",
    )
    assert (first["messages"], first["unread"], first["dropped"]) == (7, 2, 3)
    assert first["per_s"] is None
    assert second["messages"] == 0
    head, *rows = verb("top", "--once").stdout.splitlines()
    assert head.split()[:5] == ["process", "role", "tasks", "messages", "per_s"]
    assert [row.split()[0] for row in rows] == ["alpha", "beta"]


@pytest.mark.deep
def test_from_the_second_look_on_it_knows_how_many_a_second(alpha: Far) -> None:
    with program("top", "--json", "--interval", "0.1") as top:
        assert top.stdout is not None
        looks = [json.loads(top.stdout.readline())]
        alpha("[bus.call('echo', n) for n in range(5)] and None")
        while looks[-1]["messages"] < 5:
            looks.append(json.loads(top.stdout.readline()))
        top.send_signal(signal.SIGINT)
        top.stdout.read()

    assert looks[0]["per_s"] is None
    for before, look in itertools.pairwise(looks):
        assert (look["per_s"] > 0) == (look["messages"] > before["messages"])


@pytest.mark.deep
def test_top_counts_notifications_at_the_notifier_and_at_the_subscriber(
    alpha: Far, beta: Far
) -> None:
    """Was reported: a notifier of 1 kHz had `messages 0, per_s 0`."""
    alpha("made.update(clock=bus.register('clock')) or None")
    beta("counter('reader')")
    beta("made['reader'].task.subscribe('clock', made['reader']._read) and None")
    remote = "bus._node.comm.remote"
    peers = f"len({remote}.subscribed_peers(made['clock']._entry))"
    until(lambda: alpha(peers) == 1, "it is received")
    with program("top", "--json", "--interval", "0.1") as top:
        assert top.stdout is not None
        looks = [(json.loads(top.stdout.readline()), json.loads(top.stdout.readline()))]
        alpha("[made['clock'].notify(n) for n in range(5)] and None")
        while looks[-1][1]["received"] < 5:
            line, other = top.stdout.readline(), top.stdout.readline()
            looks.append((json.loads(line), json.loads(other)))
        top.send_signal(signal.SIGINT)
        top.stdout.read()

    notifier, reader = looks[-1]
    assert (notifier["notified"], notifier["received"]) == (5, 0)
    assert (reader["notified"], reader["received"]) == (0, 5)
    assert [looks[0][0]["no_subscriber"], notifier["no_subscriber"]] == [0, 0]
    for (sender, receiver), (next_sender, next_receiver) in itertools.pairwise(looks):
        for before, look, key in (
            (sender, next_sender, "notified"),
            (receiver, next_receiver, "received"),
        ):
            assert (look[f"{key}_per_s"] > 0) == (look[key] > before[key])


@pytest.mark.usefixtures("beta")
def test_notifications_without_a_subscriber_are_shown(alpha: Far) -> None:
    alpha("made.update(clock=bus.register('clock')) or None")
    alpha("[made['clock'].notify(n) for n in range(5)] and None")
    until(lambda: read("top", "--once")[0]["no_subscriber"] == 5, "they are counted")


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
def test_it_goes_on_until_it_is_interrupted() -> None:
    with program("top", "--interval", "0.1") as top:
        assert top.stdout is not None
        assert top.stderr is not None
        lines = [top.stdout.readline().split()[0] for _ in range(6)]
        top.send_signal(signal.SIGINT)
        complaints = top.stderr.read()

    assert lines == ["process", "alpha"] * 3
    assert (top.returncode, complaints) == (0, "")


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
def test_on_a_terminal_one_look_takes_the_place_of_the_last() -> None:
    code, screen = screen_of(150, "--count", "3")

    assert code == 0
    assert screen.count(b"process") >= 3
    assert b"\x1b[1A" in screen  # the cursor goes up
    assert b"\x1b[3" not in screen  # and there are no colours


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
def test_a_terminal_that_is_not_wide_shows_all_columns_all_the_same() -> None:
    code, screen = screen_of(80, "--count", "1")

    assert code == 0
    for name in HEAD:
        assert name.encode() in screen


# Processes that do not answer.


@pytest.mark.deep
def test_top_names_an_unresponsive_process_at_each_look(beta: Far) -> None:
    beta.signal(signal.SIGSTOP)
    table = verb("top", "--count", "2", "--interval", "0.1", "--timeout", "0.3")
    lines = verb("top", "--count", "1", "--timeout", "0.3", "--json")
    on_screen = screen_of(80, "--count", "1", "--timeout", "0.3")
    beta.signal(signal.SIGCONT)

    said = "cannot query beta: no answer from 'beta': waited for 0."
    assert table.exit_code == 124
    assert [row.split()[0] for row in table.stdout.splitlines()] == [
        *("process", "alpha"),
        *("process", "alpha"),
    ]
    assert table.stderr.count(f"bus: {said}") == 2
    assert lines.exit_code == 124
    assert [json.loads(row)["process"] for row in lines.stdout.splitlines()] == [
        "alpha"
    ]
    assert lines.stderr.count(f"bus: {said}") == 1
    assert on_screen[0] == 124
    assert said.encode() in on_screen[1]


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([CommandTimeoutError("beta", 1.0), None], 0),
        ([None, CommandTimeoutError("beta", 1.0)], 124),
        ([None, PeerLostError("beta")], 1),
    ],
)
@pytest.mark.usefixtures("alpha")
def test_the_last_look_says_how_it_ends(
    errors: list[BusError | None], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: dict[str, Any] = {"process": "alpha", "role": "master", "gave_up": 0}
    reported |= {"threads": [], "relays": [], "totals": to_builtins(TaskTotals())}
    looks = [Answers([reported], {"beta": error} if error else {}) for error in errors]
    monkeypatch.setattr(looking, "query_own_machine", Mock(side_effect=looks))

    result = verb("top", "--count", "2", "--interval", "0.1")

    assert result.exit_code == code
    assert result.stderr.count("bus: cannot query beta: no answer") == 1


@pytest.mark.deep
@pytest.mark.usefixtures("beta")
def test_it_goes_on_when_another_process_becomes_master(alpha: Far) -> None:
    with program("top", "--json", "--interval", "0.1") as top:
        assert top.stdout is not None
        assert top.stderr is not None
        seen = [json.loads(top.stdout.readline()) for _ in range(2)]
        alpha.kill()
        while (seen[-1]["process"], seen[-1]["role"]) != ("beta", "master"):
            seen.append(json.loads(top.stdout.readline()))
        top.send_signal(signal.SIGINT)
        top.stdout.read()
        top.stderr.read()

    assert [each["process"] for each in seen[:2]] == ["alpha", "beta"]
    assert top.returncode == 0
