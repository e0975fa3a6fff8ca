"""Each public class is a value, or refuses to be pickled and copied (QB-ERR-10).

A value is what a program passes to a child process: its pickle and its deep copy are
equal to it. An object that holds threads, locks or descriptors refuses with a sentence
that names the class and the alternative.
"""

from __future__ import annotations

import copy
import datetime as dt
import enum
import importlib
import inspect
import math
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

import bus
from bus import (
    AccessList,
    Address,
    BusConfig,
    Durability,
    Grant,
    MachineInfo,
    MachineState,
    Network,
    Presence,
    RemoteError,
    Response,
    Specification,
    Undelivered,
)
from bus.features.machines.authority import Authority, Issued
from bus.features.machines.machine_keys import MachineKeys
from bus.features.memory import Census, Descriptor, Excerpt, Holdings, Piece, PoolLayout
from bus.features.subscriptions.iterator import NotificationIterator
from bus.model.config import settings_table
from bus.model.snapshot import (
    ArenaRecipientInfo,
    LentViewsInfo,
    LongMessageCounters,
    SharedMemoryInfo,
    SlabInfo,
)
from bus.pattern import (
    BusSocket,
    Drop,
    DropReason,
    PairSocket,
    PeerStats,
    RawBusSocket,
    RawMessage,
    ReceiverAccount,
    SenderAccount,
    SocketConfig,
    SocketStats,
    device,
)
from bus.sp_gateway import GatewayStats
from bus.testing import memory_bus
from queuebroker import Broker, QueueBroker, Stats
from queuebroker.closable import Uncopyable
from queuebroker.sockets import Peer, SocketOptions, SocketQueueBroker, Tls
from queuebroker.testing import Call, Mode, Report, Round
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_MODULES: Final = (
    *("queuebroker", "queuebroker.sockets", "queuebroker.aio", "queuebroker.testing"),
    *(
        "bus",
        "bus.errors",
        "bus.model.events",
        "bus.model.config",
        "bus.model.arrays",
        "bus.sp_gateway",
    ),
    *("bus.pattern", "bus.pattern.aio", "bus.features.memory", "bus.journal.writer"),
    *(
        "bus.features.machines.authority",
        "bus.features.machines.machine_keys",
        "bus.features.subscriptions.iterator",
    ),
)
_LONG: Final = LongMessageCounters(
    shared=1, released=2, beyond_share=3, no_room=4, not_mapped=5
)
_ROUND: Final = Round(1, 2, exhausted=True)
_MODE: Final = Mode("random", 1, 2, 3)
_DROPPED: Final = {DropReason.LOST: 1}


def double(value: complex) -> str:
    """Encode a payload: a function of a module, so that it can be pickled."""
    return str(value)


def _snapshot() -> list[Any]:
    """Return the snapshot of a bus, with all its parts."""
    with memory_bus() as near:
        near.register("log").subscribe("*", double)  # type: ignore[arg-type]
        near.command("absent")
        found = near.inspect()
    (task, *_), (thread, *_) = found.tasks, found.threads
    subscription = task.subscriptions[0]
    parts = [found, found.totals, task, thread, subscription]
    parts += [subscription.notifications, found.sent]
    relay = bus.RelayInfo(Address("a"), found.sent)
    peer = bus.PeerInfo("m", "p", True, found.sent, found.sent, (relay,))
    return [*parts, relay, peer]


def _shared_memory() -> list[Any]:
    slab = SlabInfo(
        **dict.fromkeys(("number", "buffer_bytes", "buffers", "used"), 1),
        **dict.fromkeys(("loans", "leases", "abandoned"), 2),
    )
    counts = ("leases", "held_bytes", "slabs_mapped", "slabs_refused")
    recipient = ArenaRecipientInfo(
        process="p", pid=1, since_s=None, messages=_LONG, **dict.fromkeys(counts, 3)
    )
    lent = LentViewsInfo(process="p", slabs=1, views=2, since_s=0.5)
    info = SharedMemoryInfo(
        slabs=(slab,),
        recipients=(recipient,),
        messages=_LONG,
        lent=(lent,),
        **dict.fromkeys(("bytes_max", "size", "share_bytes", "stray_releases"), 4),
    )
    return [slab, recipient, lent, info, _LONG]


