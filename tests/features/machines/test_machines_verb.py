"""``bus machines``, ``bus tree``: the other machines, and why one is not linked."""

from __future__ import annotations

import os
import re
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from bus.cli import main
from bus.cli.text import duration, ignored_line
from queuebroker._net import unused_port
from specs.clauses import clause
from tests.cli.verbs import read, verb
from tests.kit.site import HERE, THERE, Site
from tests.kit.systems import needs_unix_sockets
from tests.process.real import Far
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_unix_sockets


def machines() -> list[dict[str, Any]]:
    """Return the machines that the verb reports."""
    output: dict[str, Any] = read("machines")
    assert (output["bus"], output["machine"]) == ("bus1", HERE)
    found: list[dict[str, Any]] = output["machines"]
    return found


@clause("BUS-DISC-13")
def test_a_linked_machine_has_its_state_and_its_round_trip(site: Site) -> None:
    with (
        Far("near", role="master", network=site.network(HERE)) as near,
        site.there("far"),
    ):
        near.started()
        until(
            lambda: any(each["round_trip_s"] for each in machines()), "it is measured"
        )
        [found] = machines()
        lines = verb("machines").stdout.splitlines()

    assert (found["name"], found["state"], found["why"]) == (THERE, "linked", "")
    assert 0 < found["round_trip_s"] < found["since_s"] < 60
    assert lines[0].split("  ")[0] == "machine"
    assert re.fullmatch(rf"{THERE} +linked +\d+\.\d s +\d+\.\d ms +-", lines[1])


@clause("BUS-DISC-13")
def test_an_address_without_a_listener_has_the_reason_of_the_system(
    site: Site,
) -> None:
    free = unused_port()
    network = site.network(HERE, peers=[f"127.0.0.1:{free}"])
    with Far("near", role="master", network=network) as near:
        near.started()
        until(lambda: machines()[0]["why"], "a dial has failed")
        [found] = machines()
        line = verb("machines").stdout.splitlines()[-1]

    address = f"tls://127.0.0.1:{free}"
    assert (found["name"], found["address"]) == (None, address)
    assert (found["state"], found["round_trip_s"]) == ("dialling", None)
    assert found["why"] == f"{address}: connection refused"
    assert line.endswith(f"  127.0.0.1:{free}  connection refused")


@clause("BUS-DISC-13", "BUS-SEC-5")
def test_a_listener_of_another_authority_has_the_reason_of_the_log(
    site: Site, tmp_path: Path
) -> None:
    other = Site(tmp_path / "other")
    peers = [f"127.0.0.1:{other.ports[THERE]}"]
    with (
        other.there("far", network=other.network(THERE, peers=[])),
        Far("near", role="master", network=site.network(HERE, peers=peers)) as near,
    ):
        near.started()
        until(lambda: machines()[0]["why"], "a dial has failed")
        [found] = machines()

    assert found["state"] == "refused"
    assert found["why"] == (
        f"tls://{peers[0]}: its certificate is not accepted: self-signed certificate in"
        " certificate chain"
    )


@clause("BUS-DISC-13", "BUS-DISC-11")
def test_ignored_announcements_are_counted_by_reason(site: Site) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        port = unused_port(datagrams=True)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        network = site.network(HERE, discovery="host", discovery_port=port)
        with Far("near", role="master", network=network) as near:
            near.started()

            def line() -> str:
                sender.sendto(b"no announcement", ("127.255.255.255", port))
                return verb("machines").stdout.splitlines()[-1]

            until(lambda: line().startswith("ignored announcements: "), "it is read")
            text = line()
            counted = read("machines")["ignored_announcements"]

    assert re.fullmatch(r"ignored announcements: \d+ malformed", text)
    assert counted["malformed"] >= 2


@pytest.mark.usefixtures("alpha")
def test_a_machine_without_others_says_so() -> None:
    assert verb("machines").stdout == f"{HERE} knows no other machine\n"


# The tree of all machines.


def machine_lines(*words: str) -> list[str]:
    """Return the lines of a tree that name machines or processes."""
    lines = verb("tree", *words).stdout.splitlines()
    return [re.sub(", pid.*", "", each) for each in lines if each[2:3] != " "]


