"""`Gateway`: links between processes that reach each other only through their masters.

A gateway is a master that forwards frames between the processes of its machine and
other machines (BUS-ROUTE-16). A process that other machines do not reach
(`Network.gateway`) gives them the address of its master, followed by its own name. A
process that reaches no other machine asks its master to dial. In both cases a master
joins two queues and forwards all frames. So the link is one between the two end
processes, like any other: the masters number, keep and acknowledge nothing, and nothing
is repeated if one of them is lost. Rejected: a relay in each master, a third place
where a message might be lost.

Such a link begins with one message on a port of its own:

process -> its own master         `DialOutside`  the address to dial
process, master -> other master   `DialInside`   the process of that machine
master -> process of its machine  `Vouch`        the machine of the first process

Each of them gets an `Answer`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import msgspec

from queuebroker import _sync
from queuebroker.errors import DisconnectedError, QueueBrokerError
from queuebroker.sockets import SocketMessageQueue
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.sockets import SocketQueueBroker

__all__ = [
    "GATEWAY_PORT",
    "Gateway",
    "LinkEnd",
    "address_via_master",
    "gateway_address",
    "split_gateway_address",
]

GATEWAY_PORT: Final = 2  # the port of a broker at which it is asked

_VIA_MASTER: Final = "by-master "
_NO_LIMIT: Final = 2**32 - 1
_FRAMES_MAX: Final = 256  # forwarded at once
_REQUESTS_MAX: Final = 256  # served at a time; each takes one thread, and later two
_NOT_TRUSTED: Final = (
    "the user of the process lacks full rights, which a gateway needs: grant them in "
    "BusConfig.access"
)
# Between two attempts to reach a master, which another process may replace.
_PAUSE_S: Final = 0.05


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
    frame_bytes_max: int = _NO_LIMIT
    refusal: str = ""
    retry: bool = False


_Request: TypeAlias = DialOutside | DialInside | Vouch
_encode: Final = msgspec.msgpack.encode
_request_in: Final = msgspec.msgpack.Decoder(_Request)
_answer_in: Final = msgspec.msgpack.Decoder(Answer)


# Addresses.


def gateway_address(master: str, process: str) -> str:
    """Return the address of a process behind the address of its master."""
    return f"{master}/{process}"


def address_via_master(address: str) -> str:
    """Return the address that makes this process ask its own master to dial."""
    return _VIA_MASTER + address


def split_gateway_address(address: str) -> tuple[str, str | None]:
    """Return the address to dial, and the process to ask for there, if any."""
    scheme, mark, rest = address.partition("://")
    place, slash, process = rest.partition("/")
    if not slash or scheme == "ipc":
        return address, None
    return scheme + mark + place, process


# Links.


@attrs.frozen(eq=False)
class LinkEnd:
    """This process's end of a link with a process of another machine.

    machine: its machine, as a certificate proves to this process or to its master; ""
      without keys.
    is_direct: False if a master forwards its frames.
    frame_bytes_max: as in `Answer`.
    """

    queue: SocketMessageQueue
    machine: str
    is_direct: bool = False
    frame_bytes_max: int = _NO_LIMIT


class _NotReachedError(PermissionError):
    """The process behind is not reached now; a later request may reach it."""


class Gateway:
    """The client and server of one process for links that a gateway forwards.

    Any thread may call the methods. Each request is served by a thread of its own.

    Args:
        process: the name of this process.
        port: the port for direct links.
        own_master: the address of the master of this machine.
        timeout_s: of each connect, and of each request.
        frame_bytes_max: the longest frame that this process accepts.
        proved: returns the machine that the certificate of a peer proves, "" without
          keys.
        may_dial: returns True if this process may dial an address for another one.
        address_of: returns the address of a process of this machine, or None; only the
          master has any.
        is_trusted: returns True for a process of this machine with all rights.
        on_vouched: receives a link that a master has made to this process.
    """

    def __init__(
        self,
        process: str,
        port: int,
        own_master: str,
        timeout_s: float,
        *,
        frame_bytes_max: int,
        proved: Callable[[SocketMessageQueue], str],
        may_dial: Callable[[str], bool],
        address_of: Callable[[str], str | None],
        is_trusted: Callable[[SocketMessageQueue], bool],
        on_vouched: Callable[[LinkEnd], object],
    ) -> None:
        self._process: Final = process
        self._port: Final = port
        self._own_master: Final = own_master
        self._timeout_s: Final = timeout_s
        self._frame_bytes_max: Final = frame_bytes_max
        self._proved: Final = proved
        self._may_dial: Final = may_dial
        self._address_of: Final = address_of
        self._is_trusted: Final = is_trusted
        self._on_vouched: Final = on_vouched
        # Guards the requests, and so the number of threads, and the passages.
        self._lock: Final = _sync.Lock()
        self._requests: Final[set[SocketMessageQueue]] = set()
        self._forwarders: Final[set[_Forwarder]] = set()

    def connect(self, broker: SocketQueueBroker, address: str) -> LinkEnd | None:
        """Dial an address: directly, at another machine's master, or by this one's.

        Returns None if no process listens there, or the process behind is not reached.

        Raises:
            PermissionError: a master refuses the link; the text is its reason.
            QueueBrokerError, OSError, ValueError: see `SocketQueueBroker.connect`.
        """
        if address.startswith(_VIA_MASTER):
            asked = DialOutside(address.removeprefix(_VIA_MASTER))
            return self._ask_for(
                asked, lambda: self._dial_inside(broker, self._own_master)
            )
        place, process = split_gateway_address(address)
        if process is None:
            queue = self._dial(broker, place, self._port)
            if queue is None:
                return None
            return LinkEnd(queue, self._proved(queue), is_direct=True)
        made = self._ask_for(
            DialInside(process), lambda: self._dial(broker, place, GATEWAY_PORT)
        )
        if made is None:
            return None
        # Its own certificate proves more than the word of that master.
        return attrs.evolve(made, machine=self._proved(made.queue))

    def _ask_for(
        self, request: _Request, dial: Callable[[], SocketMessageQueue | None]
    ) -> LinkEnd | None:
        """Dial a master and send it a request; repeat both while it cannot serve yet.

        Another process may become that master, and the process behind it may join it
        anew. Both still live, so their link is not given up at once.

        Raises:
            PermissionError: the link is refused, or a master on the path forwards only
              shorter frames than this process accepts.
        """
        until = _sync.monotonic() + self._timeout_s
        while True:
            queue = dial()
            try:
                answer = None if queue is None else self._ask(queue, request)
            except _NotReachedError:
                if _sync.monotonic() >= until:
                    raise
                answer = None
            if queue is not None and answer is not None:
                break
            if _sync.monotonic() >= until:
                return None
            _sync.park(taken_lock(), lambda: False, _sync.monotonic() + _PAUSE_S)
        if answer.frame_bytes_max < self._frame_bytes_max:
            queue.disconnect()
            raise PermissionError(
                "a master on the path forwards frames of at most "
                f"{answer.frame_bytes_max} bytes, not {self._frame_bytes_max}: give it "
                "the same `message_bytes_max`"
            )
        return LinkEnd(queue, answer.machine, frame_bytes_max=answer.frame_bytes_max)

    def _dial(
        self, broker: SocketQueueBroker, address: str, port: int
    ) -> SocketMessageQueue | None:
        queue = broker.connect(address, port, timeout=self._timeout_s)
        assert queue is None or isinstance(queue, SocketMessageQueue)
        return queue

    def _dial_inside(
        self, broker: SocketQueueBroker, address: str
    ) -> SocketMessageQueue | None:
        """DialOutside a process of this machine, which must have all rights.

        Raises:
            PermissionError: it has not.
        """
        queue = self._dial(broker, address, GATEWAY_PORT)
        if queue is not None and not self._is_trusted(queue):
            queue.disconnect()
            raise PermissionError(_NOT_TRUSTED)
        return queue

    def _ask(self, queue: SocketMessageQueue, request: _Request) -> Answer | None:
        """Send a request; return the answer once the link is made.

        Returns None if there is no answer.

        Raises:
            PermissionError: the link is refused, perhaps only for now.
        """
        answer: Answer | None = None
        try:
            queue.send(_encode(request), timeout=self._timeout_s)
            answer = _answer_in.decode(queue.receive(timeout=self._timeout_s))
            if answer.refusal:
                kind = _NotReachedError if answer.retry else PermissionError
                raise kind(answer.refusal)
        except (QueueBrokerError, msgspec.MsgspecError):
            answer = None
        finally:
            if answer is None or answer.refusal:
                queue.disconnect()
        return answer

    # Serving.

    def serve(self, broker: SocketQueueBroker) -> None:
        """Serve the requests that come to a broker, until it is closed.

        Raises:
            RuntimeError: no thread can be started for it.
        """
        _start(f"{broker.name} gateway", partial(self._accept, broker))

    def _accept(self, broker: SocketQueueBroker) -> None:
        try:
            while True:
                queue = broker.accept(GATEWAY_PORT)
                assert isinstance(queue, SocketMessageQueue)
                if not self._begin(broker, queue):
                    queue.disconnect()
        except QueueBrokerError:
            self.close()  # the broker is closed

    def _begin(self, broker: SocketQueueBroker, queue: SocketMessageQueue) -> bool:
        """Serve a request in a thread; return False if there are too many."""
        with self._lock:
            if len(self._requests) >= _REQUESTS_MAX:
                return False
            self._requests.add(queue)
        try:
            _start("gateway request", partial(self._serve, broker, queue))
        except RuntimeError:  # no thread is left: the asker may ask again
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
        except Exception as error:  # noqa: BLE001 # the asker is told, whatever it is
            why = str(error) or type(error).__name__
            retry = isinstance(error, _NotReachedError)
            with suppress(QueueBrokerError):
                answer = Answer(refusal=why, retry=retry)
                queue.send(_encode(answer), timeout=self._timeout_s)
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
        request = _request_in.decode(queue.receive(timeout=self._timeout_s))
        if (for_this := self._link_to_this(queue, request)) is not None:
            queue.send(_encode(Answer()), timeout=self._timeout_s)
            self._on_vouched(for_this)
            return None
        onward = self._onward(broker, queue, request)
        longest = min(self._frame_bytes_max, onward.frame_bytes_max)
        try:
            answer = Answer(onward.machine, longest)
            queue.send(_encode(answer), timeout=self._timeout_s)
        except BaseException:
            onward.queue.disconnect()
            raise
        return onward

    def _run(self, passage: _Forwarder) -> None:
        with self._lock:
            self._forwarders.add(passage)
        try:
            passage.run()
        finally:
            passage.close()
            with self._lock:
                self._forwarders.discard(passage)

    def _link_to_this(
        self, queue: SocketMessageQueue, request: _Request
    ) -> LinkEnd | None:
        """Return a link that is requested with this process; None for another one.

        Raises:
            PermissionError: a process without all rights vouches for a machine, or a
              process of this machine asks as one of another.
        """
        if isinstance(request, Vouch):
            if not self._is_trusted(queue):
                raise PermissionError(_NOT_TRUSTED)
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
                return LinkEnd(queue, self._proved(queue))
        return None

    def _onward(
        self, broker: SocketQueueBroker, queue: SocketMessageQueue, request: _Request
    ) -> LinkEnd:
        """Return the other half of a requested link.

        Raises:
            PermissionError: the request is refused, or the process is not reached.
        """
        made: LinkEnd | None
        if isinstance(request, DialOutside):
            if not self._is_trusted(queue):
                raise PermissionError(_NOT_TRUSTED)
            if not self._may_dial(split_gateway_address(request.address)[0]):
                raise PermissionError(
                    f"{request.address!r} is not dialled: the network permits other "
                    "machines only, over TLS if it has keys, else on the loopback "
                    "interface"
                )
            made = self.connect(broker, request.address)
            where = request.address
        else:
            assert isinstance(request, DialInside)
            where = request.process
            address = self._address_of(where)
            if address is None:
                raise _NotReachedError(f"no process {where!r} has joined the master")
            found = self._dial_inside(broker, address)
            vouched = Vouch(self._proved(queue))
            asked = None if found is None else self._ask(found, vouched)
            made = None if found is None or asked is None else LinkEnd(found, "")
        if made is None:
            raise _NotReachedError(f"the gateway does not reach {where!r}")
        return made

    def close(self) -> None:
        """End all links that this process forwards."""
        with self._lock:
            passages = list(self._forwarders)
        for each in passages:
            each.close()


class _Forwarder:
    """Two links; each frame of one is forwarded to the other, in order."""

    __slots__ = ("_one", "_other")

    def __init__(self, one: SocketMessageQueue, other: SocketMessageQueue) -> None:
        self._one: Final = one
        self._other: Final = other

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
        cause = error.__cause__  # the other end is told if this was no orderly end
    except QueueBrokerError as error:
        cause = error
    other.disconnect(cause)
    one.disconnect(cause)


def _start(name: str, work: Callable[[], None]) -> _sync.Thread:
    thread = _sync.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
