"""`GatewayClient`: dials other processes, directly or through masters.

A link that a gateway forwards begins with one request on each part of its path, on a
port of its own:

process -> its own master         `DialOutside`  the address to dial
process, master -> other master   `DialInside`   the process of that machine
master -> process of its machine  `Vouch`        the machine of the first process

Each of them gets an `Answer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bus.features.machines.gateway_address import (
    address_for_master,
    split_gateway_address,
)
from bus.process.link_helpers import GATEWAY_PORT, PORT
from queuebroker import _sync
from queuebroker.errors import QueueBrokerError
from queuebroker.sockets import SocketMessageQueue
from queuebroker.waiting.parking import pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.process.peer_trust import PeerTrust
    from queuebroker.sockets import SocketQueueBroker

__all__ = [
    "NOT_TRUSTED",
    "NO_LIMIT",
    "Answer",
    "DialInside",
    "DialOutside",
    "GatewayClient",
    "GatewayRequest",
    "LinkEnd",
    "NotReachedError",
    "Vouch",
    "answer_in",
    "encode",
    "request_in",
]

NO_LIMIT: Final = 2**32 - 1  # of the length of a frame
NOT_TRUSTED: Final = (
    "the user of the process lacks full rights, which a gateway needs: grant them in "
    "BusConfig.access"
)


class DialOutside(msgspec.Struct, frozen=True, tag=True):
    """The request of a process to its own master: a link with an address."""

    address: str


class DialInside(msgspec.Struct, frozen=True, tag=True):
    """The request from another machine: a link with a process of this machine."""

    process: str


class Vouch(msgspec.Struct, frozen=True, tag=True):
    """The request of a master to a process of its machine: a link with another machine.

    machine: the other machine, as its certificate proves; "" without keys.
    """

    machine: str


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The answer to a request; with an empty ``refusal`` the link is open.

    machine: the machine of the reached process, as its certificate proves; "" without
      keys.
    frame_bytes_max: the longest frame that every master on the path forwards.
    retry: True if a later request may succeed, such as after a takeover.
    """

    machine: str = ""
    frame_bytes_max: int = NO_LIMIT
    refusal: str = ""
    retry: bool = False


GatewayRequest: TypeAlias = DialOutside | DialInside | Vouch

encode: Final = msgspec.msgpack.encode
request_in: Final = msgspec.msgpack.Decoder(GatewayRequest).decode
answer_in: Final = msgspec.msgpack.Decoder(Answer).decode


class NotReachedError(PermissionError):
    """The process behind is not reached now; a later request may reach it."""


# Between two attempts to reach a master, which another process may replace.
_PAUSE_S: Final = 0.05


class LinkEnd(Struct, frozen=True, eq=False):
    """This process's end of a link with a process of another machine.

    machine: its machine, as a certificate proves to this process or to its master; ""
      without keys.
    is_direct: False if a master forwards its frames.
    frame_bytes_max: as in `Answer`.
    """

    queue: SocketMessageQueue
    machine: str
    is_direct: bool = False
    frame_bytes_max: int = NO_LIMIT


