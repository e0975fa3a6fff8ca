"""`Durability`, and processes that use it: what a restart refuses (AMO-20)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from bus import (
    Bus,
    BusyError,
    Durability,
    HorizonError,
    InDoubtError,
    Role,
    open_bus,
)
from bus.features.durable.horizons import Horizon, Horizons
from bus.kernel import wire
from bus.model.payload import encode
from bus.process.memory_network import MemoryNetwork
from queuebroker import _files
from specs.clauses import clause
from tests.kit.buses import socket_bus
from tests.kit.comm_threads import comm_of, held
from tests.kit.tasks import Reader
from tests.process.hostile import NAME, Hostile
from tests.support import LIMIT_S, until

SENDER = f"machine/{NAME}"


@pytest.fixture
def place(own_run_directory: Path) -> Path:
    """Return the run directory of the bus."""
    return own_run_directory / "bus1"


@pytest.fixture(params=[False, True], ids=["steps", "exact"])
def durability(tmp_path: Path, request: pytest.FixtureRequest) -> Durability:
    folder, exact = tmp_path / "horizons", request.param
    return Durability(folder, messages_per_sync=8, sync_on_arrival=exact)


# Settings.


def test_the_settings_are_checked(tmp_path: Path) -> None:
    assert Durability("here").directory == Path.cwd() / "here"
    made = Durability(tmp_path)
    assert (made.messages_per_sync, made.sync_on_arrival) == (1024, False)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        (
            {"messages_per_sync": 0},
            ValueError,
            r"messages_per_sync must be in 1\.\.4294967296, got 0",
        ),
        ({"messages_per_sync": 2**32 + 1}, ValueError, "messages_per_sync must be in"),
        (
            {"messages_per_sync": True},
            TypeError,
            "messages_per_sync must be an int, got True",
        ),
        (
            {"messages_per_sync": 1.0},
            TypeError,
            r"messages_per_sync must be an int, got 1\.0",
        ),
        ({"sync_on_arrival": 1}, TypeError, "sync_on_arrival must be a bool, got 1"),
    ]
    for changes, kind, text in wrong:
        with pytest.raises(kind, match=text):
            Durability(tmp_path, **changes)


def test_a_durable_process_needs_a_name(durability: Durability) -> None:
    with pytest.raises(ValueError, match="durability needs the name of this process"):
        open_bus(durability=durability)
    with pytest.raises(TypeError, match=r"durability must be a .*Durability"):
        open_bus(durability=durability.directory, process="me")  # type: ignore[arg-type]


def test_a_bus_that_is_not_opened_leaves_the_directory(
    durability: Durability, own_run_directory: Path
) -> None:
    with (
        socket_bus("other", role=Role.MASTER),
        pytest.raises(BusyError, match="the master's place"),
    ):
        open_bus(
            role=Role.MASTER, process="me", machine="machine", durability=durability
        )

    with open_bus(process="me", machine="machine", durability=durability) as bus:
        assert bus.process == "me"


def test_one_directory_serves_one_process(
    durability: Durability, own_run_directory: Path
) -> None:
    with (
        open_bus(process="me", durability=durability),
        pytest.raises(BusyError, match="a directory of its own"),
    ):
        open_bus("bus2", process="me", durability=durability)
    with pytest.raises(HorizonError, match="those of process 'me'"):
        open_bus(process="you", durability=durability)


# Restarts.


class Lives:
    """Lives of one durable process, and a sender that repeats its messages.

    The sender speaks the protocol by itself: a process of this package never sends a
    message to two incarnations (AMO-19).
    """

    def __init__(self, place: Path, durability: Durability) -> None:
        self._place, self._durability = place, durability
        self.epoch = 10**9

    def life(self, *numbers: int, epoch: int = 0) -> list[int]:
        """Send messages to a new life; return those that it delivers."""
        with (
            socket_bus("near", role=Role.MASTER, durability=self._durability) as bus,
            Hostile(self._place / "Master") as sender,
        ):
            reader = Reader(bus)
            sender.epoch = epoch or self.epoch  # type: ignore[misc]
            sender.greet()
            to = sender.found("reader")
            for number in numbers:
                sender.number = number
                sender.say(sender.messages(to=to, body=wire_body(number), flags=0))
            if not sender.is_heard():
                pytest.fail(f"the link is closed: {sender.why_closed()}")
            bus.call("reader", 0)  # behind all messages that were accepted
            return [each for each in reader.got if each]


def wire_body(number: int) -> bytes:
    return encode(number)


@pytest.fixture
def lives(place: Path, durability: Durability) -> Lives:
    return Lives(place, durability)


@clause("AMO-20", "AMO-3")
def test_a_restarted_process_refuses_what_it_may_have_delivered(
    lives: Lives, durability: Durability
) -> None:
    """The first link after the restart begins at the horizon."""
    assert lives.life(1, 2, 3) == [1, 2, 3]

    horizon = 3 if durability.sync_on_arrival else 1 + durability.messages_per_sync
    again = lives.life(*range(1, horizon + 2))

    assert again == [horizon + 1]
    assert lives.life(*range(1, horizon + 2)) == []


@clause("AMO-20", "AMO-16")
def test_a_restarted_process_refuses_an_older_epoch(
    lives: Lives, caplog: pytest.LogCaptureFixture
) -> None:
    assert lives.life(1, epoch=lives.epoch + 1) == [1]
    with pytest.raises(AssertionError):
        lives.life(9, epoch=lives.epoch)
    assert lives.life(1, epoch=lives.epoch + 2) == [1]


@clause("AMO-20")
def test_the_log_says_which_numbers_are_refused(
    lives: Lives, caplog: pytest.LogCaptureFixture
) -> None:
    lives.life(1)
    caplog.clear()

    lives.life(1)

    (line,) = [each.message for each in caplog.records if "AMO-20" in each.message]
    assert line.startswith(f"{SENDER} continues epoch {lives.epoch}: numbers below ")


@clause("AMO-17")
def test_a_restarted_process_has_a_greater_incarnation_than_before(
    durability: Durability,
) -> None:
    """Each network counts from one, as a clock does that was set back."""
    seen = []
    for _ in range(3):
        network = MemoryNetwork("bus1")
        with Bus(
            "bus1",
            process="me",
            machine="machine",
            network=network,
            durability=durability,
        ) as bus:
            seen.append(bus._node.incarnation)

    assert seen == sorted(set(seen))


# Delivery.


@clause("AMO-20")
def test_no_message_is_delivered_before_its_horizon_is_stored(
    durability: Durability,
    own_run_directory: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        socket_bus("near", role=Role.MASTER, durability=durability) as near,
        socket_bus("far", role=Role.SLAVE) as far,
    ):
        reader = Reader(near)
        sync, seen = _files.sync, list[int]()

        def synced(file: int) -> None:
            [task] = [each for each in near.tasks() if each.address.module == "reader"]
            seen.append(task.commands.accepted)
            sync(file)

        monkeypatch.setattr(_files, "sync", synced)
        assert far.call("reader", 1, timeout=LIMIT_S) == 1
        assert far.call("reader", 2, timeout=LIMIT_S) == 2

    assert reader.got == [1, 2]
    assert seen == ([0, 1] if durability.sync_on_arrival else [0])


@clause("AMO-20")
def test_a_process_whose_storage_fails_delivers_nothing_more(
    durability: Durability,
    own_run_directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It acknowledges nothing either: its sender is told of a message in doubt."""

    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    undelivered: list[Any] = []
    with (
        socket_bus("far", role=Role.MASTER) as far,
        socket_bus("near", role=Role.SLAVE, durability=durability) as near,
        caplog.at_level(logging.ERROR, "bus"),
    ):
        reader = Reader(near)
        sender = far.register("sender", on_undelivered=undelivered.append)
        far.wait_for("reader", timeout=LIMIT_S)
        monkeypatch.setattr(_files, "sync", fail)
        sender.command("reader", 1)
        until(lambda: bool(undelivered), "the sender gets the error")
        comm_of(near).join()

    assert reader.got == []
    assert [type(each.error) for each in undelivered] == [InDoubtError]
    assert any(
        each.message.startswith("this process leaves the bus: cannot use the horizons")
        for each in caplog.records
    )