def _pattern() -> list[Any]:
    sent, taken = SenderAccount(1, 2), ReceiverAccount(1, 2, 3, 4)
    peer = PeerStats(
        pipe=1,
        url="tcp://h:1",
        is_native=True,
        node=2,
        is_standby=False,
        dropped=_DROPPED,
        remote_sent=sent,
        remote_taken=taken,
        **dict.fromkeys(("sent", "queued", "arrived", "delivered"), 3),
    )
    counts = dict.fromkeys(("node", "sent", "delivered", "received_queued"), 3)
    stats = SocketStats(dropped=_DROPPED, peers=(peer,), **counts)
    drop, message = Drop(1, DropReason.LOST, 2), RawMessage(b"x", 1, 2, 3)
    return [sent, taken, peer, stats, drop, message, SocketConfig(repeat_s=1.0)]


def _values() -> list[Any]:
    """Return a value of each public class that is one."""
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    grant = Grant(uids=[1], register="a/*")
    access = AccessList(uids={1}, gids=[2], grants=[grant])
    return [
        *(BusConfig(), BusConfig(access=access, encoders={complex: double}, window=7)),
        *(Network(peers=["127.0.0.1"], listen="127.0.0.1:0"), Durability("/var/x")),
        *(grant, access, Address("a", machine="m", bus="b"), *settings_table()),
        *(Specification("a/*", machine="m"), Presence(Address("a"), True)),
        *(Response(Address("a"), {"x": (1, b"2")}, None, "ref"), *_snapshot()),
        MachineInfo(
            name="m",
            address=None,
            state=next(iter(MachineState)),
            since_s=math.pi,
            round_trip_s=None,
            why="",
        ),
        GatewayStats(
            **dict.fromkeys(("messages", "notified", "undecodable"), 1),
            **dict.fromkeys(("notifications", "sent", "own", "unsendable"), 2),
        ),
        *(Issued("m", moment, moment, "a", current=True), *_shared_memory()),
        *(
            Excerpt(1, 2),
            PoolLayout(1, 2, 3, 4),
            Piece(1, 2, 3, 4),
            Holdings(1, 2, 3),
        ),
        *(Descriptor(1, (Piece(1, 2, 3, 4),), 3), Census(1, 2, 3, 4, 5, 6, 7)),
        *(*_pattern(), Stats(1, 2, 3, 4, 5, 6), Peer("p", 1, uris=("ism://m/",))),
        *(SocketOptions(lease_s=7.0, ports=[1]), Tls(certificate="/k.pem")),
        *(_ROUND, _MODE, Call("t", "send", (1,), 0)),
        Report(1, (_ROUND,), 1, 1, 1, 1, (_MODE,), True, "s", 1, 1, 1.0),
    ]


VALUES: Final = _values()


def _public_classes() -> Iterator[type]:
    for module in map(importlib.import_module, _MODULES):
        for name in module.__all__:
            if inspect.isclass(each := getattr(module, name)):
                yield each


PUBLIC: Final = list(dict.fromkeys(_public_classes()))


def _copies(value: object) -> Iterator[Any]:
    yield copy.copy(value)
    yield copy.deepcopy(value)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.loads(pickle.dumps(value, protocol))  # our own


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_equal_to_its_pickle_and_to_its_copies(value: object) -> None:
    for made in _copies(value):
        assert type(made) is type(value)
        assert made == value


def test_undelivered_messages_keep_their_error_in_a_copy() -> None:
    """An error equals only itself, so its parts are compared."""
    for made in _copies(Undelivered("a", b"x", RemoteError("a", "why"))):
        assert (made.to, made.payload) == ("a", b"x")
        assert type(made.error) is RemoteError
        assert vars(made.error) == {"name": "a", "text": "why"}


