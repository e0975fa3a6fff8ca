"""``bus doctor``: the requirements of a bus that this machine does not meet."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from bus.pipeline import session
from bus.requirements import requirements
from queuebroker import _files, _net
from tests.cli.verbs import read, verb
from tests.kit.systems import (
    needs_resource_limits,
    needs_shared_memory,
    needs_unix_sockets,
    needs_users,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def findings() -> dict[str, dict[str, str]]:
    """Return the findings by subject."""
    return {each["what"]: each for each in read("doctor")}


def test_a_healthy_machine_is_reported_as_ok(own_run_directory: Path) -> None:
    found = findings()

    shared = ("shared memory",) if _files.HAS_SEALED_MEMORY else ()
    sockets = ("sockets", "bus bus1") if _net.HAS_UNIX else ()
    for what in ("run directory", *sockets, *shared):
        assert (found[what]["state"], found[what]["do"]) == ("ok", "")
    if sockets:
        assert found["bus bus1"]["fact"].startswith("has no process")
    # The check leaves no file in the new folder.
    assert [each.name for each in own_run_directory.iterdir()] == ["bus1"]
    assert list((own_run_directory / "bus1").iterdir()) == []


def test_each_finding_is_a_line() -> None:
    result = verb("doctor")

    head, *lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert head.split() == ["what", "state", "fact", "remedy"]
    assert len(lines) == len(read("doctor"))


def test_the_packages_of_each_extra_of_all_are_listed() -> None:
    [bundle] = [
        line
        for line in map(Requirement, importlib.metadata.requires("queuebroker") or ())
        if line.marker is not None and line.marker.evaluate({"extra": "all"})
    ]

    needed = {each.name for each in requirements(*bundle.extras)}

    listed = {each.split()[1] for each in findings() if each.startswith("package ")}
    assert listed == needed


@pytest.mark.usefixtures("alpha")
def test_the_check_does_not_disturb_a_running_bus(own_run_directory: Path) -> None:
    before = sorted(each.name for each in (own_run_directory / "bus1").iterdir())

    assert findings()["bus bus1"]["fact"] == "has at least one process"
    after = sorted(each.name for each in (own_run_directory / "bus1").iterdir())
    assert after == before


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """Yield a folder with a short path that all users may write to."""
    place = Path("/tmp") / f"qbd-{os.getpid()}"
    place.mkdir()
    place.chmod(0o777)
    yield place
    place.rmdir()


def line_of(item: str, shown: str) -> str:
    """Return the line of a table about an item, by its first word."""
    [line] = [each for each in shown.splitlines() if each.startswith(f"{item} ")]
    return line


@needs_users
def test_a_run_directory_that_others_may_write_to_is_a_failure(
    open_to_all: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUS_RUN_DIR", str(open_to_all))

    result = verb("doctor")

    assert result.exit_code == 1
    line = line_of("run", result.stdout)
    assert f"{open_to_all} is open to others: mode 0777" in line
    assert f"restrict it to its owner: chmod 700 {open_to_all}" in line
    assert "Traceback" not in result.output


@needs_unix_sockets
def test_a_path_that_is_too_long_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUS_RUN_DIR", str(tmp_path / ("x" * 90)))

    result = verb("doctor")

    assert result.exit_code == 1
    assert "set BUS_RUN_DIR to a shorter path" in result.stdout


@needs_unix_sockets
def test_a_machine_without_sockets_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(_net, "listen_ipc", refuse)

    result = verb("doctor")

    assert result.exit_code == 1
    assert "cannot create a socket: [Errno 1] Operation not permitted" in result.stdout


@needs_resource_limits
@pytest.mark.parametrize(
    ("limit", "state", "exit_code"), [(32, "fail", 1), (256, "warn", 0)]
)
def test_a_low_descriptor_limit_is_reported(
    monkeypatch: pytest.MonkeyPatch, limit: int, state: str, exit_code: int
) -> None:
    monkeypatch.setattr(_files.resource, "getrlimit", lambda _: (limit, 4096))

    result = verb("doctor")

    assert result.exit_code == exit_code
    line = line_of("descriptors", result.stdout)
    assert line.split() == [
        *("descriptors", state, str(limit), "for", "each", "process"),
        *("raise", "it", "with", "ulimit", "-n,", "at", "most", "to", "4096"),
    ]


def test_a_report_that_cannot_be_drawn_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`bus pipeline check` has everything it needs."""

    def missing(*, drawing: bool = True) -> str | None:
        return "matplotlib not installed: pip install it" if drawing else None

    monkeypatch.setattr(session, "missing", missing)

    found = findings()["Java and Spark"]

    assert (found["state"], found["do"]) == ("warn", missing())
    assert found["fact"] == "bus pipeline can check, but cannot draw a report"


@needs_shared_memory
def test_a_missing_optional_feature_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "memfd_create", refuse)
    monkeypatch.setattr(session, "missing", lambda **_: "no Java found: install it")

    found = findings()

    assert found["shared memory"]["state"] == "warn"
    assert found["Java and Spark"]["state"] == "warn"
    assert found["Java and Spark"]["do"] == "no Java found: install it"
