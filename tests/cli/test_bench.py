"""``bus bench``: a partner joins, is measured, and leaves; and shell completion."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.verbs import program, read, verb
from tests.kit.systems import needs_root, needs_unix_sockets
from tests.processes import run, start
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.process.real import Far

pytestmark = needs_unix_sockets

BRIEF = ("--seconds", "0.05")
WORDS = "from bus.cli import main; main(prog_name='bus')"
OWNER = 4321

# A master of another user, which admits the user of the test.
_HOST = f"""
    import os, sys, tempfile
    from bus import AccessList, BusConfig, Role, open_bus
    with tempfile.TemporaryDirectory(prefix="qb-") as folder:
        # What is to be imported is, while it can be read.
        with open_bus("rehearsal", config=BusConfig(run_directory=folder)) as bus:
            bus.register("a", on_command=lambda message: message.payload)
            bus.call("a", 1)
    os.setgroups([])
    os.setgid({OWNER})
    os.setuid({OWNER})
    config = BusConfig(access=AccessList(uids=[{OWNER}, 0]))
    with open_bus("bus1", role=Role.MASTER, machine="machine", config=config):
        print("open", flush=True)
        sys.stdin.readline()
"""


@pytest.mark.deep
def test_it_measures_on_a_live_bus_and_leaves_nothing_there(alpha: Far) -> None:
    before = alpha("sorted(bus.call('_bus/alpha')['users'])")

    result = verb("bench", *BRIEF, "--bytes", "1000")

    assert (result.exit_code, result.stderr) == (0, "")
    first, head, *rows = result.stdout.splitlines()
    assert first == "two processes on bus bus1; messages of 1000 bytes"
    assert head.split() == ["what", "how", "fast"]
    assert [row.split("  ")[0] for row in rows] == [
        "one way",
        "round trip, median",
        "round trip, 99th percentile",
    ]
    until(
        lambda: alpha("sorted(bus.call('_bus/alpha')['users'])") == before,
        "both have left",
    )


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
def test_programs_get_one_document() -> None:
    output = read("bench", *BRIEF)

    assert output["bus"] == "bus1"
    assert output["live"] is True
    assert output["bytes"] == 64
    assert output["one_way_per_s"] > 0
    assert 0 < output["round_trip_p50_s"] <= output["round_trip_p99_s"]
    assert output["round_trips"] >= 10


@pytest.mark.deep
def test_where_no_bus_runs_it_has_one_of_its_own(own_run_directory: Path) -> None:
    output = read("bench", *BRIEF)

    assert output["live"] is False
    assert output["one_way_per_s"] > 0
    assert not own_run_directory.exists()


@pytest.mark.deep
def test_a_partner_that_does_not_come_is_a_timeout() -> None:
    result = verb("bench", *BRIEF, "--timeout", "0")

    assert (result.exit_code, result.stdout) == (124, "")
    assert len(result.stderr.splitlines()) == 1


def test_a_partner_that_cannot_join_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")

    result = verb("bench", *BRIEF, "--timeout", "0.5")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "bus: cannot measure: the partner process did not join: exit code 1\n"
    )


def test_a_partner_that_has_ended_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    begun = time.monotonic()

    result = verb("bench", *BRIEF, "--timeout", "60")

    assert result.exit_code == 1
    assert time.monotonic() - begun < 30


def test_a_temporary_folder_with_too_long_a_path_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("x" * 90)
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))

    result = verb("bench", *BRIEF)

    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.startswith("bus: run directory must leave room")
    assert result.stderr.endswith("; set TMPDIR to a shorter path\n")
    assert len(result.stderr.splitlines()) == 1
    assert list(place.iterdir()) == []


@pytest.mark.deep
def test_the_partner_imports_nothing_from_where_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bus.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)

    assert read("bench", *BRIEF)["round_trips"] >= 10


@pytest.mark.deep
@needs_root
def test_the_partner_trusts_the_same_owner_as_the_verb(own_run_directory: Path) -> None:
    own_run_directory.mkdir(0o700)
    os.chown(own_run_directory, OWNER, OWNER)

    with start(_HOST) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "open\n"

        output = read("bench", *BRIEF, "--owner", OWNER)

        assert host.communicate("\n", timeout=LIMIT_S) == ("", "")
    assert output["live"] is True
    assert output["round_trips"] >= 10


@pytest.mark.deep
def test_bench_leaves_nothing_behind_when_it_is_terminated(
    own_run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of the partner's socket is short enough there."""
    own_run_directory.mkdir(0o700)
    monkeypatch.setenv("TMPDIR", str(own_run_directory))

    with program("bench", "--seconds", "60") as measuring:
        until(
            lambda: any(own_run_directory.glob("bus-*/bus1/Slave*")),
            "the partner is there",
        )
        measuring.terminate()
        output = measuring.communicate(timeout=LIMIT_S)

    assert (measuring.returncode, output) == (4, ("", "bus: interrupted\n"))
    assert list(own_run_directory.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        ("--seconds", "0"),
        ("--seconds", "x"),
        ("--seconds", "nan"),
        ("--bytes", "-1"),
    ],
)
def test_an_invalid_option_is_a_mistake_in_usage(wrong: tuple[str, str]) -> None:
    assert verb("bench", *wrong).exit_code == 2


# Shell completion.


@pytest.mark.deep
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


@pytest.mark.deep
def test_a_shell_completes_verbs_and_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("_BUS_COMPLETE", "bash_complete")
    reported = []
    for words, at in (("bus be", "1"), ("bus bench --by", "2")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", at)
        reported.append(run(WORDS)[1].split())

    assert reported == [["plain,bench"], ["plain,--bytes"]]


def test_the_help_names_the_quantity_of_each_numeric_option() -> None:
    """The help names the quantity, not the type."""
    words = verb("bench", "--help").stdout

    assert "  --seconds SECONDS " in words
    assert "  --bytes N " in words
