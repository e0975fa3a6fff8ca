"""`Gateway`: links between processes that reach each other only through their masters.

A process that other machines do not reach (`Network.gateway`) gives them the address of
its master, followed by its own name. A process that reaches no other machine asks its
master to dial. In both cases a master connects two queues and passes on all frames
(BUS-ROUTE-16). So the link is one between the two end processes, like any other: the
masters number, keep and acknowledge nothing, and nothing is repeated if one of them is
lost. Rejected: a relay in each master, a third place where a message might be lost.

Such a link begins with one message on a port of its own, and its answer:

asker -> its own master       `Dial`     the address to dial
any   -> master of a machine  `Enter`    the process of that machine
master -> that process        `Vouch`    the machine that has asked

Each passes on the answer to the last of them: `Made`.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import msgspec

from queuebroker import _sync
from queuebroker.errors import DisconnectedError, QueueBrokerError
from queuebroker.sockets import PeerLostError, SocketMessageQueue
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.sockets import SocketQueueBroker

__all__ = ["GATEWAY_PORT", "Dialled", "Gateway", "by_master", "entrance", "split"]

_log: Final = logging.getLogger("bus")

GATEWAY_PORT: Final = 2  # the port of a broker at which it is asked

_BY_MASTER: Final = "by-master "
_FRAMES_MAX: Final = 256  # passed on at once
_PASSAGES_MAX: Final = 256  # at a time; each takes two threads
_NOT_TRUSTED: Final = "only a process with all rights uses the gateway"
# Between two attempts to reach the own master, which another process may replace.
_PAUSE_S: Final = 0.05


class Dial(msgspec.Struct, frozen=True, tag=True):
    """The request of a process to its own master: a link with an address."""

    address: str


class Enter(msgspec.Struct, frozen=True, tag=True):
    """The request from outside to a master: a link with a process of its machine."""

    process: str


class Vouch(msgspec.Struct, frozen=True, tag=True):
    """The master's word to a process of its machine: the machine that has asked.

    machine: as its certificate proves; "" for a link without keys.
    """

    machine: str


class Made(msgspec.Struct, frozen=True, tag=True):
    """The answer to all of these: frames may follow, unless there is a reason why not.

    machine: the proved machine of the process reached, "" without keys.
    """

    machine: str = ""
    why_not: str = ""


_Request: TypeAlias = Dial | Enter | Vouch
_encode: Final = msgspec.msgpack.encode
_request_in: Final = msgspec.msgpack.Decoder(_Request)
_answer_in: Final = msgspec.msgpack.Decoder(Made)


# Addresses.


def entrance(master: str, process: str) -> str:
    """Return the address of a process behind the address of its master."""
    return f"{master}/{process}"


def by_master(address: str) -> str:
    """Return the address that makes this process ask its own master to dial."""
    return _BY_MASTER + address


def split(address: str) -> tuple[str, str | None]:
    """Return the address to dial, and the process to ask for there, if any."""
    scheme, mark, rest = address.partition("://")
    place, slash, process = rest.partition("/")
    if not slash or scheme == "ipc":
        return address, None
    return scheme + mark + place, process


# Links.


@attrs.frozen(eq=False)
class Dialled:
    """A link with a process of another machine.

    machine: its machine, as a certificate proves to this process or to its master; ""
      without keys.
    is_direct: False if frames pass through a master.
    """

    queue: SocketMessageQueue
    machine: str
    is_direct: bool = False


class Gateway:
    """The part of one process in links through masters.

    Any thread may call the methods. Each request is served by a thread of its own.

    Args:
        process: the name of this process.
        port: the port for direct links.
        own_master: the address of the master of this machine.
        timeout_s: of each connect, and of each request.
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
        proved: Callable[[SocketMessageQueue], str],
        may_dial: Callable[[str], bool],
        address_of: Callable[[str], str | None],
        is_trusted: Callable[[SocketMessageQueue], bool],
        on_vouched: Callable[[Dialled], object],
    ) -> None:
        self._process: Final = process
        self._port: Final = port
        self._own_master: Final = own_master
        self._timeout_s: Final = timeout_s
        self._proved: Final = proved
        self._may_dial: Final = may_dial
        self._address_of: Final = address_of
        self._is_trusted: Final = is_trusted
        self._on_vouched: Final = on_vouched
        self._lock: Final = _sync.Lock()  # guards the passages
        self._passages: Final[set[_Passage]] = set()

    def connect(self, broker: SocketQueueBroker, address: str) -> Dialled | None:
        """Dial an address: directly, at another machine's master, or by this one's.

        Returns None if no process listens there, or the process behind is not reached.

        Raises:
            PermissionError: a master refuses the link; the text is its reason.
            QueueBrokerError, OSError, ValueError: see `SocketQueueBroker.connect`.
        """
        if address.startswith(_BY_MASTER):
            asked = Dial(address.removeprefix(_BY_MASTER))
            master = self._reach_own_master(broker)
            answer = None if master is None else self._ask(master, asked)
            if master is None or answer is None:
                return None
            return Dialled(master, answer.machine)
        place, process = split(address)
        port = self._port if process is None else GATEWAY_PORT
        queue = self._dial(broker, place, port)
        if queue is None:
            return None
        if process is not None and self._ask(queue, Enter(process)) is None:
            return None
        return Dialled(queue, self._proved(queue), is_direct=process is None)

    def _dial(
        self, broker: SocketQueueBroker, address: str, port: int
    ) -> SocketMessageQueue | None:
        queue = broker.connect(address, port, timeout=self._timeout_s)
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
        if queue is not None and not self._is_trusted(queue):
            queue.disconnect()
            raise PermissionError(_NOT_TRUSTED)
        return queue

    def _reach_own_master(self, broker: SocketQueueBroker) -> SocketMessageQueue | None:
        """Dial the master of this machine, or the next one."""
        until = _sync.monotonic() + self._timeout_s
        while True:
            queue = self._dial_inside(broker, self._own_master)
            now = _sync.monotonic()
            if queue is not None or now >= until:
                return queue
            _sync.park(taken_lock(), lambda: False, now + _PAUSE_S)

    def _ask(self, queue: SocketMessageQueue, request: _Request) -> Made | None:
        """Send a request; return the answer once the link is made.

        Returns None if there is no answer.

        Raises:
            PermissionError: the link is refused.
        """
        answer: Made | None = None
        try:
            queue.send(_encode(request), timeout=self._timeout_s)
            answer = _answer_in.decode(queue.receive(timeout=self._timeout_s))
            if answer.why_not:
                raise PermissionError(answer.why_not)
        except (QueueBrokerError, msgspec.MsgspecError):
            answer = None
        finally:
            if answer is None or answer.why_not:
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
                try:
                    _start("gateway request", partial(self._serve, broker, queue))
                except RuntimeError:  # no thread is left: the asker may ask again
                    queue.disconnect()
        except QueueBrokerError:
            self.close()  # the broker is closed

    def _serve(self, broker: SocketQueueBroker, queue: SocketMessageQueue) -> None:
        """Answer one request; then pass on frames until one of the links ends."""
        try:
            request = _request_in.decode(queue.receive(timeout=self._timeout_s))
            if (for_this := self._link_to_this(queue, request)) is not None:
                queue.send(_encode(Made()), timeout=self._timeout_s)
                self._on_vouched(for_this)
                return
            onward = self._onward(broker, queue, request)
        except PermissionError as error:
            with suppress(QueueBrokerError):
                queue.send(_encode(Made(why_not=str(error))), timeout=self._timeout_s)
            queue.disconnect()
            return
        except (QueueBrokerError, msgspec.MsgspecError, OSError, ValueError) as error:
            _log.debug("a request to the gateway of %s fails: %s", broker.name, error)
            queue.disconnect()
            return
        passage = _Passage(queue, onward.queue)
        with self._lock:
            self._passages.add(passage)
        try:
            queue.send(_encode(Made(onward.machine)), timeout=self._timeout_s)
            passage.run()
        except (QueueBrokerError, RuntimeError):
            pass  # one of the links is lost, or no thread is left
        finally:
            passage.close()
            with self._lock:
                self._passages.discard(passage)

    def _link_to_this(
        self, queue: SocketMessageQueue, request: _Request
    ) -> Dialled | None:
        """Return a link that is requested with this process; None for another one.

        Raises:
            PermissionError: a process without all rights vouches for a machine.
        """
        if isinstance(request, Vouch):
            if not self._is_trusted(queue):
                raise PermissionError(_NOT_TRUSTED)
            return Dialled(queue, request.machine)
        if isinstance(request, Enter) and request.process == self._process:
            # It has become master since it gave its address.
            return Dialled(queue, self._proved(queue))
        return None

    def _onward(
        self, broker: SocketQueueBroker, queue: SocketMessageQueue, request: _Request
    ) -> Dialled:
        """Return the other half of a requested link.

        Raises:
            PermissionError: the request is refused, or the process is not reached.
        """
        with self._lock:
            if len(self._passages) >= _PASSAGES_MAX:
                raise PermissionError(f"the gateway has {_PASSAGES_MAX} links already")
        made: Dialled | None
        if isinstance(request, Dial):
            if not self._is_trusted(queue):
                raise PermissionError(_NOT_TRUSTED)
            if not self._may_dial(split(request.address)[0]):
                raise PermissionError(f"{request.address} is of no other machine")
            made = self.connect(broker, request.address)
            where = request.address
        else:
            assert isinstance(request, Enter)
            where = request.process
            address = self._address_of(where)
            if address is None:
                raise PermissionError(f"no process {where!r} is on this machine")
            found = self._dial_inside(broker, address)
            vouched = Vouch(self._proved(queue))
            asked = None if found is None else self._ask(found, vouched)
            made = None if found is None or asked is None else Dialled(found, "")
        if made is None:
            raise PermissionError(f"the gateway does not reach {where}")
        return made

    def close(self) -> None:
        """End all links that this process passes on."""
        with self._lock:
            passages = list(self._passages)
        for each in passages:
            each.close()


