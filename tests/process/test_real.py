"""A bus of real processes: the election of the master, and the death of processes."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    BusyError,
    PeerLostError,
    Response,
    Role,
    open_bus,
)
from bus.process import socket_listeners
from bus.process.comm_thread import CommThread
from bus.process.link_helpers import LinkHelpers
from bus.process.socket_listeners import SocketListeners
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import join_both, socket_bus
from tests.kit.comm_threads import comm_of
from tests.process.real import Far
from tests.processes import run, start
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from pathlib import Path

    from bus import Bus


IS_MASTER = "bus._node.comm.remote.topology.is_master"


def names(name_registry: Path) -> list[str]:
    """Return the names of the entries of the run directory."""
    return sorted(each.name for each in name_registry.iterdir())


# Joining.


@clause("BUS-ENT-16", "BUS-SEC-3", "BUS-DEREG-12")
def test_sockets_are_named_after_bus_and_role_and_go_with_their_processes(
    near: Bus, own_run_directory: Path
) -> None:
    place = own_run_directory / "bus1"
    with Far("far") as far:
        far.started()
        master, slave, lock = names(place)
        assert (master, lock) == ("Master", "lock")
        assert re.fullmatch("Slave[0-9a-f]{11}", slave)
        for each in place.glob("[MS]*"):
            assert stat.S_IMODE(each.stat().st_mode) == 0o600

        far("bus.close()")

        until(lambda: names(place) == ["Master", "lock"], "its socket is gone")
    near.close()
    assert names(place) == ["lock"]


@pytest.mark.deep
@clause("BUS-ENT-16")
def test_processes_with_the_same_pid_share_a_run_directory() -> None:
    """Each in its own pid namespace or, where none can be made, with a faked pid 1.

    Users reported three containers with one run directory: the third could not listen
    at `Slave1.1`, the socket of the second, and none could join beside `p1`.
    """
    unshare = ["unshare", "--pid", "--fork", "--kill-child"]
    possible = subprocess.run([*unshare, "true"], check=False, capture_output=True)
    prefix = () if possible.returncode else unshare
    with ExitStack() as stack:
        started = []
        for name in "abc":
            process = stack.enter_context(start(WITH_PID_1, name, prefix=prefix))
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "joined\n"
            started.append(process)

        others = [_told(each, "a b c") for each in started]

        assert others == ["1 a b c\n"] * 3
        for each in started:
            answer, complaints = each.communicate(timeout=LIMIT_S)
            assert (answer, complaints, each.returncode) == ("", "", 0)


def _told(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{words}\n")
    process.stdin.flush()
    return process.stdout.readline()


WITH_PID_1 = """
    import os, sys
    if os.getpid() != 1:
        os.getpid = lambda: 1
    from bus import open_bus
    with open_bus("bus1") as bus:
        bus.register(sys.argv[1], on_command=lambda message: message.payload)
        print("joined", flush=True)
        names = sys.stdin.readline().split()
        print(os.getpid(), *[bus.call(each, each) for each in names], flush=True)
        sys.stdin.read()