def test_the_copied_keys_of_a_machine_keep_their_folder(tmp_path: Path) -> None:
    folder = Authority.create(tmp_path / "authority").issue("m", tmp_path / "m")

    for made in _copies(MachineKeys(folder)):
        assert (made.folder, made.machine) == (folder, "m")


def test_the_copied_encoders_of_a_config_cannot_be_changed() -> None:
    config = BusConfig(encoders={complex: double})

    for made in _copies(config):
        with pytest.raises(TypeError, match="does not support item assignment"):
            made.encoders[bytes] = double


@clause("QB-ERR-10")
@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: kind.__name__)
def test_each_public_class_is_a_value_or_refuses(kind: Any) -> None:
    """A new class is in the table above, or is `Uncopyable`."""
    if issubclass(kind, (enum.Enum, BaseException)) or Protocol in kind.__bases__:
        assert not issubclass(kind, Uncopyable)  # errors: QB-ERR-7, `tests.bus`
        return
    compared_in_tests = {*map(type, VALUES), Undelivered, MachineKeys}

    assert (kind in compared_in_tests) is not issubclass(kind, Uncopyable)
    if kind not in compared_in_tests:
        assert kind.__reduce__ is Uncopyable.__reduce__
        assert kind.__copy__ is Uncopyable.__copy__
        assert kind.__reduce_ex__ is object.__reduce_ex__
        assert not hasattr(kind, "__deepcopy__")


def _check_refuses(name: str, value: object) -> None:
    text = rf"cannot pickle or copy {name}: it belongs to its process; \w.* \w"
    acts: tuple[Callable[[object], object], ...] = (
        *(copy.copy, copy.deepcopy, pickle.dumps),
        lambda value: pickle.dumps(value, 0),
    )
    for act in acts:
        with pytest.raises(TypeError, match=text):
            act(value)


@clause("QB-ERR-10")
def test_the_objects_of_a_bus_refuse_to_be_copied() -> None:
    """The error of a bus states that another process joins it."""
    with memory_bus() as near:
        received: list[Any] = []
        task = near.register("a", on_command=received.append)
        near.call("a")
        handle = task.command("a", on_response=lambda _: None)
        live = [near, near.thread(), task, task.subscribe("a", print), received[0]]
        live += [near.listen("a"), task.watch("a", print), handle]

        for each in live:
            _check_refuses(type(each).__name__, each)
        with pytest.raises(TypeError, match="another process joins the bus, with open"):
            pickle.dumps(near)
        with pytest.raises(TypeError, match="another process sends to its address"):
            pickle.dumps(task)
        with task.loan(10) as loan:
            _check_refuses("Loan", loan)
    assert isinstance(live[5], NotificationIterator)


@clause("QB-ERR-10")
def test_brokers_and_sockets_refuse_to_be_copied() -> None:
    """As do the listeners, diallers and devices of a socket."""
    with (
        BusSocket() as left,
        PairSocket() as pair,
        RawBusSocket() as raw,
        Broker("b") as broker,
        QueueBroker("q") as plain,
        SocketQueueBroker("s") as served,
        device(raw) as reflector,
    ):
        listener = left.listen("inproc://copies")
        live = [left, pair, raw, broker, plain, served, reflector, listener]
        for each in [*live, raw.dial("inproc://copies")]:
            _check_refuses(type(each).__name__, each)


@pytest.mark.deep
def test_another_process_gets_an_equal_config() -> None:
    """As a child of `multiprocessing` does with spawn and forkserver."""
    config = BusConfig(encoders={complex: double}, window=9)
    program = (
        "import pickle, sys; config = pickle.load(sys.stdin.buffer);"
        "sys.stdout.buffer.write(pickle.dumps((config, config.encoders[complex](1j))))"
    )

    done = subprocess.run(  # our own program
        [sys.executable, "-c", program],
        input=pickle.dumps(config),
        stdout=subprocess.PIPE,
        check=True,
    )

    assert pickle.loads(done.stdout) == (config, "1j")  # our own
