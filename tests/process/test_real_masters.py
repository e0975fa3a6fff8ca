"""The role of master among several real processes, and its passing on."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from bus import (
    AccessDeniedError,
    BusyError,
    Role,
    open_bus,
)
from bus.errors import HorizonError
from queuebroker import _sync
from specs.clauses import clause
from tests.kit.buses import socket_bus
from tests.kit.comm_threads import comm_of
from tests.process.processes import linked
from tests.process.real import Far
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from pathlib import Path

    from bus import Bus


IS_MASTER = "bus._node.comm.remote.topology.is_master"


@pytest.mark.deep
@clause("BUS-INIT-1", "BUS-INIT-2", "BUS-INIT-6")
def test_of_ten_that_start_at_once_one_is_master_and_all_are_joined() -> None:
    with ExitStack() as stack:
        all_of_them = [stack.enter_context(Far(f"p{n}")) for n in range(10)]
        for each in all_of_them:
            each.started()

        roles = [each(IS_MASTER) for each in all_of_them]
        assert roles.count(True) == 1, roles
        for number, each in enumerate(all_of_them):
            each(f"counter('t{number}')")
        for number, each in enumerate(all_of_them):
            other = (number + 3) % 10
            assert each(f"bus.call('t{other}', {number})") == number


@clause("OPEN-1", "BUS-DEREG-9")
def test_when_the_master_is_killed_another_one_takes_its_place() -> None:
    """Tasks of others stay reachable, and new ones are found."""
    with Far("first") as first:
        first.started()
        with Far("second") as second, socket_bus("third", role=Role.SLAVE) as third:
            second.started()
            second("counter('echo')")
            assert third.call("echo", 1, timeout=LIMIT_S) == 1

            first.kill()

            until(lambda: bool(second(IS_MASTER)), "there is a master again")
            assert third.call("echo", 2, timeout=LIMIT_S) == 2
            third.register("late", on_command=lambda message: message.payload)
            assert second("bus.call('late', 3)") == 3
            with Far("fourth") as fourth:
                fourth.started()
                assert fourth("bus.call('late', 4)") == 4
                assert fourth("bus.call('echo', 5)") == 5


@clause("OPEN-1", "BUS-DEREG-12")
def test_when_the_master_leaves_in_order_another_one_takes_its_place() -> None:
    with ExitStack() as first:
        # Begun before the other process, which would be master otherwise.
        first.enter_context(socket_bus("first", role=Role.MASTER))
        with Far("second") as second:
            second.started()
            second("counter('echo')")
            first.close()
            until(lambda: bool(second(IS_MASTER)), "it is master")
            with socket_bus("third") as third:
                assert third.call("echo", 1, timeout=LIMIT_S) == 1


@clause("OPEN-1", "BUS-INIT-3")
def test_a_slave_outlives_the_loss_of_the_run_directory(
    own_run_directory: Path,
) -> None:
    """It cannot be master then; it keeps searching, and finds a later master."""
    with Far("first") as first:
        first.started()
        with socket_bus("second") as second:
            shutil.rmtree(own_run_directory)
            first.kill()
            until(
                lambda: not comm_of(second).remote.topology.has_master,
                "the master is missed",
            )

            with socket_bus("third", role=Role.MASTER) as third:
                third.register("echo", on_command=lambda message: message.payload)
                assert second.call("echo", 1, timeout=LIMIT_S) == 1


@clause("OPEN-1")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_master_that_fails_leaves_its_place(caplog: pytest.LogCaptureFixture) -> None:
    with socket_bus("first") as first, socket_bus("second") as second:

        def fails() -> None:
            raise HorizonError("file", "the disk is gone", "repair it")

        with caplog.at_level("CRITICAL", logger="bus"):
            comm_of(first)._relay_outbox.ask(fails)
            until(
                lambda: comm_of(second).remote.topology.is_master,
                "the other one is master",
            )


@clause("BUS-ENT-17", "OPEN-1")
def test_a_new_master_sweeps_the_sockets_of_killed_processes(
    own_run_directory: Path,
) -> None:
    place = own_run_directory / "bus1"
    with Far("first") as first:
        first.started()  # before the next one, which might be master else
        with Far("second") as second:
            second.started()
            with socket_bus("third") as third:
                second.kill()
                assert len(list(place.glob("Slave*"))) == 2
                first.kill()
                until(
                    lambda: comm_of(third).remote.topology.has_master,
                    "there is a master",
                )
                until(lambda: len(list(place.glob("Slave*"))) == 1, "its own is left")


@clause("BUS-INIT-1", "OPEN-1")
def test_a_lock_that_was_removed_does_not_make_a_second_master(
    near: Bus, own_run_directory: Path
) -> None:
    (own_run_directory / "bus1" / "lock").unlink()

    with socket_bus("other") as other:
        assert not comm_of(other).remote.topology.is_master
        assert linked(other) == {"near"}
    with pytest.raises(BusyError, match="the master's place"):
        open_bus(role=Role.MASTER)
    assert near.machine


@pytest.mark.parametrize("role", Role)
def test_a_second_machine_in_one_run_directory_gets_the_remedy(role: Role) -> None:
    """Two network namespaces of one host may share its file system."""
    with Far("alpha", role="master") as far:
        far.started()
        with pytest.raises((AccessDeniedError, BusyError)) as raised:
            open_bus(role=role, machine="cellar")

    remedy = "another machine on this file system needs its own BUS_RUN_DIR"
    assert str(raised.value).endswith(f"; {remedy}")


class _NoThread(_sync.Thread):
    """A thread that the system does not start if it is to accept links."""

    tried = 0
    error: type[Exception] = RuntimeError

    def start(self) -> None:
        if self.name.endswith("accepts"):
            _NoThread.tried += 1
            raise self.error("can't start new thread")
        super().start()


@clause("BUS-CHAN-3", "BUS-CHAN-9", "OPEN-1")
@pytest.mark.parametrize("error", [RuntimeError, MemoryError])
def test_a_process_that_cannot_accept_peers_yet_becomes_master_later(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket_bus("near") as near, socket_bus("heir") as heir:
        topology = comm_of(heir).remote.topology
        with monkeypatch.context() as patch:
            patch.setattr(_NoThread, "error", error)
            patch.setattr(_sync, "Thread", _NoThread)
            before = _NoThread.tried
            near.close()
            until(lambda: _NoThread.tried > before, "it tries to be master")
            assert not topology.is_master
        until(lambda: topology.is_master, "then it is")