@clause("AMO-20")
def test_a_stored_horizon_belongs_to_the_sending_process(
    durability: Durability, own_run_directory: Path
) -> None:
    with (
        socket_bus("near", role=Role.MASTER, durability=durability) as near,
        socket_bus("far", role=Role.SLAVE) as far,
    ):
        Reader(near)
        far.call("reader", 1, timeout=LIMIT_S)
        horizons = comm_of(near).remote.topology.horizons
        assert isinstance(horizons, Horizons)
        horizon = horizons.of("machine/far")
        peer = far._node.comm
        assert peer is not None
        (session,) = [each.session for each in peer.remote.topology.peers.values()]

    assert horizon is not None
    assert horizon.epoch == session.epoch
    assert horizon == Horizon(session.epoch, horizon.number)


@clause("AMO-20")
def test_no_message_is_acknowledged_if_its_horizon_was_not_stored(
    durability: Durability, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even at once, as the sender of a duplicate gets it."""

    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    with (
        socket_bus("near", role=Role.MASTER, durability=durability) as near,
        Hostile(place / "Master") as sender,
    ):
        reader = Reader(near)
        to = sender.greet().found("reader")
        monkeypatch.setattr(_files, "sync", fail)
        with held(near):  # so that one round reads both copies
            for _ in range(2):
                sender.number = 1
                sender.say(sender.messages(to=to, flags=0))

        acks = []
        while (frame := sender.hear()) is not None:
            if isinstance(frame, wire.Ack):
                acks.append(frame.last)
        assert set(acks) <= {0}
        comm_of(near).join()

    assert reader.got == []
