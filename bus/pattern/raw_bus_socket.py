"""`RawBusSocket`: a bus socket that states and respects where messages came from."""

from __future__ import annotations

import attrs
from typing_extensions import Buffer

from bus.pattern.bus_socket import AnyBusSocket
from bus.pattern.message_run import MessageRun
from bus.pattern.native import body_of
from bus.pattern.socket_state import Waiting
from queuebroker.arguments import deadline_after, index
from queuebroker.waiting.parking import Pending

__all__ = ["RawBusSocket", "RawMessage"]

_NUMBERS = 1 << 64
_PIPES = 1 << 31


@attrs.frozen(slots=True)
class RawMessage:
    """A message with the tag of the connection that it came by.

    body: the message.
    pipe: the id of that connection (BP-7); 0 for a message without a tag. It never
      travels (BP-9), and names no connection of another socket (BP-10).
    origin, number: the node that sent the message first, and its number there (BP-16);
      0 for a new message. A peer of another library is an origin of its own.
    """

    body: bytes
    pipe: int = 0
    origin: int = 0
    number: int = 0

    @property
    def header(self) -> bytes:
        """The tag as NNG shows it: 4 bytes, big-endian."""
        return self.pipe.to_bytes(4)


class RawBusSocket(AnyBusSocket[RawMessage]):
    """A bus socket for a `device`: it receives messages with their tags.

    If such a message is sent, it goes to all peers but for the one that it came by
    (BP-8).

    Args:
        config, on_drop, native: as for `BusSocket`.
    """

    __slots__ = ()

    def send(self, message: RawMessage | Buffer) -> None:
        """Send a message to all peers but for that of its tag; never waits.

        Raises:
            TypeError: it is no `RawMessage` and not bytes-like.
            queuebroker.MessageTooLargeError: it has 4 GiB or more.
            ValueError: an origin or a number is not of 64 bits, or only one of them 0;
              or a pipe is not of 31 bits.
            BrokerClosedError: the socket is closed.
            BusyError: a device uses the socket.
        """
        if not isinstance(message, RawMessage):
            message = RawMessage(body_of(message))
        origin = index("origin", message.origin)
        number = index("number", message.number) if origin else 1
        # Else each native peer disconnects.
        if not (0 <= origin < _NUMBERS and 0 < number < _NUMBERS):
            raise ValueError(
                "message must have an origin and a number from 1 to 2^64 - 1, or origin"
                f" 0, got origin {origin} and number {number}"
            )
        pipe = index("pipe", message.pipe)
        if not 0 <= pipe < _PIPES:
            raise ValueError(
                "message must have the pipe of a received message, or 0 for none, got "
                f"pipe {pipe}"
            )
        body = body_of(message.body)
        run = MessageRun(origin, number, [body])
        self._node.forward(run, came_by=pipe)

    def receive(self, timeout: float | None = None) -> RawMessage:
        """Return the next message of any peer, one peer after the other.

        timeout: in seconds; None for no limit, 0 to return at once.

        Raises:
            ReceiveTimeoutError: none arrived in time.
            BrokerClosedError: the socket is closed.
            BusyError: a device uses the socket.
        """
        return _tagged(*self._node.receive_tagged(deadline_after(timeout)))

    def _receiving(self) -> Waiting[RawMessage]:
        waiters, take, ready = self._node.inbound.receiving_tagged()

        def attempt() -> RawMessage | Pending:
            taken = take()
            if isinstance(taken, Pending):
                return taken
            pipe, run = taken
            return _tagged(pipe.id, run)

        return waiters, attempt, ready


def _tagged(pipe: int, run: MessageRun) -> RawMessage:
    return RawMessage(run.bodies[0], pipe, run.origin, run.first)
