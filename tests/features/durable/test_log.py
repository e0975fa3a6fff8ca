"""`HorizonLog` and `DiskStorage`: the order of their steps, and their failures."""

from __future__ import annotations

import errno
import os
import stat
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from bus.errors import BusyError, HorizonError
from bus.features.durable.format import Owner
from bus.features.durable.horizons import Horizon
from bus.features.durable.storage import DiskStorage
from bus.features.durable.store import HorizonLog
from queuebroker import _files
from specs.clauses import clause
from tests.kit.systems import needs_fork

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

OWNER = Owner("bus1", "machine", "me", 1000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "horizons of me"


@pytest.fixture
def log(folder: Path) -> Iterator[HorizonLog]:
    log = HorizonLog(DiskStorage(folder), OWNER)
    yield log
    log.close()


class Calls:
    """Records the calls that change or sync something, and fails some of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.failing = ""
        for name in ("pwrite", "sync", "sync_folder"):
            self._record(monkeypatch, _files, name)
        self._record(monkeypatch, os, "replace")

    def _record(
        self, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
    ) -> None:
        call = getattr(module, name)

        def recorded(*arguments: object, **named: object) -> object:
            self.names.append(name)
            if name == self.failing:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return call(*arguments, **named)

        monkeypatch.setattr(module, name, recorded)


def again(folder: Path, **changes: object) -> HorizonLog:
    fields = {"bus": "bus1", "machine": "machine", "process": "me", "incarnation": 1000}
    return HorizonLog(DiskStorage(folder), Owner(**{**fields, **changes}))  # type: ignore[arg-type]


# What is stored.


@clause("AMO-20")
def test_stored_horizons_are_found_after_a_restart(
    log: HorizonLog, folder: Path
) -> None:
    log.store({"a": Horizon(1, 5)})
    log.store({"a": Horizon(1, 7), "b": Horizon(2, 1)})
    log.close()

    later = again(folder)
    later.close()

    assert later.horizons == {"a": Horizon(1, 7), "b": Horizon(2, 1)}


def test_a_horizon_that_is_stored_is_not_written_again(
    log: HorizonLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.store({"a": Horizon(1, 5)})
    calls = Calls(monkeypatch)

    log.store({"a": Horizon(1, 4)})
    log.store({"a": Horizon(1, 5)})

    assert calls.names == []
    assert log.has({"a": Horizon(1, 5)})
    assert not log.has({"a": Horizon(1, 6)})


@clause("AMO-20")
def test_a_group_is_synced_by_one_call(
    log: HorizonLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)

    log.store({"a": Horizon(1, 5), "b": Horizon(1, 5)})

    assert calls.names == ["pwrite", "sync"]


def test_many_horizons_are_stored_in_groups_each_synced_by_itself(
    log: HorizonLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A torn write of two groups could leave the second one alone."""
    many = {f"machine/{number}": Horizon(1, number) for number in range(500)}
    calls = Calls(monkeypatch)

    log.store(many)
    log.close()

    count = len(calls.names) // 2
    assert count > 1
    assert calls.names == ["pwrite", "sync"] * count
    later = again(folder)
    later.close()
    assert later.horizons == many


@clause("AMO-20")
def test_a_long_log_is_rewritten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = HorizonLog(DiskStorage(folder), OWNER, bytes_max=300)
    calls = Calls(monkeypatch)
    sizes = []
    for number in range(200):
        log.store({"sender": Horizon(1, number + 1)})
        sizes.append((folder / "horizons").stat().st_size)
    log.close()

    assert max(sizes) < 800
    rewriting = ["pwrite", "sync", "replace", "sync_folder"]
    joined = " ".join(calls.names)
    assert joined.count(" ".join(rewriting)) == calls.names.count("replace") > 1
    lock, _, _ = _files.to_lock(folder)
    assert {*folder.iterdir()} - {lock} == {folder / "horizons"}


# Incarnations.


@clause("AMO-17")
def test_a_later_life_has_a_greater_incarnation_whatever_the_clock(
    log: HorizonLog, folder: Path
) -> None:
    log.close()
    seen = [log.incarnation]
    for clock in (1000, 5, 10**18, 10**18, 7):
        later = again(folder, incarnation=clock)
        later.close()
        seen.append(later.incarnation)

    assert seen[0] == 1000
    assert all(one + 2**32 <= two for one, two in pairwise(seen))
    assert seen[3] == 10**18


# Who may use it.


@pytest.mark.parametrize("what", ["bus", "machine", "process"])
def test_the_directory_of_another_process_is_refused(
    log: HorizonLog, folder: Path, what: str
) -> None:
    log.close()

    with pytest.raises(HorizonError, match=r"are those of process 'me'.*'other'"):
        again(folder, **{what: "other"})
    again(folder).close()  # it was released


@clause("AMO-20")
def test_a_directory_is_used_by_one_process_at_a_time(
    log: HorizonLog, folder: Path
) -> None:
    with pytest.raises(BusyError, match=r"give each process .* a directory of its own"):
        again(folder)

    log.store({"a": Horizon(1, 1)})
    log.close()
    later = again(folder)
    later.close()
    assert later.horizons == {"a": Horizon(1, 1)}


def test_no_other_user_can_enter_the_directory(log: HorizonLog, folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "horizons").stat().st_mode) == 0o600


def test_a_missing_parent_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        again(tmp_path / "missing" / "horizons")


@needs_fork
@clause("AMO-20")
def test_a_forked_child_does_not_keep_the_directory(
    log: HorizonLog, folder: Path
) -> None:
    """A child that outlives its parent must not stop the next process."""
    read, write = os.pipe()
    begun, begin = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.write(begin, b"!")
        os.read(read, 1)  # until the parent has closed its end
        os._exit(0)
    try:
        os.read(begun, 1)
        log.close()
        again(folder).close()
    finally:
        for each in (read, write, begun, begin):
            os.close(each)
        assert os.waitpid(child, 0)[1] == 0


# Failures.


@clause("AMO-20")
@pytest.mark.parametrize("name", ["pwrite", "sync"])
def test_after_a_failure_nothing_is_stored_any_more(
    log: HorizonLog, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A failed sync may have dropped the bytes: a later one proves nothing."""
    calls = Calls(monkeypatch)
    calls.failing = name

    with pytest.raises(HorizonError, match="Input/output error; check the storage"):
        log.store({"a": Horizon(1, 1)})
    calls.failing = ""
    with pytest.raises(HorizonError, match="Input/output error"):
        log.store({"a": Horizon(1, 1)})

    assert log.horizons == {}


def test_a_closed_log_stores_nothing(log: HorizonLog) -> None:
    log.close()
    log.close()

    with pytest.raises(HorizonError, match="their log is closed"):
        log.store({"a": Horizon(1, 1)})


def test_a_storage_that_fails_at_the_start_is_released(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    calls.failing = "sync"
    with pytest.raises(OSError, match="Input/output error"):
        again(folder)

    calls.failing = ""
    again(folder).close()