class _Passage:
    """Two links of which each gets all frames of the other, in order."""

    __slots__ = ("_one", "_other")

    def __init__(self, one: SocketMessageQueue, other: SocketMessageQueue) -> None:
        self._one: Final = one
        self._other: Final = other

    def run(self) -> None:
        """Pass on frames in both directions until both links have ended.

        Raises:
            RuntimeError: no thread can be started for the second direction.
        """
        back = _start("gateway", partial(_pass_on, self._other, self._one))
        _pass_on(self._one, self._other)
        back.join()

    def close(self) -> None:
        """End both links; frames that were passed on still arrive."""
        self._one.disconnect()
        self._other.disconnect()


def _pass_on(one: SocketMessageQueue, other: SocketMessageQueue) -> None:
    """Pass on all frames of a link until it ends; then end the other.

    A full queue makes this wait, and so the sender at the far end.
    """
    lost: BaseException | None = None
    try:
        while True:
            other.send_many(one.receive_many(_FRAMES_MAX))
    except DisconnectedError as error:
        cause = error.__cause__
        if isinstance(cause, PeerLostError):
            lost = cause  # the other end is told that this was no orderly end
    other.disconnect(lost)
    one.disconnect(lost)


def _start(name: str, work: Callable[[], None]) -> _sync.Thread:
    thread = _sync.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
