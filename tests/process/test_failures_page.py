"""Claims of docs/explanation/when-something-dies.md that no other test covers."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    BusConfig,
    CommandTimeoutError,
    InDoubtError,
    NameTakenError,
    RemoteError,
    Response,
    Role,
    Undelivered,
    UnresolvedError,
)
from specs.clauses import clause
from tests.kit.buses import socket_bus
from tests.kit.comm_threads import comm_of
from tests.process.processes import linked, under_way
from tests.process.real import Far
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus import Bus

# A task that returns from its callback when `made['go']` is set.
HELD = (
    "made.update(go=__import__('threading').Event(), held=bus.register('held', "
    "on_command=lambda m: made['go'].wait(60)))"
)
IS_BUSY = "any(each.busy_s is not None for each in bus.inspect().threads)"


@pytest.fixture
def far(near: Bus) -> Iterator[Far]:
    """Yield a second process, a slave."""
    assert near.machine
    with Far("far") as process:
        yield process.started()


# The end of a task or a thread.


@clause("BUS-DEREG-9")
def test_a_system_exit_deregisters_only_the_tasks_of_its_thread(
    near: Bus, far: Far
) -> None:
    """A callback's exception ends nothing; SystemExit ends its thread."""
    seen: list[tuple[str, bool]] = []
    watcher = near.register("watcher")
    watcher.watch("far/*", lambda p: seen.append((p.address.module, p.here)))
    far("counter('far/beside')")
    far("bus.register('far/bad', on_command=lambda m: 1 / 0) and None")
    far(
        "bus.register('far/quits', thread=bus.thread('t'), "
        "on_command=lambda m: __import__('sys').exit()) and None"
    )
    until(lambda: len(seen) == 3, "all are seen")

    with pytest.raises(RemoteError, match="ZeroDivisionError"):
        near.call("far/bad")
    near.command("far/quits")

    until(lambda: len(seen) == 4, "one of them goes")
    assert seen[3] == ("far/quits", False)
    assert near.call("far/beside", 1) == 1
    with pytest.raises(RemoteError):
        near.call("far/bad")


# The end of a process.


@clause("BUS-MOVE-8", "BUS-DEREG-9")
def test_commands_under_way_are_in_doubt_and_queued_ones_reach_the_next_task() -> None:
    undelivered: list[Undelivered] = []
    with socket_bus("near", role=Role.MASTER, config=BusConfig(window=2)) as near:
        sender = near.register("sender", on_undelivered=undelivered.append)
        with Far("far") as far:
            far.started()
            far(HELD)
            sender.command("held", 0)
            until(lambda: bool(far(IS_BUSY)), "it takes the first")
            until(lambda: under_way(near) == 0, "it says so")
            for number in range(1, 6):
                sender.command("held", number)
            until(lambda: under_way(near) == 2, "the window is full")

            far.kill()
            until(lambda: len(undelivered) == 2, "messages in doubt are reported")

        got: list[Any] = []
        near.register("held", on_command=lambda message: got.append(message.payload))
        until(lambda: len(got) == 3, "messages not under way arrive")
        # Command 0 was read and wants no answer: it has no outcome to report.
        assert [(each.payload, type(each.error)) for each in undelivered] == [
            (1, InDoubtError),
            (2, InDoubtError),
        ]
        assert got == [3, 4, 5]


@pytest.mark.deep
@clause("BUS-RELAY-8")
def test_a_subscription_resumes_when_its_notifier_returns(near: Bus) -> None:
    """The subscription persists; a notification without a subscriber is lost."""
    received: list[tuple[Any, int]] = []
    seen: list[bool] = []
    reader = near.register("reader")
    reader.subscribe("sensor", lambda m: received.append((m.payload, m.gap)))
    reader.watch("sensor", lambda presence: seen.append(presence.here))

    def live(life: int) -> None:
        with Far("far") as far:
            far.started()
            far("made.update(sensor=bus.register('sensor'))")
            until(lambda: len(seen) == 2 * life - 1, "it is here")
            # Its process knows the subscriber before this reply comes back.
            far("bus.wait_for('reader') and None")
            far(f"made['sensor'].notify({life})")
            until(lambda: len(received) == life, "it is received")
            far.kill()
            until(lambda: len(seen) == 2 * life, "it is missed")

    live(1)
    live(2)

    assert received == [(1, 0), (2, 0)]
    assert seen == [True, False, True, False]


