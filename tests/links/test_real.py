"""A bus of real processes: the election of the master, and the death of processes."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    NOREPLY,
    BusyError,
    CommandTimeoutError,
    InDoubtError,
    PeerLostError,
    Response,
    Role,
    Undelivered,
    UnresolvedError,
    open_bus,
)
from bus.links import socket_listeners
from bus.links.comm_thread import CommThread
from bus.links.link_helpers import LinkHelpers
from bus.links.socket_listeners import SocketListeners
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import join_both, socket_bus
from tests.kit.comm_threads import comm_of
from tests.kit.inspection import all_acknowledged
from tests.kit.tasks import unwanted
from tests.links.processes import linked
from tests.links.real import Far
from tests.processes import run, start
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from pathlib import Path

    from bus import Bus


as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become another user"
)
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


@clause("BUS-ENT-14", "BUS-ENT-12")
def test_buses_of_other_names_are_other_buses(near: Bus) -> None:
    with socket_bus("x", name="bus2") as other:
        near.register("t", on_command=lambda _: "one")
        other.register("t", on_command=lambda _: "two")

        assert near.call("t") == "one"
        assert other.call("t") == "two"
        assert linked(other) == set()


# Departures and deaths.


@clause("BUS-DEREG-9", "BUS-MOVE-8", "BUS-ENT-17")
def test_a_killed_process_is_lost_and_its_unread_commands_are_in_doubt(
    near: Bus,
) -> None:
    """The command it was executing is reported as lost with it."""
    told: list[Undelivered] = []
    answers: list[Response] = []
    seen: list[bool] = []
    watcher = near.register("watcher")
    watcher.watch("held", lambda presence: seen.append(presence.here))
    sender = near.register("sender", on_undelivered=told.append)
    with Far("far") as far:
        far.started()
        # It reads the first command, and none of the others.
        far("made.update(go=__import__('threading').Event())")
        far("bus.register('held', on_command=lambda m: made['go'].wait(60)) and None")
        sender.command("held", 0, on_response=answers.append)
        until(lambda: seen == [True], "it is seen")
        for number in range(1, 4):
            sender.command("held", number)

        def taken_but_three() -> bool:
            peers = list(comm_of(near).remote.topology.peers.values())
            relays = [relay for peer in peers for relay in peer.all_relays()]
            return any(relay.asked and relay.under_way == 3 for relay in relays)

        until(taken_but_three, "the first is taken, three are on the link")

        far.kill()

        until(lambda: seen == [True, False], "it is missed")
        until(lambda: len(told) == 3, "all is told")
        assert [each.payload for each in told] == [1, 2, 3]
        assert {type(each.error) for each in told} == {InDoubtError}
        assert [type(each.error) for each in answers] == [PeerLostError]
        with pytest.raises((PeerLostError, UnresolvedError)):
            near.call("held", timeout=0.2)


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

        until(lambda: len(got) == 1, "the asker is told")
        assert isinstance(got[0].error, PeerLostError)


@clause("BUS-MOVE-1", "BUS-MOVE-4", "BUS-DEREG-4", "BUS-MSG-15")
def test_a_task_goes_from_process_to_process_and_loses_nothing(near: Bus) -> None:
    """Commands sent meanwhile follow the task, in order."""
    sender = near.register("sender", on_undelivered=unwanted)
    with Far("one") as one, Far("two") as two:
        one.started()
        two.started()
        got: list[int] = []
        for turn in range(6):
            here = one if turn % 2 else two
            here("counter('mover')")
            for number in range(20):
                sender.command("mover", turn * 20 + number)
            here("made['mover'].has(1) or made['mover'].task.deregister()")
            # Else the registration of the next owner would be rejected (BUS-MOVE-7).
            until(lambda: "mover" not in owners(near), "the master has heard")
            got += here("made['mover'].got")
        two("counter('mover')")
        got += two(f"made['mover'].has({120 - len(got)}) or made['mover'].got")

        assert got == list(range(120))
        all_acknowledged(near)


def owners(master: Bus) -> dict[str, object]:
    """Return the process of each name, according to the master."""
    return dict(comm_of(master).remote.name_registry.users.owners())


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


@clause("BUS-INIT-6", "BUS-INIT-5")
def test_a_process_keeps_its_name_against_a_second_process(near: Bus) -> None:
    """A second process is rejected, and may have the name after the first has left."""
    with Far("twin") as first:
        first.started()
        first("counter('echo')")

        with pytest.raises(BusyError, match="process name 'twin' on bus 'bus1'"):
            open_bus(process="twin", machine="machine")

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


@clause("BUS-ROUTE-19", "BUS-FLOW-5")
def test_a_call_to_a_silent_task_times_out_and_is_not_unresolved(near: Bus) -> None:
    near.register("silent", on_command=lambda _: NOREPLY)
    with (
        socket_bus("asker", role=Role.SLAVE) as asker,
        pytest.raises(CommandTimeoutError),
    ):
        asker.call("silent", timeout=0.3)


@clause("BUS-DEREG-12")
def test_a_bus_closes_in_time_though_no_task_holds_the_name(near: Bus) -> None:
    with socket_bus("brief", role=Role.SLAVE) as brief:
        brief.command("nobody", 1)
        began = monotonic()
        brief.close(drain=0.1)
    assert 0.1 <= monotonic() - began < LIMIT_S
    assert not near.tasks()


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


@clause("BUS-INIT-6", "BUS-INIT-1")
def test_no_process_joins_under_the_name_of_the_master(near: Bus) -> None:
    with Far("far") as far:
        far.started()
        with pytest.raises(BusyError, match="process name 'near'"):
            open_bus(process="near", machine="machine", role=Role.SLAVE)
        near.register("echo", on_command=lambda message: message.payload)
        assert far("bus.call('echo', 1)") == 1


@clause("BUS-ENT-14", "BUS-MSG-1")
def test_a_sender_on_two_buses_has_its_own_identity_on_each() -> None:
    """The number of a task on one bus denotes another task elsewhere."""
    with (
        open_bus("bus1", process="near", machine="machine") as near,
        open_bus("two", process="near", machine="machine") as two,
        Far("far", bus="two") as far,
    ):
        far.started()
        far("made.update(who=[])")
        heard = "lambda message: made['who'].append(message.sender.module)"
        far(f"made.update(f=bus.register('f', on_command={heard}))")
        with Far("beside") as beside:
            beside.started()
            beside("counter('g')")
            sender = near.register("sender")
            other = two.register("other")
            assert sender.call("g", 1) == 1
            other.call("f")
            sender.command("f", bus="two")
            until(lambda: len(far("made['who']")) == 2, "both have come")

        assert far("made['who']") == ["other", "sender"]
