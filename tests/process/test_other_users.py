"""F3: processes of other users, which a bus neither trusts nor serves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bus import (
    AccessDeniedError,
    BusConfig,
    Role,
    open_bus,
)
from specs.clauses import clause
from tests.kit.buses import socket_bus
from tests.kit.systems import needs_root, needs_users
from tests.process.processes import linked
from tests.process.real import Far
from tests.processes import run, start
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from bus import Bus


@clause("BUS-INIT-5", "BUS-SEC-1", "BUS-SEC-3")
@needs_root
def test_another_user_is_denied_access(near: Bus, own_run_directory: Path) -> None:
    assert near.machine
    with Far("far") as far:
        # The process neither owns the directory nor has permission to enter it.
        far.started()
        error = far(
            "[__import__('os').setegid(4321), __import__('os').seteuid(4321)] and None"
        )
        assert error is None
        words = far(
            "str(__import__('pytest').raises(Exception, "
            "__import__('bus').open_bus, 'bus1b', process='stranger').value)"
        )
        assert "access is denied" in words
        assert str(own_run_directory) in words


@needs_users
@clause("BUS-INIT-5")
def test_a_denied_access_names_the_bus(tmp_path: Path) -> None:
    wrong = Path("/tmp") / f"qbw-{os.getpid()}"
    wrong.mkdir()
    wrong.chmod(0o777)
    try:
        with pytest.raises(AccessDeniedError, match="cannot join bus 'bus1'"):
            open_bus(config=BusConfig(run_directory=str(wrong)))
    finally:
        wrong.rmdir()


_STRANGER = """
    import ctypes, os, sys
    # Peers get the credentials of another user from the kernel. The process still has
    # the file permissions of root.
    os.seteuid(4321)
    ctypes.CDLL(None).setfsuid(0)
    from queuebroker.errors import QueueBrokerError
    from queuebroker.sockets import SocketQueueBroker
    place, role = sys.argv[1:]
    if role == "dial":
        try:
            SocketQueueBroker("stranger").connect("ipc://" + place, 1, timeout=30)
        except QueueBrokerError as error:
            print(type(error).__name__, error)
    else:
        with SocketQueueBroker("squatter", listen="ipc://" + place) as broker:
            print("listens", flush=True)
            try:
                broker.accept(1).receive(timeout=30)
            except QueueBrokerError as error:
                print("received nothing:", type(error).__name__, flush=True)
"""


@pytest.mark.deep
@clause("BUS-SEC-2", "BUS-SEC-4", "BUS-INIT-5")
@needs_root
@pytest.mark.parametrize("which", ["Master", "Slave*"])
def test_the_credentials_of_a_dialling_process_are_checked(
    near: Bus, own_run_directory: Path, which: str
) -> None:
    """By master and slave alike, whichever files the process can open."""
    with Far("far") as far:
        far.started()
        [place] = (own_run_directory / "bus1").glob(which)

        exit_code, answer, complaints = run(_STRANGER, place, "dial")

        assert exit_code == 0, complaints
        assert "NotAdmittedError" in answer
        assert "uid 4321" in answer
        assert linked(near) == {"far"}


@clause("BUS-SEC-2", "BUS-INIT-5")
@needs_root
def test_the_credentials_of_a_listening_process_are_checked(
    own_run_directory: Path,
) -> None:
    """A process of another user that listens as the master receives no messages."""
    with socket_bus("keeper", role=Role.MASTER):
        pass  # creates the directory
    place = own_run_directory / "bus1" / "Master"
    with start(_STRANGER, place, "listen") as squatter:
        assert squatter.stdout is not None
        assert squatter.stdout.readline() == "listens\n"

        with pytest.raises(AccessDeniedError, match="is not trusted: uid 4321"):
            open_bus(role=Role.SLAVE)

        answer, complaints = squatter.communicate(timeout=LIMIT_S)
        assert answer.startswith("received nothing"), complaints


_NOBODY = """
    import os, socket, sys
    from queuebroker.errors import QueueBrokerError
    from queuebroker.sockets import SocketQueueBroker
    from bus import BusError, Role, open_bus
    place = sys.argv[1]
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    try:
        with socket.socket(socket.AF_UNIX) as bare:
            bare.connect(place)
        SocketQueueBroker("nobody").connect("ipc://" + place, 1, timeout=30)
    except (OSError, QueueBrokerError) as error:
        print(type(error).__name__, error)
    try:
        open_bus(role=Role.SLAVE)
    except BusError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.deep
@clause("BUS-SEC-1", "BUS-SEC-2", "BUS-SEC-3", "BUS-INIT-5")
@needs_root
@pytest.mark.parametrize("opened", [False, True], ids=["closed", "open"])
def test_another_user_is_refused_although_files_are_open(
    near: Bus, other: Bus, place: Path, *, opened: bool
) -> None:
    """By the directory's permissions or, if it is open, by the peer credentials."""
    if opened:
        place.parent.chmod(0o755)
        place.chmod(0o755)
        (place / "Master").chmod(0o666)

    exit_code, answer, complaints = run(_NOBODY, place / "Master")

    assert exit_code == 0, complaints
    dialled, joined = answer.splitlines()
    if opened:
        assert dialled.startswith("NotAdmittedError")
        assert "uid 65534" in dialled
    else:
        assert dialled.startswith("PermissionError")
    assert joined.startswith("AccessDeniedError")
