"""`SpGateway`: makes the bus of a socket of `bus.pattern` a leaf of a bus of tasks.

It stands above both: `bus.pattern` has no tasks, and `bus.api` no wire of nanomsg.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeAlias

import attrs

from bus.api.arguments import check_instance, check_optional_callback
from bus.api.bus import Bus
from bus.api.bus_thread import BusThread
from bus.errors import BusError, UnknownTaskError
from bus.model.address import Address
from bus.model.message import Incoming
from bus.model.specification import Specification
from bus.pattern.bus_socket import BusSocket
from bus.pattern.message_run import MessageRun
from bus.process.failures import InternalErrors
from queuebroker import _sync
from queuebroker.arguments import known_as, snapshot, wrong_type
from queuebroker.closable import Closable
from queuebroker.errors import BrokerClosedError

__all__ = ["GatewayStats", "SpGateway", "bytes_of"]

Where: TypeAlias = str | Address | Specification

_log: Final = logging.getLogger("bus.gateway")

# How long `close` waits for a notification that is under way, in seconds.
_JOIN_S: Final = 5.0
_RUN_MAX: Final = 64  # messages of one peer before those of another one


@attrs.frozen(kw_only=True)
class GatewayStats:
    """The account of a gateway; totals since it was opened.

    messages: those that came from the socket: ``notified`` and ``undecodable``.
    notified: those that became notifications.
    undecodable: those for which ``decode`` or the notification raised an error.
    notifications: those of tasks in ``forward``: ``sent``, ``own``, ``unsendable``.
    sent: those that were sent on the socket, which counts its drops itself.
    own: notifications of the gateway itself, which do not go back (no echo).
    unsendable: those whose payload is not bytes, or for which ``encode`` raised.
    """

    messages: int
    notified: int
    undecodable: int
    notifications: int
    sent: int
    own: int
    unsendable: int


class SpGateway(Closable):
    """A task that notifies the messages of a socket, and sends notifications to it.

    For subscribers, each message from the socket is a notification of the task
    ``name``, in the order in which the messages of one peer arrived. For the peers of
    the socket, which may be programs with nanomsg or NNG, each notification of a task
    in ``forward`` is a message. A message from the socket never goes back to it, even
    if ``forward`` includes ``name``.

    Two gateways between the same two buses are a loop, unless neither forwards the
    notifications of the other: no message of nanomsg or NNG states where it came from
    (BP-16).

    The gateway owns the socket, as a device does: any other use but ``stats``,
    ``listen``, ``dial`` and ``join_group`` raises `BusyError`. It ends with the first
    of these: `close`, the end of a ``with`` block, or the close of the socket. If the
    bus is closed, it ends at the next message. The end closes the socket.

    Args:
        bus: the open bus to register on.
        socket: connected, or to be connected later.
        name: the name of the task.
        forward: the names or patterns of the tasks whose notifications are sent to the
          socket; one or several.
        thread: the thread that hosts the task; the bus's own default thread if None.
        encode: maps a notification to the bytes to send; if None, a payload must be
          bytes.
        decode: maps the bytes of a message to the payload of its notification; if None,
          the payload is these bytes.

    Raises:
        NameTakenError, AccessDeniedError, ValueError: as `Bus.register`.
        TypeError: a wrong argument.
        BusyError, BrokerClosedError: the socket has another owner, or is closed.
    """

    def __init__(
        self,
        bus: Bus,
        socket: BusSocket,
        name: str,
        *,
        forward: Where | Iterable[Where] = (),
        thread: BusThread | None = None,
        encode: Callable[[Incoming], bytes] | None = None,
        decode: Callable[[bytes], Any] | None = None,
    ) -> None:
        check_instance("bus", bus, Bus)
        check_instance("socket", socket, BusSocket)
        check_optional_callback("encode", encode)
        check_optional_callback("decode", decode)
        if isinstance(forward, str | Address | Specification):
            forward = (forward,)
        elif not isinstance(forward, Iterable):
            raise wrong_type("forward", "a name, a pattern, or several", forward)
        self._encode: Final = encode or bytes_of
        self._decode: Final = decode
        # Each counter has one writer: the thread of the socket, or that of the task. A
        # message is counted before it leaves: its receiver finds it counted.
        self._notified: int = 0
        self._undecodable: int = 0
        self._sent: int = 0
        self._own: int = 0
        self._unsendable: int = 0
        self._socket: Final = socket  # it closes when it is collected
        self._node: Final = socket._node
        self._owner: Final = f"gateway {name!r}"
        try:
            self._node.own(self._owner)
            self._task: Final = bus.register(name, thread=thread)
            try:
                for where in forward:
                    self._task.subscribe(where, self._send)
                self._thread: Final = _sync.Thread(
                    target=self._notify_all, name=self._owner, daemon=True
                )
                self._thread.start()
            except BaseException:
                self._task.deregister()
                raise
        except BaseException:
            self._node.disown(self._owner)
            raise

    def __repr__(self) -> str:
        return f"<SpGateway {self.address}>"

    @property
    def address(self) -> Address:
        """The address that subscribers name to get the messages of the socket."""
        return self._task.address

    @property
    def closed(self) -> bool:
        """True once it forwards nothing any more."""
        return self._node.closed

    @property
    def stats(self) -> GatewayStats:
        """The account of both directions."""
        return GatewayStats(
            messages=self._notified + self._undecodable,
            notified=self._notified,
            undecodable=self._undecodable,
            notifications=self._sent + self._own + self._unsendable,
            sent=self._sent,
            own=self._own,
            unsendable=self._unsendable,
        )

    def close(self) -> None:
        """Leave the bus, and close the socket; for any thread."""
        self._task.deregister()
        self._node.close()
        if _sync.current_thread() is not self._thread:
            _sync.join(self._thread, _JOIN_S)

    # From the socket; in the thread of the gateway.

    def _notify_all(self) -> None:
        try:
            errors = InternalErrors(self._owner)
            self._notify_ready()
            while True:
                try:
                    _, run = self._node.receive_tagged(None, self._owner, _RUN_MAX)
                    for body in run.bodies:
                        self._notify(body)
                    errors.on_success()
                except MemoryError as error:  # these messages are lost
                    errors.on_error(error)
        except BrokerClosedError:
            pass  # the socket
        except UnknownTaskError:
            self._node.close()  # the bus is closed
        self._task.deregister()

    def _notify_ready(self) -> None:
        """Notify messages that a receive before the start has made ready."""
        ready = self._node.inbound.ready
        with suppress(IndexError):
            while True:
                self._notify(ready.popleft())
        self._node.on_ready_empty()

    def _notify(self, body: bytes) -> None:
        decode = self._decode
        try:
            payload = body if decode is None else decode(body)
        except Exception:  # noqa: BLE001 # of the application, of any kind
            self._undecodable += 1
            _log.exception("%s: decode has raised an error", self._owner)
            return
        self._notified += 1
        try:
            self._task.notify(payload)
        except UnknownTaskError:
            self._notified -= 1
            raise
        except Exception as error:  # noqa: BLE001 # such as of an encoder of the bus
            self._notified -= 1
            self._undecodable += 1
            _log.warning(
                "%s: a message was not notified: %s",
                self._owner,
                error,
                exc_info=not isinstance(error, BusError),
            )

    # To the socket; in the thread of the task.

    def _send(self, message: Incoming) -> None:
        if message.sender == self._task.address:
            self._own += 1
            return
        try:
            body = snapshot(self._encode(message), 0, None, None)
        except Exception as error:  # noqa: BLE001 # of the application, of any kind
            self._reject(message, error)
            return
        self._sent += 1
        try:
            run = MessageRun(0, 0, [body])
            self._node.forward(run, came_by=0, owner=self._owner)
        except BrokerClosedError:
            self._sent -= 1  # the gateway ends just now
        except Exception as error:  # noqa: BLE001 # as above
            self._sent -= 1
            self._reject(message, error)
        except BaseException:
            self._sent -= 1
            raise

    def _reject(self, message: Incoming, error: Exception) -> None:
        self._unsendable += 1
        _log.warning(
            "%s: a notification of %s was not sent: %s",
            self._owner,
            message.sender,
            error,
        )


def bytes_of(message: Incoming) -> bytes:
    """Return a payload of bytes; the default of ``encode``.

    Raises:
        TypeError: the payload is of another type.
    """
    payload = message.payload
    if isinstance(payload, memoryview) and payload.format == "B":
        return bytes(payload)
    if not isinstance(payload, bytes):
        kind = known_as(type(payload))
        raise TypeError(f"its payload must be bytes, got {kind}; give encode")
    return payload