class GatewayClient:
    """The dialling of one process, directly or through masters.

    Any thread may call the methods.

    Args:
        own_master: the address of the master of this machine.
        trust: the trust of this process in its peers.
        timeout_s: of each connect, and of each request.

    Attributes:
        timeout_s: as given.
        frame_bytes_max: the longest frame that this process accepts.
    """

    def __init__(
        self,
        own_master: str,
        trust: PeerTrust,
        *,
        timeout_s: float,
        frame_bytes_max: int,
    ) -> None:
        self._own_master: Final = own_master
        self._trust: Final = trust
        self.timeout_s: Final = timeout_s
        self.frame_bytes_max: Final = frame_bytes_max

    def connect(
        self, broker: SocketQueueBroker, address: str, timeout_s: float | None = None
    ) -> LinkEnd | None:
        """Dial an address: directly, at another machine's master, or by this one's.

        timeout_s: of a direct dial; by default that of each request.

        Returns None if the process behind a master is not reached.

        Raises:
            UnknownBrokerError: no process listens at the address.
            PermissionError: a master refuses the link; the text is its reason.
            QueueBrokerError, OSError, ValueError: see `SocketQueueBroker.connect`.
        """
        if (outside := address_for_master(address)) is not None:
            return self._ask_for(
                DialOutside(outside),
                lambda: self._dial_inside(broker, self._own_master),
            )
        place, process = split_gateway_address(address)
        if process is None:
            wait_s = self.timeout_s if timeout_s is None else timeout_s
            queue = broker.connect(place, PORT, timeout=wait_s, required=True)
            assert isinstance(queue, SocketMessageQueue)
            return LinkEnd(queue, self._trust.proved(queue), is_direct=True)
        made = self._ask_for(
            DialInside(process), lambda: self._dial(broker, place, GATEWAY_PORT)
        )
        if made is None:
            return None
        # Its own certificate proves more than the word of that master.
        return replace(made, machine=self._trust.proved(made.queue))

    def vouch(
        self, broker: SocketQueueBroker, address: str, machine: str
    ) -> LinkEnd | None:
        """Dial a process of this machine, and vouch for another machine there.

        Returns None if no process listens there, or it does not answer.

        Raises:
            PermissionError: the process lacks full rights, or refuses the link.
        """
        queue = self._dial_inside(broker, address)
        if queue is None or self._ask(queue, Vouch(machine)) is None:
            return None
        return LinkEnd(queue, "")

    def _ask_for(
        self, request: GatewayRequest, dial: Callable[[], SocketMessageQueue | None]
    ) -> LinkEnd | None:
        """Dial a master and send it a request; repeat both while it cannot serve yet.

        Another process may become that master, and the process behind it may join it
        anew. Both still live, so their link is not given up at once.

        Raises:
            PermissionError: the link is refused, or a master on the path forwards only
              shorter frames than this process accepts.
        """
        until = _sync.monotonic() + self.timeout_s
        while True:
            queue = dial()
            try:
                answer = None if queue is None else self._ask(queue, request)
            except NotReachedError:
                if _sync.monotonic() >= until:
                    raise
                answer = None
            if queue is not None and answer is not None:
                break
            if _sync.monotonic() >= until:
                return None
            pause(_PAUSE_S)
        if answer.frame_bytes_max < self.frame_bytes_max:
            queue.disconnect()
            raise PermissionError(
                "a master on the path forwards frames of at most "
                f"{answer.frame_bytes_max} bytes, not {self.frame_bytes_max}: give it "
                "the same `message_bytes_max`"
            )
        return LinkEnd(queue, answer.machine, frame_bytes_max=answer.frame_bytes_max)

    def _dial(
        self, broker: SocketQueueBroker, address: str, port: int
    ) -> SocketMessageQueue | None:
        queue = broker.connect(address, port, timeout=self.timeout_s)
        assert queue is None or isinstance(queue, SocketMessageQueue)
        return queue

    def _dial_inside(
        self, broker: SocketQueueBroker, address: str
    ) -> SocketMessageQueue | None:
        """Dial a process of this machine, which must have all rights.

        Raises:
            PermissionError: it has not.
        """
        queue = self._dial(broker, address, GATEWAY_PORT)
        if queue is not None and not self._trust.is_trusted(queue):
            queue.disconnect()
            raise PermissionError(NOT_TRUSTED)
        return queue

    def _ask(self, queue: SocketMessageQueue, request: GatewayRequest) -> Answer | None:
        """Send a request; return the answer once the link is made.

        Returns None if there is no answer.

        Raises:
            PermissionError: the link is refused, perhaps only for now.
        """
        answer: Answer | None = None
        try:
            queue.send(encode(request), timeout=self.timeout_s)
            answer = answer_in(queue.receive(timeout=self.timeout_s))
            if answer.refusal:
                kind = NotReachedError if answer.retry else PermissionError
                raise kind(answer.refusal)
        except (QueueBrokerError, msgspec.MsgspecError):
            answer = None
        finally:
            if answer is None or answer.refusal:
                queue.disconnect()
        return answer
