"""BUS-SEC-1, BUS-SEC-3: how a verb judges the run directory of another user."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bus import AccessDeniedError, AccessList, BusConfig, Grant, Role
from bus.cli.run_directory import access_to, is_served, remedy, run_directory, user_id
from bus.cli.target import Target
from bus.process.run_directory import RunDirectory
from specs.clauses import clause
from tests.cli.verbs import read, verb
from tests.kit.buses import socket_bus
from tests.kit.systems import needs_root, needs_unix_sockets, needs_users

if TYPE_CHECKING:
    from pathlib import Path

GUESTS = AccessList(grants=[Grant(gids=[4321])])


def target(owner: int | None = None) -> Target:
    return Target("bus1", "machine", as_json=False, timeout_s=10.0, owner=owner)


@clause("BUS-SEC-1", "BUS-SEC-3")
@needs_root
def test_the_owner_of_a_bus_for_others_looks_at_it_as_at_any(
    own_run_directory: Path,  # no other bus is there
) -> None:
    config = BusConfig(access=GUESTS)
    with socket_bus("host", role=Role.MASTER, config=config) as host:
        host.register("doer", on_command=lambda message: message.payload)

        listed = read("list", "--machine", "machine")

        assert "doer" in {each["name"] for each in listed}
        found = {each["what"]: each for each in read("doctor")}
        assert found["run directory"]["state"] == "ok"
        assert found["run directory"]["fact"].endswith("is open to group 4321")


@clause("BUS-SEC-1")
@needs_root
def test_a_member_of_an_admitted_group_may_not_send_commands_to_a_verb() -> None:
    RunDirectory("bus1", GUESTS)

    access = access_to(target())

    assert access.groups == {4321}
    rights = access.rights(1234, 4321)
    assert rights is not None
    assert not rights.may_command("anything")
    assert access.rights(1234, 1234) is None


@clause("BUS-SEC-3")
@needs_root
def test_a_bus_of_somebody_else_is_looked_at_if_that_one_is_named(
    own_run_directory: Path,
) -> None:
    RunDirectory("bus1", GUESTS)
    for each in (own_run_directory, own_run_directory / "bus1"):
        os.chown(each, 4321, -1)

    with pytest.raises(AccessDeniedError, match="belongs to uid 4321"):
        is_served(target())

    assert not is_served(target(owner=4321))
    assert run_directory(target(owner=4321)).path.name == "bus1"


@needs_unix_sockets
def test_where_there_is_no_bus_nothing_is_made(own_run_directory: Path) -> None:
    assert not is_served(target())
    assert not own_run_directory.exists()
    assert access_to(target()).groups == set()


@needs_users
def test_a_user_is_named_or_numbered() -> None:
    assert (user_id("0"), user_id("root")) == (0, 0)
    with pytest.raises(ValueError, match="there is no user 'nobody-of-that-name'"):
        user_id("nobody-of-that-name")


def test_a_number_that_no_user_can_have_is_a_mistake_in_usage() -> None:
    assert user_id(str(2**32 - 2)) == 2**32 - 2
    for number in (2**32 - 1, 99999999999):
        result = verb("tree", "--owner", number)

        assert result.exit_code == 2
        assert "Invalid value for '--owner': " in result.stderr
        assert result.stderr.endswith(f", not {number}\n")


@needs_unix_sockets
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("no/a", "no: No such file or directory"),
        ("file/a", "file/a: Not a directory"),
    ],
)
def test_where_no_run_directory_can_be_made_the_setting_is_named(
    own_run_directory: Path, monkeypatch: pytest.MonkeyPatch, place: str, said: str
) -> None:
    own_run_directory.mkdir()
    (own_run_directory / "file").touch()
    monkeypatch.setenv("BUS_RUN_DIR", str(own_run_directory / place))

    result = verb("tree")

    assert (result.exit_code, result.stdout) == (4, "")
    (line,) = result.stderr.splitlines()
    assert f"{own_run_directory / said}; set BUS_RUN_DIR to " in line


@clause("BUS-SEC-3")
@needs_root
def test_a_remedy_names_only_a_step_that_the_user_can_take(
    own_run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may not change the mode is not advised to."""
    own_run_directory.mkdir()
    os.chown(own_run_directory, 4321, -1)
    denied = AccessDeniedError("join bus 'bus1'", f"{own_run_directory} is wrong")

    said = remedy(target(), denied)
    assert said == "pass --owner 4321 if you trust its owner"
    said = remedy(target(owner=4321), denied)
    assert said == "ask its owner, uid 4321, for access"
    os.chown(own_run_directory, os.geteuid(), -1)
    assert f"chmod 700 {own_run_directory}," in remedy(target(), denied)

    monkeypatch.setenv("BUS_RUN_DIR", f"{own_run_directory}/gone")
    said = remedy(target(), FileNotFoundError())
    assert said == "set BUS_RUN_DIR to a folder of your own with mode 0700"
    said = remedy(target(), ValueError("run directory must have a path in UTF-8"))
    assert said == "set BUS_RUN_DIR to a path in UTF-8"


@clause("BUS-SEC-3")
@needs_root
def test_a_folder_open_to_a_group_without_the_bus_does_not_serve_it(
    own_run_directory: Path,
) -> None:
    """Its mode admits their group, as it must."""
    RunDirectory("bus2", GUESTS)

    assert not is_served(target())
    assert [each.name for each in own_run_directory.iterdir()] == ["bus2"]