"""


# Departures and deaths.


@clause("BUS-NAME-5", "BUS-CHAN-7")
def test_lone_questions_of_a_task_of_another_bus_are_answered(
    near: Bus, other: Bus
) -> None:
    """Each is alone on its link, where others would take the fast path."""
    with memory_bus("second") as second:
        join_both(near, second)
        t = second.register("t", thread=second.here())
        for number in range(20):
            assert t.call("far", number, bus=near.name, timeout=LIMIT_S) == number
            assert near.call("far", number, timeout=LIMIT_S) == number


@clause("BUS-NAME-5", "BUS-MOVE-8")
def test_the_loss_of_a_process_fails_the_question_of_a_task_of_another_bus(
    near: Bus,
) -> None:
    got: list[Response] = []
    with memory_bus("second") as second, Far("far") as far:
        join_both(near, second)
        far.started()
        far("made.update(go=__import__('threading').Event())")
        far("bus.register('held', on_command=lambda m: made['go'].wait(60)) and None")
        t = second.register("t")
        t.command("held", bus=near.name, on_response=got.append)

        def is_asked() -> bool:
            peers = list(comm_of(near).remote.topology.peers.values())
            return any(relay.asked for peer in peers for relay in peer.all_relays())

        until(is_asked, "the question is taken")
        far.kill()

        until(lambda: len(got) == 1, "the asker gets the error")
        assert isinstance(got[0].error, PeerLostError)


@pytest.mark.deep
@clause("OPEN-21")
def test_a_bus_of_a_process_that_ends_by_itself_is_left_in_order(
    near: Bus, own_run_directory: Path
) -> None:
    """Without an explicit close; its tasks deregister at once, and are not lost."""
    seen: list[bool] = []
    near.register("watcher").watch("brief", lambda presence: seen.append(presence.here))
    code = """
        from bus import open_bus
        bus = open_bus(process="brief", machine="machine")
        bus.register("brief", on_command=lambda m: m.payload)
        assert bus.call("brief", 1) == 1
    """
    exit_code, _, complaints = run(code)

    assert exit_code == 0, complaints
    assert complaints == ""
    until(lambda: seen == [True, False], "it came and went")
    assert names(own_run_directory / "bus1") == ["Master", "lock"]


@clause("BUS-INIT-6", "BUS-INIT-5", "BUS-SEC-10")
def test_a_process_keeps_its_name_against_a_second_process(
    near: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """A second process is rejected, and may have the name after the first has left.

    It tries several times, since the first may have just ended. The log has one line.
    """
    with Far("twin") as first:
        first.started()
        first("counter('echo')")

        with pytest.raises(BusyError, match="process name 'twin' on bus 'bus1'"):
            open_bus(process="twin", machine="machine")

        [line] = caplog.messages
        assert line.startswith(f"process 'machine/twin' (pid {os.getpid()}) is")
        assert "open_bus(process=...)" in line
        assert near.call("echo", 1) == 1
        assert first("bus.call('echo', 2)") == 2
        first.kill()
    with Far("twin") as second:
        second.started()
        second("counter('again')")
        assert near.call("again", 3) == 3


@clause("BUS-DEREG-12", "BUS-ROUTE-7")
def test_commands_sent_before_a_bus_is_closed_still_arrive(near: Bus) -> None:
    """Even if the place of the addressee was not known at the time."""
    got: list[object] = []
    near.register("reader", on_command=lambda message: got.append(message.payload))
    for number in range(5):
        with socket_bus(f"brief{number}", role=Role.SLAVE) as brief:
            brief.command("reader", number)
    assert got == list(range(5))


# Failures to join, and later ones.


@clause("BUS-INIT-1", "OPEN-1")
@pytest.mark.parametrize("at", ["start", "driver", "listen", "thread"])
def test_a_process_that_fails_to_open_a_bus_leaves_nothing_behind(
    at: str, monkeypatch: pytest.MonkeyPatch, own_run_directory: Path
) -> None:
    """Least of all the lock: another process may want to be master."""

    def fails(*_: object, **__: object) -> Any:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        where, what = {
            "start": (CommThread, "_begin"),
            "driver": (socket_listeners, "Driver"),
            "listen": (SocketListeners, "listen"),
            "thread": (LinkHelpers, "_start_helper"),
        }[at]
        patch.setattr(where, what, fails)
        with pytest.raises(OSError, match="Too many open files") as caught:
            open_bus()

    assert caught.value.errno == errno.EMFILE
    assert caught.value.strerror == (
        "cannot open bus 'bus1': Too many open files; let this process open more files"
        " (ulimit -n), or close some"
    )
    assert {*names(own_run_directory / "bus1")} <= {"lock"}
    with open_bus(role=Role.MASTER) as bus:
        assert comm_of(bus).remote.topology.has_master
