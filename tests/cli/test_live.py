"""How verbs join a live bus, and their errors if they cannot."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from bus import open_bus
from bus.cli import live, queries
from bus.cli.queries import Answers
from bus.errors import (
    BusError,
    CommandTimeoutError,
    InDoubtError,
    PeerLostError,
    UnresolvedError,
)
from bus.process.socket_network import SocketNetwork
from tests.cli.verbs import MACHINE, verb
from tests.kit.systems import needs_unix_sockets
from tests.process.real import Far
from tests.processes import run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = needs_unix_sockets

LIVE = [
    ("tree",),
    ("list",),
    ("top", "--once"),
    ("top",),
    ("monitor",),
    ("route", "echo"),
    ("call", "echo", "1"),
    ("send", "echo", "1"),
    ("listen", "echo"),
    ("machines",),
    ("shm",),
]
# All verbs that look for a run directory.
PLACED = [*LIVE, ("wait-for", "echo"), ("bench",)]


@pytest.mark.parametrize("arguments", LIVE, ids=" ".join)
def test_without_a_bus_one_line_says_where_it_was_looked_for(
    arguments: tuple[str, ...], own_run_directory: Path
) -> None:
    result = verb(*arguments)

    line = (
        f"bus: no program of bus 'bus1' runs: looked in {own_run_directory}/bus1;"
        " start one that calls open_bus('bus1'), or give the --bus and BUS_RUN_DIR of"
        " one that runs\n"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", line)
    assert not own_run_directory.exists()


@pytest.mark.parametrize("arguments", LIVE, ids=" ".join)
def test_the_buses_that_run_are_listed(arguments: tuple[str, ...]) -> None:
    with open_bus("plant"), open_bus("house"):
        result = verb(*arguments)

    assert result.exit_code == 1
    assert "; buses that run: --bus house, --bus plant; start one" in result.stderr


def test_the_doctor_lists_the_buses_that_run() -> None:
    with open_bus("plant"):
        result = verb("doctor")

    assert "has no process; buses that run: plant" in result.stdout


def test_a_bus_that_has_ended_is_none(own_run_directory: Path) -> None:
    with Far("alpha", role="master") as far:
        far.started()
        far("bus.close()")

        assert (own_run_directory / "bus1").is_dir()
        result = verb("tree")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "no program of bus 'bus1' runs" in result.stderr


@pytest.mark.usefixtures("alpha")
def test_another_bus_is_not_this_one() -> None:
    assert verb("tree", "--bus", "bus2").exit_code == 1
    with Far("other", role="master", bus="bus2") as far:
        far.started()

        result = verb("tree", "--bus", "bus2")

    assert result.stdout.splitlines()[1].startswith("  other, master, pid ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tree", "--bus", "a/b"), "bus name must match"),
        (("tree", "--machine", "-"), "machine name must match"),
        (("tree", "--timeout", "soon"), "'soon' is not a number of seconds"),
        (("tree", "--timeout", "nan"), "'nan' is not a number of seconds"),
        (("tree", "--timeout", "-1"), "'-1' is not a number of seconds"),
        (("call", "a b", "1"), "'a b' is no address"),
        (("call", "echo", "{"), "'{' is not valid JSON"),
        (("send", "echo", "nothing"), "'nothing' is not valid JSON"),
        (("call", "echo", "NaN"), "'NaN' is not valid JSON: JSON has no NaN"),
        (("call", "echo", "[-Infinity]"), "JSON has no -Infinity"),
        (("call", "echo", "[-1e400]"), "the number -1e400 is too large"),
        (("call", "echo", "[" * 100_000), "'[JSON]': is nested too deeply"),
        (("route", "a b"), "'a b' is no address"),
        (("listen", "a*"), "'a*' is no specification"),
        (("listen", "a", "--count", "0"), "0 is not in the range"),
        (("wait-for", ""), "'' is no address"),
        (("top", "--interval", "0"), "0.0 is not in the range"),
        (("top", "--interval", "nan"), "Invalid value for '--interval': "),
        (("monitor", "--type", "LETTER"), "'LETTER' is not one of"),
    ],
    ids=lambda each: " ".join(each)[:30] if isinstance(each, tuple) else None,
)
def test_an_invalid_argument_is_a_mistake_in_usage(
    arguments: tuple[str, ...], words: str
) -> None:
    result = verb(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


@pytest.mark.parametrize("there", [False, True], ids=["no bus", "a bus"])
def test_the_path_of_a_run_directory_may_be_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    place = tmp_path / ("x" * 90)
    if there:
        (place / "bus1").mkdir(parents=True)
    monkeypatch.setenv("BUS_RUN_DIR", str(place))

    for arguments in PLACED:
        result = verb(*arguments)

        assert (result.exit_code, result.stdout) == (4, "")
        assert result.stderr.startswith("bus: run directory must leave room")
        assert result.stderr.endswith("; set BUS_RUN_DIR to a shorter path\n")
        assert len(result.stderr.splitlines()) == 1
        assert place.exists() == there


@pytest.mark.parametrize("arguments", PLACED, ids=" ".join)
def test_every_verb_reports_a_run_directory_open_to_others_in_one_line(
    arguments: tuple[str, ...], own_run_directory: Path
) -> None:
    """No process can be on a bus there, so the error does not say that none is."""
    own_run_directory.mkdir()
    own_run_directory.chmod(0o755)

    result = verb(*arguments)

    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == (
        f"bus: cannot join bus 'bus1': access is denied: {own_run_directory} is open"
        " to others: mode 0755; restrict it to its owner: chmod 700"
        f" {own_run_directory}, or set BUS_RUN_DIR to another\n"
    )
    assert list(own_run_directory.iterdir()) == []


def test_the_folder_of_the_bus_that_is_open_is_the_one_that_is_named(
    own_run_directory: Path,
) -> None:
    """Not the folder of all buses, whose mode is correct."""
    own_run_directory.mkdir(0o700)
    (own_run_directory / "bus1").mkdir()
    (own_run_directory / "bus1").chmod(0o755)

    result = verb("tree")

    assert result.exit_code == 4
    assert f": chmod 700 {own_run_directory}/bus1, or set" in result.stderr


def test_a_bus_that_is_not_in_a_good_folder_is_not_made_there(
    own_run_directory: Path,
) -> None:
    """The user may have mistyped its name."""
    own_run_directory.mkdir(0o700)

    result = verb("tree")

    assert result.exit_code == 1
    assert result.stderr.startswith("bus: no program of bus 'bus1' runs: looked in ")
    assert list(own_run_directory.iterdir()) == []


OWN = "set BUS_RUN_DIR to a folder of your own with mode 0700"


@pytest.mark.parametrize(
    ("below", "words"),
    [
        ("", f"is not a directory; {OWN}"),
        ("/below", f"/below: Not a directory; {OWN}"),
        ("-gone/below", f"-gone: No such file or directory; {OWN}"),
    ],
)
def test_a_path_that_cannot_be_a_run_directory_is_reported(
    below: str, words: str, own_run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file, a path below a file, and a path below a missing folder."""
    own_run_directory.mkdir()
    place = own_run_directory / "file"
    place.touch()
    monkeypatch.setenv("BUS_RUN_DIR", f"{place}{below}")

    result = verb("tree")

    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.endswith(f"{words}\n")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
