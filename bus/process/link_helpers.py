"""`LinkHelpers`: the threads that set up the links of a process.

Link set-up may take a while, and no serving thread may wait for it (BUS-CHAN-3). So one
helper thread for each broker accepts links, and one for each address dials.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from bus.kernel import constants
from bus.kernel.links.master_dialler import DialFailure
from bus.kernel.wire import FRAME_BYTES_MAX
from bus.process.failures import InternalErrors
from bus.process.thread_manager import Request
from queuebroker import _net, _sync
from queuebroker.errors import (
    QueueBrokerError,
    RendezvousTimeoutError,
    UnknownBrokerError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.model.config import BusConfig
    from bus.process.failures import PeerLog
    from bus.process.inbox import Inbox
    from bus.process.link_policy import LinkBroker, LinkPolicy
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["GATEWAY_PORT", "PORT", "LinkHelpers", "connect_failure"]


def connect_failure(error: Exception, address: str) -> DialFailure:
    """Return the failure of a dial, from the exception that the connect has raised."""
    if isinstance(error, RendezvousTimeoutError):
        return DialFailure(f"{address}: no answer in time")
    if isinstance(error, UnknownBrokerError):
        cause = error.__cause__
        system = isinstance(cause, OSError) and cause.strerror
        return DialFailure(f"{address}: {(system or 'nobody listens there').lower()}")
    if isinstance(error, _net.TlsError):  # one side rejects the keys of the other
        return DialFailure(f"{address}: {_net.tls_reason(error)}", is_refusal=True)
    if isinstance(error, (PermissionError, ValueError)):
        # ValueError: an invalid address from another process. Only an error of a broker
        # names the address itself.
        words = getattr(error, "strerror", None) or str(error)
        named = isinstance(error, QueueBrokerError)
        return DialFailure(words if named else f"{address}: {words}", is_refusal=True)
    return DialFailure(f"cannot connect to {address}: {error}")


# The ports of a broker on which links are accepted, and requests to a gateway.
PORT: Final = 1
GATEWAY_PORT: Final = 2


class LinkHelpers:
    """The threads that set up links, for the owner of the links.

    Args:
        inbox: takes requests to the owner.
        config: has the time of a connect.
        policy: dials an address.
        peer_log: notes each link that is unusable from the start.
        own: called by the owner with each link, and with the callback for its number.

    Attributes:
        threads: those that may still run.
    """

    __slots__ = (
        "_brokers",
        "_capacity",
        "_closed",
        "_inbox",
        "_own",
        "_peer_log",
        "_policy",
        "_timeout_s",
        "threads",
    )

    def __init__(
        self,
        inbox: Inbox,
        config: BusConfig,
        policy: LinkPolicy,
        *,
        peer_log: PeerLog,
        own: Callable[[MessageQueue, Callable[[int], object]], object],
    ) -> None:
        self._inbox: Final = inbox
        self._capacity: Final = constants.LINK_FRAMES
        # The listener has `connect_timeout_s` to accept (`SocketListeners`). A busy one
        # then has the time that it grants a peer, so that a handshake that has started
        # is not discarded.
        self._timeout_s: Final = config.connect_timeout_s + constants.AUTH_TIMEOUT_S
        self._policy: Final = policy
        self._peer_log: Final = peer_log
        self._own: Final = own
        self._brokers: Final[list[LinkBroker]] = []
        self._closed: bool = False
        self.threads: Final[list[_sync.Thread]] = []

    def accept_links(
        self, broker: LinkBroker, on_accepted: Callable[[int], object]
    ) -> None:
        """Accept links at a broker until `close`.

        on_accepted: called with the number of each link.

        Raises:
            RuntimeError, MemoryError: no thread can be started for it; the broker is
              closed.
        """
        if self._closed:
            broker.close()
            return
        self._brokers.append(broker)

        errors = InternalErrors(f"the thread that accepts links at {broker.name!r}")

        def accept() -> None:
            while not broker.closed:
                try:
                    queue = broker.accept(PORT, capacity=self._capacity)
                    self.add(queue, on_accepted)
                    errors.on_success()
                except QueueBrokerError:
                    return  # the broker is closed
                except Exception as error:  # noqa: BLE001 # such as a lack of memory
                    errors.on_error(error)

        try:
            self._start_helper(f"{broker.name} accepts", accept)
        except Exception:  # else the broker would keep its address
            self._brokers.remove(broker)
            broker.close()
            raise

    def add(self, queue: MessageQueue, on_accepted: Callable[[int], object]) -> None:
        """Add a link that was accepted; for any thread."""
        if why := _why_unusable(queue):
            self._reject(queue, f"a peer is rejected: {why}")
        else:
            self._hand_over(queue, partial(self._own, queue, on_accepted))

    def dial(
        self,
        addresses: Sequence[str],
        on_dialled: Callable[[int | None], object],
        on_failed: Callable[[DialFailure], object] | None = None,
    ) -> None:
        """Dial some addresses side by side; the first link is used (BUS-DISC-10).

        on_dialled: called with the number of the link; None if no address yields one.
        on_failed: called before that with the failure; with a refusal, if a listener
          rejects this process or is not trusted.
        """
        if self._closed:
            return
        broker = self._brokers[0]
        attempt = _Attempt(len(addresses), on_dialled, on_failed)
        for address in addresses:
            connect = partial(self._connect_or_fail, broker, address, attempt)
            try:
                self._start_helper(f"{broker.name} connects", connect)
            except RuntimeError:  # no thread is left: a later dial may succeed
                why = "this process can start no thread"
                self._post(partial(attempt.fail, DialFailure(why)))

    def _connect_or_fail(
        self, broker: LinkBroker, address: str, attempt: _Attempt
    ) -> None:
        """As `_connect`; an internal error is a failed dial like any other."""
        why = f"{address}: this process failed to set the link up"
        failed = Request(partial(attempt.fail, DialFailure(why)))
        try:
            self._connect(broker, address, attempt)
        except Exception as error:  # noqa: BLE001 # such as a lack of memory
            InternalErrors("a thread that dials").on_error(error)
            self._inbox.push(failed)

    def _connect(self, broker: LinkBroker, address: str, attempt: _Attempt) -> None:
        """Dial one address, in a helper thread."""
        failure = DialFailure(f"{address}: nobody listens there")
        try:
            queue = self._policy.connect(broker, address, self._timeout_s)
        except QueueBrokerError as error:
            if broker.closed:
                return
            # There is no listener; or it closes, or rejects this process.
            queue, failure = None, connect_failure(error, address)
        except Exception as error:  # noqa: BLE001 # a local failure, such as a lack of
            # descriptors: a later dial may succeed.
            queue, failure = None, connect_failure(error, address)
            if not failure.is_refusal:
                self._post(partial(self._peer_log.note, failure.why))
        if queue is not None:
            why = _why_unusable(queue)
            if not why:
                self._hand_over(queue, partial(self._use, queue, address, attempt))
                return
            failure = DialFailure(f"{address} is not used: {why}")
            self._reject(queue, failure.why)
        self._post(partial(attempt.fail, failure))

    def _use(self, queue: MessageQueue, address: str, attempt: _Attempt) -> None:
        """Use a dialled link, in the owner; an internal error is a failed dial."""
        try:
            self._own(queue, attempt.succeed)
        except Exception:
            attempt.fail(DialFailure(f"{address}: this process failed to use the link"))
            raise

    def _start_helper(self, name: str, work: Callable[[], None]) -> None:
        self.threads[:] = [each for each in self.threads if each.is_alive()]
        helper = _sync.Thread(target=work, name=name, daemon=True)
        self.threads.append(helper)
        try:
            helper.start()
        except Exception:
            self.threads.remove(helper)  # no thread can join a helper that never ran
            raise

    def _reject(self, queue: MessageQueue, why: str) -> None:
        queue.disconnect()
        self._post(partial(self._peer_log.note, why))

    def _hand_over(self, queue: MessageQueue, take: Callable[[], object]) -> None:
        """Let the owner call ``take``, which makes the link its own."""
        try:
            self._post(take)
        except BaseException:
            queue.disconnect()  # else the peer would wait for a first frame
            raise

    def _post(self, request: Callable[[], object]) -> None:
        """Let the owner call ``request``; for any thread."""
        self._inbox.push(Request(request))

    def close(self) -> None:
        """Close the brokers, and dial no more; each thread ends soon."""
        self._closed = True
        for broker in self._brokers:
            broker.close()


class _Attempt:
    """One dial of several addresses; for the owner's thread alone.

    pending: number of addresses that are still being dialled.
    """

    __slots__ = ("_failure", "_linked", "_on_dialled", "_on_failed", "_pending")

    def __init__(
        self,
        pending: int,
        on_dialled: Callable[[int | None], object],
        on_failed: Callable[[DialFailure], object] | None,
    ) -> None:
        self._pending = pending
        self._on_dialled: Final = on_dialled
        self._on_failed: Final = on_failed
        self._linked: bool = False
        self._failure: DialFailure | None = None

    def succeed(self, number: int) -> bool:
        """Use a link; return False if an earlier one is used instead.

        After an error the caller calls `fail`.
        """
        is_first = not self._linked
        if is_first:
            self._on_dialled(number)
        self._linked = True
        self._pending -= 1
        return is_first

    def fail(self, failure: DialFailure) -> None:
        """Note that an address yields no link; report the dial if none did."""
        self._pending -= 1
        if failure.is_refusal or self._failure is None:
            self._failure = failure
        if self._pending or self._linked:
            return
        if self._on_failed is not None:
            self._on_failed(self._failure)
        self._on_dialled(None)


def _why_unusable(queue: MessageQueue) -> str:
    """Return why no process can use a link; "" if it is usable (BUS-CHAN-6)."""
    limit = queue._connection.limit
    if limit is None or limit >= FRAME_BYTES_MAX:
        return ""
    return f"its link carries frames of {limit} bytes, not {FRAME_BYTES_MAX}"
