"""`GatewayClient`: dials other processes, directly or through masters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bus.links.gateway_address import address_for_master, split_gateway_address
from bus.links.gateway_requests import (
    NO_LIMIT,
    NOT_TRUSTED,
    DialInside,
    DialOutside,
    NotReachedError,
    Vouch,
    answer_in,
    encode,
)
from bus.links.link_helpers import GATEWAY_PORT, PORT
from queuebroker import _sync
from queuebroker.errors import QueueBrokerError
from queuebroker.sockets import SocketMessageQueue
from queuebroker.waiting.parking import pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.links.gateway_requests import Answer, GatewayRequest
    from bus.links.peer_trust import PeerTrust
    from queuebroker.sockets import SocketQueueBroker

__all__ = ["GatewayClient", "LinkEnd"]

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