def test_the_name_of_the_machine_is_to_be_given_if_it_is_not_that_of_the_host() -> None:
    exit_code, answer, complaints = run("from bus.cli import main; main()", "list")

    assert (exit_code, answer) == (1, "")
    assert complaints.startswith("bus: cannot join bus 'bus1': access is denied")
    assert complaints.endswith("; give the machine name of that bus with --machine\n")
    assert "with --machine" not in verb("list", "--machine", "wrong").stderr


@pytest.mark.usefixtures("alpha")
def test_a_name_that_another_process_holds_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "cli1"
    monkeypatch.setattr(live, "fresh_name", lambda _: name)
    with Far(name) as twin:
        twin.started()
        # Of two lives the later one holds the name.
        monkeypatch.setattr(SocketNetwork, "new_incarnation", lambda _: 1)

        result = verb("list")

    line = (
        f"bus: already in use: process name {name!r} on bus 'bus1'; choose another, "
        f"or none: open_bus(process=...)\n"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", line)


@pytest.mark.deep
def test_a_verb_waits_for_a_hung_master_no_longer_than_its_timeout(
    alpha: Far, own_run_directory: Path
) -> None:
    alpha.signal(signal.SIGSTOP)
    begun = time.monotonic()
    for arguments in (("tree",), ("call", "echo", "1")):
        result = verb(*arguments, "--timeout", "0.2")

        assert (result.exit_code, result.stdout) == (124, "")
        assert result.stderr == (
            f"bus: the master of bus 'bus1' does not answer: {own_run_directory}/bus1\n"
        )
    assert time.monotonic() - begun < 20
    alpha.signal(signal.SIGCONT)


@pytest.mark.deep
def test_an_unresponsive_process_is_named_and_the_others_are_shown(beta: Far) -> None:
    beta.signal(signal.SIGSTOP)
    result = verb("tree", "--timeout", "2", "--json")
    beta.signal(signal.SIGCONT)

    assert result.exit_code == 124
    seen = json.loads(result.stdout)["processes"]
    assert [each["process"] for each in seen] == ["alpha"]
    # Or the time left when beta was found to hold the name.
    words = r"bus: cannot query beta: no answer from 'beta': waited for (2|1\.\d+) s\n"
    assert re.fullmatch(words, result.stderr)


def test_a_process_lost_before_it_answers_is_no_timeout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        Answers([], {"beta": PeerLostError("_bus/beta")}).end()

    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("bus: cannot query beta: no answer")


@pytest.mark.usefixtures("alpha")
def test_no_time_at_all_is_not_less_than_that() -> None:
    result = verb("tree", "--timeout", "0")

    assert (result.exit_code, result.stdout) == (124, "")
    assert result.stderr == "bus: no answer from 'alpha': waited for 0 s\n"
    late = queries.silence("beta", UnresolvedError("_bus/beta", -0.0001))
    assert str(late) == "no answer from 'beta': waited for 0 s"


# Successive masters.


TOLD = {"process": "beta", "processes": ["beta"], "users": {}}


@pytest.fixture
def masters(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Give the master at each look, the last one for good; None for no master."""
    looks: list[str | None] = []
    monkeypatch.setattr(
        queries, "_known_master", lambda _: looks.pop(0) if len(looks) > 1 else looks[0]
    )
    monkeypatch.setattr(queries, "pause", lambda _: None)
    return looks


def others_if(monkeypatch: pytest.MonkeyPatch, *errors: BusError) -> list[str]:
    """Make the questions to processes fail with these errors, then succeed."""
    left = list(errors)

    def ask(_: object, __: object, processes: Iterable[str]) -> Answers:
        [master] = processes
        return Answers([], {master: left.pop(0)}) if left else Answers([TOLD], {})

    monkeypatch.setattr(queries, "ask", ask)
    return queries.others(Mock(timeout_s=60.0), Mock())


@pytest.mark.parametrize(
    "error",
    [PeerLostError("alpha"), InDoubtError("alpha"), CommandTimeoutError("alpha", 1.0)],
    ids=lambda error: type(error).__name__,
)
def test_where_the_master_is_lost_the_next_one_is_asked(
    error: BusError, masters: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters += ["alpha", None, "beta"]

    assert others_if(monkeypatch, error) == ["beta"]


def test_a_master_is_waited_for(
    masters: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters += [None, None, "beta"]

    assert others_if(monkeypatch) == ["beta"]


def test_a_master_that_stays_and_does_not_answer_is_not_asked_again(
    masters: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters.append("alpha")

    with pytest.raises(CommandTimeoutError):
        others_if(monkeypatch, CommandTimeoutError("alpha", 1.0))


def test_the_options_are_the_same_for_all() -> None:
    for name, *_ in {each[0]: each for each in [*LIVE, ("wait-for",)]}.values():
        words = verb(name, "--help").stdout
        for option in ("--bus", "--machine", "--timeout", "--json"):
            assert f"  {option} " in words, name
    assert MACHINE[0] == "--machine"
