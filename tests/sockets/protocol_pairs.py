"""Two sides of a connection without a socket, and the bytes between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker.sockets.frames import (
    Credit,
    Goodbye,
    Hello,
    Messages,
    Ping,
    Pong,
    Refusal,
    Refused,
    Welcome,
)
from queuebroker.sockets.protocol import Protocol
from queuebroker.sockets.states import Act, State

if TYPE_CHECKING:
    from queuebroker.sockets.frames import Value

HELLO = Hello("ann", 7, 1000)
WELCOME = Welcome("bob", 4, 100)


def carry(one: Protocol, other: Protocol, piece: int = 1 << 20) -> None:
    """Carry data both ways until neither side has any to send."""
    moved = True
    while moved:
        moved = False
        for source, target in ((one, other), (other, one)):
            data = b"".join(source.data_to_send())
            for begin in range(0, len(data), piece):
                moved = True
                target.receive_data(data[begin : begin + piece])


def open_pair(welcome: Welcome = WELCOME) -> tuple[Protocol, Protocol]:
    """Return the connector's side and the acceptor's, open."""
    local, remote = Protocol(HELLO), Protocol()
    carry(local, remote)
    remote.welcome(welcome)
    carry(local, remote)
    local.events(), remote.events()
    return local, remote


def in_state(state: State) -> Protocol:
    """Return a side without history, in any state."""
    protocol = Protocol()
    protocol.state, protocol.limit = state, HELLO.limit
    return protocol


def received(protocol: Protocol) -> list[bytes]:
    """Return the messages among the events."""
    return [
        message
        for event in protocol.events()
        if isinstance(event, Messages)
        for message in event.messages
    ]


HEARD: dict[Act, Value] = {
    Act.RECEIVE_HELLO: HELLO,
    Act.RECEIVE_WELCOME: WELCOME,
    Act.RECEIVE_REFUSED: Refused(Refusal.BUSY),
    Act.RECEIVE_MESSAGES: Messages(1, (b"m",)),
    Act.RECEIVE_CREDIT: Credit(0),
    Act.RECEIVE_GOODBYE: Goodbye(0),
    Act.RECEIVE_PING: Ping(1),
    Act.RECEIVE_PONG: Pong(1),
}
