"""``bus top``: what each process of a live bus does."""

from __future__ import annotations

import itertools
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.verbs import MACHINE, program, read, verb
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from tests.links.real import Far

ROOT = Path(__file__).parents[2]


def test_one_look_is_not_several() -> None:
    result = verb("top", "--once", "--count", "2")

    assert result.exit_code == 2
    assert "--once is one look" in result.stderr


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


@pytest.mark.usefixtures("alpha")
def test_on_a_terminal_one_look_takes_the_place_of_the_last() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bus", "top", "--count", "3", "--interval", "0.1"]
    with subprocess.Popen(
        [*command, *MACHINE],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150", "NO_COLOR": "1"},
    ) as top:
        os.close(theirs)
        screen = b""
        try:
            while part := os.read(ours, 4096):
                screen += part
        except OSError:
            pass  # that is how the end of a terminal is told
        finally:
            os.close(ours)
        assert top.wait(LIMIT_S) == 0

    assert screen.count(b"process") >= 3
    assert b"\x1b[1A" in screen  # the cursor goes up
    assert b"\x1b[3" not in screen  # and nothing is coloured
