"""`GatewayServer`: links between processes that only their masters connect.

A gateway is a master that forwards frames between the processes of its machine and
other machines (BUS-ROUTE-16). A process that other machines do not reach
(`Network.gateway`) gives them the address of its master, followed by its own name. A
process that reaches no other machine asks its master to dial. In both cases a master
joins two queues and forwards all frames. So the link is one between the two end
processes, like any other: the masters number, keep and acknowledge nothing, and nothing
is repeated if one of them is lost. Rejected: a relay in each master, a third place
where a message might be lost.

`GatewayClient` sends the requests; this module serves them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from bus.features.machines.gateway import (
    NOT_TRUSTED,
    Answer,
    DialInside,
    DialOutside,
    LinkEnd,
    NotReachedError,
    Vouch,
    encode,
    request_in,
)
from bus.features.machines.gateway_address import split_gateway_address
from bus.process.failures import InternalErrors
from bus.process.link_helpers import GATEWAY_PORT
from queuebroker import _sync
from queuebroker.errors import DisconnectedError, QueueBrokerError
from queuebroker.sockets import SocketMessageQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.features.machines.gateway import GatewayClient, GatewayRequest
    from bus.features.machines.network import Network
    from bus.process.peer_trust import PeerTrust
    from queuebroker.sockets import SocketQueueBroker

__all__ = ["GatewayOwner", "GatewayServer"]

_FRAMES_MAX: Final = 256  # forwarded at once
_REQUESTS_MAX: Final = 256  # served at a time; each takes one thread, and later two


class GatewayOwner(Protocol):
    """The process of a gateway, as the gateway uses it."""

    def inside_address_of(self, process: str) -> str | None:
        """Return the address of a process of this machine; only the master has any."""

    def on_vouched(self, made: LinkEnd) -> None:
        """Use a link that a master has made to this process."""


class GatewayServer:
    """The server of one process for links that a gateway forwards.

    Any thread may call the methods. Each request is served by a thread of its own.

    Args:
        process: the name of this process.
        client: dials the next process on the path of a link.
        trust: the trust of this process in its peers.
        network: permits the addresses that this process dials for another one.
        owner: the process itself.
    """

    def __init__(
        self,
        process: str,
        client: GatewayClient,
        trust: PeerTrust,
        network: Network,
        owner: GatewayOwner,
    ) -> None:
        self._process: Final = process
        self._client: Final = client
        self._trust: Final = trust
        self._network: Final = network
        self._owner: Final = owner
        # Guards the requests, and so the number of threads, and the forwarders.
        self._lock: Final = _sync.Lock()
        self._requests: Final[set[SocketMessageQueue]] = set()
        self._forwarders: Final[set[_Forwarder]] = set()

    def serve(self, broker: SocketQueueBroker) -> None:
        """Serve the requests that come to a broker, until it is closed.

        Raises:
            RuntimeError: no thread can be started for it.
        """
        _start(f"{broker.name} gateway", partial(self._accept, broker))

    def _accept(self, broker: SocketQueueBroker) -> None:
        errors = InternalErrors(f"the gateway of {broker.name!r}")
        while not broker.closed:
            try:
                queue = broker.accept(GATEWAY_PORT)
                assert isinstance(queue, SocketMessageQueue)
                if not self._begin(broker, queue):
                    queue.disconnect()
                errors.on_success()
            except QueueBrokerError:
                break  # the broker is closed
            except Exception as error:  # noqa: BLE001 # such as a lack of memory
                errors.on_error(error)
        self.close()

    def _begin(self, broker: SocketQueueBroker, queue: SocketMessageQueue) -> bool:
        """Serve a request in a thread; return False if there are too many."""
        with self._lock:
            if len(self._requests) >= _REQUESTS_MAX:
                return False
            self._requests.add(queue)
        try:
            _start("gateway request", partial(self._serve, broker, queue))
        except (RuntimeError, MemoryError):  # no thread is left: the client may retry
            self._end(queue)
            return False
        return True

    def _end(self, queue: SocketMessageQueue) -> None:
        with self._lock:
            self._requests.discard(queue)

    def _serve(self, broker: SocketQueueBroker, queue: SocketMessageQueue) -> None:
        """Answer one request; then forward frames until one of the links ends."""
        try:
            onward = self._answer(broker, queue)
            if onward is not None:
                self._run(_Forwarder(queue, onward.queue))
        except Exception as error:  # noqa: BLE001 # the answer reports any error
            why = str(error) or type(error).__name__
            retry = isinstance(error, NotReachedError)
            with suppress(QueueBrokerError):
                answer = Answer(refusal=why, retry=retry)
                queue.send(encode(answer), timeout=self._client.timeout_s)
            queue.disconnect()
        finally:
            self._end(queue)

    def _answer(
        self, broker: SocketQueueBroker, queue: SocketMessageQueue
    ) -> LinkEnd | None:
        """Answer a request; return the other half, None for a link to this process.

        Raises:
            Exception: there is no link, for any reason.
        """
        request = request_in(queue.receive(timeout=self._client.timeout_s))
        if (for_this := self._link_to_this(queue, request)) is not None:
            queue.send(encode(Answer()), timeout=self._client.timeout_s)
            self._owner.on_vouched(for_this)
            return None
        onward = self._onward(broker, queue, request)
        longest = min(self._client.frame_bytes_max, onward.frame_bytes_max)
        try:
            answer = Answer(onward.machine, longest)
            queue.send(encode(answer), timeout=self._client.timeout_s)
        except BaseException:
            onward.queue.disconnect()
            raise
        return onward

    def _run(self, forwarder: _Forwarder) -> None:
        with self._lock:
            self._forwarders.add(forwarder)
        try:
            forwarder.run()
        finally:
            forwarder.close()
            with self._lock:
                self._forwarders.discard(forwarder)

    def _link_to_this(
        self, queue: SocketMessageQueue, request: GatewayRequest
    ) -> LinkEnd | None:
        """Return a link that is requested with this process; None for another one.

        Raises:
            PermissionError: a process without all rights vouches for a machine, or a
              process of this machine asks as one of another.
        """
        if isinstance(request, Vouch):
            if not self._trust.is_trusted(queue):
                raise PermissionError(NOT_TRUSTED)
            return LinkEnd(queue, request.machine)
        if isinstance(request, DialInside):
            # A process of this machine has rights by its user: it must not pass as one
            # of another machine.
            if queue.peer.uid is not None:
                raise PermissionError(
                    f"a process of this machine dials {request.process!r} directly, "
                    "not through its gateway"
                )
            if request.process == self._process:
                # It has become master since it gave its address.
                return LinkEnd(queue, self._trust.proved(queue))
        return None

    def _onward(
        self,
        broker: SocketQueueBroker,
        queue: SocketMessageQueue,
        request: GatewayRequest,
    ) -> LinkEnd:
        """Return the other half of a requested link.

        Raises:
            PermissionError: the request is refused, or the process is not reached.
        """
        if isinstance(request, DialOutside):
            if not self._trust.is_trusted(queue):
                raise PermissionError(NOT_TRUSTED)
            if not self._network.may_dial(split_gateway_address(request.address)[0]):
                raise PermissionError(
                    f"{request.address!r} is not dialled: the network permits other "
                    "machines only, over TLS if it has keys, else on the loopback "
                    "interface"
                )
            made = self._client.connect(broker, request.address)
            where = request.address
        else:
            assert isinstance(request, DialInside)
            where = request.process
            address = self._owner.inside_address_of(where)
            if address is None:
                raise NotReachedError(f"no process {where!r} has joined the master")
            made = self._client.vouch(broker, address, self._trust.proved(queue))
        if made is None:
            raise NotReachedError(f"the gateway does not reach {where!r}")
        return made

    def close(self) -> None:
        """End all links that this process forwards."""
        with self._lock:
            forwarders = list(self._forwarders)
        for each in forwarders:
            each.close()


class _Forwarder:
    """Two links; each frame of one is forwarded to the other, in order."""

    __slots__ = ("_one", "_other")

    def __init__(self, one: SocketMessageQueue, other: SocketMessageQueue) -> None:
        self._one: Final = one
        self._other: Final = other
        for each in (one, other):
            each.drop_without_memory()  # the receiver then refuses the message

    def run(self) -> None:
        """Forward frames in both directions until both links have ended.

        Raises:
            RuntimeError: no thread can be started for the second direction.
        """
        back = _start("gateway", partial(_forward, self._other, self._one))
        _forward(self._one, self._other)
        back.join()

    def close(self) -> None:
        """End both links; forwarded frames still arrive."""
        self._one.disconnect()
        self._other.disconnect()


def _forward(one: SocketMessageQueue, other: SocketMessageQueue) -> None:
    """Forward all frames of a link until it ends; then end the other.

    A full queue makes this wait, and so the sender at the far end.
    """
    cause: BaseException | None = None
    try:
        while True:
            frames = one.receive_many(_FRAMES_MAX)
            sent = other.send_many(frames)
            if sent < len(frames):
                other.send(frames[sent])  # raises, for the reason why it stopped
                for frame in frames[sent + 1 :]:
                    other.send(frame)
    except DisconnectedError as error:
        cause = error.__cause__  # the other end learns of a disorderly end
    except Exception as error:  # noqa: BLE001 # of this process, such as no memory
        cause = error
    other.disconnect(cause)
    one.disconnect(cause)


def _start(name: str, work: Callable[[], None]) -> _sync.Thread:
    thread = _sync.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
