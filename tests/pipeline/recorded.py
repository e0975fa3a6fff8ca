"""A small run of real channels, recorded, between brokers with hostile names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.journal.writer import Journal
from queuebroker import Broker, BrokerManager, QueueBroker
from tests.support import Threads

if TYPE_CHECKING:
    from pathlib import Path

    from queuebroker import MessageQueue

__all__ = ["BYTES", "CLIENT", "EVIL", "SENT", "SERVER", "record"]

SERVER: Final = "server"
CLIENT: Final = "client"
# Markup, mathematics, a placeholder for a colour, a line break, half a character.
EVIL: Final = "<script>alert('$x_1$ & \"#010101\"')</script>\n\udc80" + "long" * 30

SENT: Final = {(CLIENT, SERVER): 300, (SERVER, CLIENT): 20, (EVIL, SERVER): 7}
BYTES: Final = 4096
_PORT: Final = 7


def record(folder: Path) -> None:
    """Record channels whose messages are all received; every journal is closed."""
    with (
        Journal(folder, machine="host") as journal,
        BrokerManager(observer=journal.observe) as manager,
    ):
        server = QueueBroker(SERVER, manager=manager, capacity=16)
        client = QueueBroker(CLIENT, manager=manager, capacity=16)
        evil = QueueBroker(EVIL, manager=manager, capacity=16)
        there, here = _meet(server, client)
        with there, here:
            _carry(here, there, SENT[CLIENT, SERVER])
            _carry(there, here, SENT[SERVER, CLIENT])
        there, here = _meet(server, evil)
        with there, here:
            _carry(here, there, SENT[EVIL, SERVER])
        _write_bytes(manager)


def _meet(
    server: QueueBroker, client: QueueBroker
) -> tuple[MessageQueue, MessageQueue]:
    with Threads() as threads:
        accepted = threads.start(server.accept, _PORT)
        connected = client.connect(server.name, _PORT, required=True)
    return accepted.result(), connected


def _carry(source: MessageQueue, target: MessageQueue, messages: int) -> None:
    """Send from one end to the other, with ten messages under way at a time."""
    for start in range(0, messages, 10):
        sizes = range(start, min(start + 10, messages))
        for size in sizes:
            source.send(bytes(size))
        for size in sizes:
            assert len(target.receive()) == size


def _write_bytes(manager: BrokerManager) -> None:
    left, right = (Broker(name, manager=manager) for name in ("left", "right"))
    with Threads() as threads:
        accepted = threads.start(left.accept, _PORT)
        connected = right.connect("left", _PORT, required=True)
    with accepted.result() as far, connected as near:
        near.write_all(bytes(BYTES))
        far.read_exactly(BYTES)
