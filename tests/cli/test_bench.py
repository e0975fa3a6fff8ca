"""``bus bench``: a partner comes, is measured, and goes; and how shells complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.verbs import read, verb
from tests.processes import run
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.links.real import Far

BRIEF = ("--seconds", "0.05")
WORDS = "from bus.cli import main; main(prog_name='bus')"


def test_it_measures_on_a_live_bus_and_leaves_nothing_there(alpha: Far) -> None:
    before = alpha("sorted(bus.call('_bus/alpha')['users'])")

    result = verb("bench", *BRIEF, "--bytes", "1000")

    assert (result.exit_code, result.stderr) == (0, "")
    first, head, *rows = result.stdout.splitlines()
    assert first == "two processes on bus bus1; messages of 1000 bytes"
    assert head.split() == ["what", "how", "fast"]
    assert [row.split("  ")[0] for row in rows] == [
        "one way",
        "there and back, median",
        "there and back, 99 of 100",
    ]
    until(
        lambda: alpha("sorted(bus.call('_bus/alpha')['users'])") == before,
        "both have left",
    )


@pytest.mark.usefixtures("alpha")
def test_programs_get_one_document() -> None:
    told = read("bench", *BRIEF)

    assert told["bus"] == "bus1"
    assert told["live"] is True
    assert told["bytes"] == 64
    assert told["one_way_per_s"] > 0
    assert 0 < told["round_trip_p50_s"] <= told["round_trip_p99_s"]
    assert told["round_trips"] >= 10


def test_where_no_bus_runs_it_has_one_of_its_own(own_run_directory: Path) -> None:
    told = read("bench", *BRIEF)

    assert told["live"] is False
    assert told["one_way_per_s"] > 0
    assert not own_run_directory.exists()


def test_a_partner_that_does_not_come_is_a_timeout() -> None:
    result = verb("bench", *BRIEF, "--timeout", "0")

    assert (result.exit_code, result.stdout) == (124, "")
    assert len(result.stderr.splitlines()) == 1


def test_a_partner_that_cannot_join_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")

    result = verb("bench", *BRIEF, "--timeout", "0.5")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "bus: the other process could not join, and ended with 1\n"
    )


@pytest.mark.parametrize(
    "wrong", [("--seconds", "0"), ("--seconds", "x"), ("--bytes", "-1")]
)
def test_what_cannot_be_measured_is_a_mistake_in_usage(wrong: tuple[str, str]) -> None:
    assert verb("bench", *wrong).exit_code == 2


# How shells complete.


@pytest.mark.parametrize(
    ("shell", "word"),
    [("bash", "complete -o"), ("zsh", "#compdef bus"), ("fish", "complete --no-files")],
)
def test_each_shell_gets_its_script(
    shell: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_BUS_COMPLETE", f"{shell}_source")

    exit_code, script, _ = run(WORDS)

    assert exit_code == 0
    assert word in script
    assert f"_BUS_COMPLETE={shell}_complete" in script


def test_a_shell_is_told_of_verbs_and_of_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("_BUS_COMPLETE", "bash_complete")
    told = []
    for words, at in (("bus be", "1"), ("bus bench --by", "2")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", at)
        told.append(run(WORDS)[1].split())

    assert told == [["plain,bench"], ["plain,--bytes"]]


def test_the_options_say_what_they_are_numbers_of() -> None:
    """Not of which type they are."""
    words = verb("bench", "--help").stdout

    assert "  --seconds SECONDS " in words
    assert "  --bytes N " in words