@clause("OPEN-21", "BUS-ENT-17")
def test_a_signal_that_ends_a_process_kills_it_and_the_next_master_tidies_up(
    own_run_directory: Path,
) -> None:
    """No handler catches SIGTERM: the process leaves a socket without a listener."""
    place = own_run_directory / "bus1"
    with socket_bus("near", role=Role.MASTER) as near, Far("far") as far:
        far.started()
        far.signal(signal.SIGTERM)
        until(lambda: linked(near) == set(), "its link is gone")
        [left] = place.glob("Slave*")
    assert left.exists()
    with socket_bus("next", role=Role.MASTER):
        assert not left.exists()


# A stopped process.


@clause("OPEN-2", "BUS-FLOW-5", "BUS-MOVE-7")
def test_a_stopped_process_keeps_its_name_and_later_executes_its_commands(
    near: Bus, far: Far
) -> None:
    seen: list[bool] = []
    near.register("watcher").watch("echo", lambda p: seen.append(p.here))
    far("counter('echo')")
    assert near.call("echo", 0) == 0

    far.signal(signal.SIGSTOP)
    with pytest.raises(CommandTimeoutError):
        near.call("echo", 1, timeout=0.2)
    with pytest.raises(NameTakenError):
        near.register("echo")
    assert seen == [True]
    far.signal(signal.SIGCONT)

    # Too late for the caller, but executed all the same: that is the meaning of in
    # doubt.
    assert near.call("echo", 2) == 2
    assert far("made['echo'].got") == [0, 1, 2]


# The end of the master.


@pytest.mark.deep
@clause("BUS-INIT-3", "BUS-ENT-13")
def test_slaves_that_may_not_be_master_wait_for_theirs_and_go_on() -> None:
    quick = BusConfig(resolve_timeout_s=0.3)
    with (
        Far("far", role="slave") as far,
        socket_bus("near", role=Role.SLAVE, config=quick) as near,
    ):
        far.started()
        far("counter('echo')")
        with Far("master", role="master") as master:
            master.started()
            near.wait_for("echo", timeout=LIMIT_S)
            assert near.call("echo", 1, timeout=LIMIT_S) == 1
            master.kill()

        assert near.call("echo", 2, timeout=LIMIT_S) == 2
        far("counter('late')")
        with pytest.raises(UnresolvedError):
            near.call("late", 3)

        with Far("master", role="master") as again:
            again.started()
            near.wait_for("late", timeout=LIMIT_S)
            assert near.call("late", 4, timeout=LIMIT_S) == 4


@pytest.mark.deep
@clause("OPEN-2", "BUS-INIT-3")
def test_a_newcomer_is_isolated_until_the_stopped_master_resumes() -> None:
    quick = BusConfig(connect_timeout_s=0.3, resolve_timeout_s=0.3)
    with Far("master", role="master") as master:
        master.started()
        master("counter('echo')")
        master.signal(signal.SIGSTOP)
        with socket_bus("near", config=quick) as near:
            near.register("own", on_command=lambda message: message.payload)
            assert near.call("own", 1) == 1
            with pytest.raises(UnresolvedError):
                near.call("echo", 2)

            master.signal(signal.SIGCONT)
            near.wait_for("echo", timeout=LIMIT_S)
            assert near.call("echo", 3, timeout=LIMIT_S) == 3


# Loss of the run directory.


@clause("BUS-ENT-16", "BUS-ENT-13")
def test_linked_processes_need_no_run_directory_but_newcomers_do(
    near: Bus, far: Far, own_run_directory: Path
) -> None:
    far("counter('echo')")
    assert near.call("echo", 0) == 0

    shutil.rmtree(own_run_directory)

    assert near.call("echo", 1) == 1
    with socket_bus("stranger") as stranger:
        # The stranger has made a directory of its own, and is master there.
        assert comm_of(stranger).remote.topology.is_master
        answers: list[Response] = []
        asker = stranger.register("asker")
        asker.command("echo", 2, on_response=answers.append, timeout=0.3)
        until(lambda: len(answers) == 1, "it is reported")
        assert isinstance(answers[0].error, UnresolvedError)
    assert far("made['echo'].got") == [0, 1]