@pytest.mark.deep
def test_a_tree_shows_the_processes_of_all_linked_machines(
    site: Site, tmp_path: Path
) -> None:
    """If it may dial them; else it names the machines."""
    file = tmp_path / "network.toml"
    file.write_text(f"keys = {str(site.network(HERE).keys)!r}\n")
    with (
        Far("near", role="master", network=site.network(HERE)) as near,
        site.there("far") as far,
        site.there("slave", network=site.network(THERE)) as slave,
    ):
        near.started()
        far("counter('echo')")
        slave("counter('second')")
        until(lambda: any(e["state"] == "linked" for e in machines()), "it is linked")

        own = [f"bus bus1 on {HERE}", "  near, master"]
        others = [f"bus bus1 on {THERE}", "  far, master", "  slave, slave"]
        assert machine_lines("--network", str(file)) == own + others
        assert machine_lines("--network", str(file), "--here") == own
        assert machine_lines() == [
            *own,
            f"linked with {THERE}: pass --network FILE to show it",
        ]
        text = verb("tree", "--network", str(file)).stdout
        assert f"    signalling link with {THERE}/far\n" in text
        assert "      second: 0 delivered, 0 unread\n" in text
        tree = read("tree", "--network", str(file))
        [other] = tree["machines"]
        assert (tree["machine"], other["machine"]) == (HERE, THERE)
        assert [each["process"] for each in other["processes"]] == ["far", "slave"]
        assert read("tree")["machines"] == []


@clause("BUS-SEC-5")
@pytest.mark.parametrize("words", [("tree",), ("call", "echo", "7")], ids=" ".join)
def test_a_verb_takes_the_name_of_the_machine_from_the_keys(
    site: Site, words: tuple[str, ...]
) -> None:
    """As `doctor` does; the host has another name."""
    assert os.uname().nodename != HERE
    file = site.folder / "network.toml"
    file.write_text(f"keys = {str(site.network(HERE).keys)!r}\n")
    with Far("near", role="master", network=site.network(HERE)) as near:
        near.started()
        near("counter('echo')")

        result = CliRunner().invoke(main, [*words, "--network", str(file)])

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith((f"bus bus1 on {HERE}\n", "7\n"))


def test_keys_that_cannot_be_read_are_one_line(site: Site) -> None:
    file = site.folder / "network.toml"
    file.write_text("keys = 'none'\n")
    with Far("near", role="master", network=site.network(HERE)) as near:
        near.started()

        result = CliRunner().invoke(main, ["tree", "--network", str(file)])

    assert (result.exit_code, result.stdout) == (4, "")
    [line] = result.stderr.splitlines()
    assert line.startswith("bus: cannot use the keys of this machine: ")
    assert "'bus keys issue MACHINE' makes such a folder" in line


@pytest.mark.deep
def test_a_tree_names_a_machine_that_does_not_answer(
    site: Site, tmp_path: Path
) -> None:
    file = tmp_path / "network.toml"
    file.write_text(f"keys = {str(site.network(HERE).keys)!r}\n")
    with (
        Far("near", role="master", network=site.network(HERE)) as near,
        site.there("far") as far,
    ):
        near.started()
        until(lambda: any(e["state"] == "linked" for e in machines()), "it is linked")
        far.signal(signal.SIGSTOP)
        result = verb("tree", "--network", str(file), "--timeout", "0.5")
        far.signal(signal.SIGCONT)

    assert result.exit_code == 124
    assert result.stdout.splitlines()[-1] == f"bus bus1 on {THERE}"
    words = rf"bus: cannot query {THERE}/far: no answer from '{THERE}/far': .*\n"
    assert re.fullmatch(words, result.stderr)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (59.9, "59.9 s"),
        (90, "1.5 min"),
        (5400, "1.5 h"),
        (1e6, "11.6 d"),
    ],
)
def test_a_duration_is_shown_in_its_largest_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_reasons_are_in_one_line_that_a_terminal_can_show() -> None:
    counts = {"repeated": 1, "malformed\x1b": 2}

    assert ignored_line(counts) == (
        r"ignored announcements: 2 malformed\x1b, 1 repeated"
    )
