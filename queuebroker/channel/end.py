"""Common base of an end of a `MessageQueue` and of a `Channel`.

An end is a handle: a connection and the number of its side. The connection holds no
reference to its ends, so that a forgotten end is collected and disconnects (QB-PY-7).
Status belongs to an end, not to the pair (QB-DISC-1).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

import attrs

from queuebroker.arguments import check_error, deadline_after
from queuebroker.channel.connection import Connection
from queuebroker.channel.side import Side, other_side
from queuebroker.channel.status import Status, Verdict
from queuebroker.closable import Closable
from queuebroker.errors import DisconnectedError
from queuebroker.observer import Reason
from queuebroker.waiting.parking import (
    PENDING,
    Pending,
    WaitList,
    check_may_wait,
    wait_for,
)

__all__ = ["End", "Stats"]

# A member of an Enum takes five times as long to look up as a global name.
_ORDINARY: Final = Reason.NONE

# The type of the connection determines the content of its buffers.
C = TypeVar("C", bound=Connection[Any])


@attrs.frozen(slots=True)
class Stats:
    """The counters of one end: of messages, or bytes on a Channel (QB-BOOK-1).

    For the flow from this end to its peer this holds exactly at quiescence, and
    otherwise up to the operations in progress::

        sent == peer's received + dropped + peer's pending

    sent: sends that returned normally.
    received: units that this end received.
    half_disconnected: of sent, dropped because the peer had disconnected already.
    discarded: of sent, unread when the peer disconnected.
    peer_lost: of sent, lost with a peer that vanished; 0 within one process.
    pending: units that have arrived here and are not received yet.
    """

    sent: int
    received: int
    half_disconnected: int
    discarded: int
    peer_lost: int
    pending: int

    @property
    def dropped(self) -> int:
        """The number of units that this end sent and its peer will never receive."""
        return self.half_disconnected + self.discarded + self.peer_lost


class End(Closable, Generic[C]):
    """One end of a connection. Every method may be called from any thread."""

    __slots__ = ("__weakref__", "_connection", "_side")

    _kind: ClassVar[str]
    _error: ClassVar[type[DisconnectedError]]

    def __init__(self, connection: C, side: Side) -> None:
        self._connection: Final = connection
        self._side: Final = side

    # State.

    @property
    def status(self) -> Status:
        """Connected, half-disconnected or disconnected (QB-DISC-1)."""
        return self._connection.status(self._side)

    def disconnected(self) -> bool:
        """Return True if neither sending nor receiving can succeed again (QB-DISC-2).

        False while unread content remains after the peer has disconnected.
        """
        return self.status is Status.DISCONNECTED

    @property
    def closed(self) -> bool:
        """The same as `disconnected()`, as a property (QB-PY-3)."""
        return self.disconnected()

    @property
    def remote_disconnected(self) -> bool:
        """True once the peer has disconnected, even during a drain (QB-DISC-13)."""
        return self._connection.closed[1 - self._side]

    @property
    def local_name(self) -> str:
        """Name of the broker that created this end."""
        return self._connection.names[self._side]

    @property
    def remote_name(self) -> str:
        """Name of the peer's broker."""
        return self._connection.names[1 - self._side]

    @property
    def port(self) -> int:
        """Port of the rendezvous that made this connection."""
        return self._connection.port

    @property
    def capacity(self) -> int:
        """Maximum messages (Channel: bytes) in each direction (QB-BUF-10)."""
        capacity: int = self._connection.flows[0].buffer.capacity
        return capacity

    @property
    def pending(self) -> int:
        """Number of messages (Channel: bytes) that arrived here and are unread."""
        pending: int = len(self._connection.flows[self._side].buffer)
        return pending

    def stats(self) -> Stats:
        """Return the counters of this end, read at one instant (QB-BOOK-1)."""
        connection = self._connection
        outward, inward = connection.flows[1 - self._side], connection.flows[self._side]
        sent, received, half, discarded, pending = connection.read(
            lambda: (
                outward.accepted + outward.half_disconnected,
                inward.received,
                outward.half_disconnected,
                outward.discarded,
                len(inward.buffer),
            )
        )
        return Stats(sent, received, half, discarded, 0, pending)

    # Disconnecting.

    def disconnect(self, error: BaseException | None = None) -> None:
        """Disconnect: at once for this end, after draining for its peer (QB-DISC).

        Never blocks, may be repeated. Discards the content that this end had not
        received. With ``error`` the disconnect is abnormal: once the peer has drained
        all earlier content, its `DisconnectedError` has ``error`` as cause (QB-RECV-9).

        Raises:
            TypeError: ``error`` is no exception. Raised here, because otherwise the
                peer would fail in another thread.
        """
        reason = _ORDINARY
        if error is not None:
            check_error(error)
            reason = Reason.ABNORMAL
        self._connection.disconnect(self._side, error, reason)

    def close(self) -> None:
        """The same as `disconnect()` (QB-PY-3)."""
        self.disconnect()

    # Bound as defaults: at interpreter exit modules are emptied, including this one.
    def __del__(
        self,
        _ending: Callable[[], bool] = sys.is_finalizing,
        _warn: Callable[..., None] = warnings.warn,
    ) -> None:
        # An end whose construction failed has no connection.
        connection = getattr(self, "_connection", None)
        if connection is None or connection.hung_up[self._side]:
            return
        try:
            if connection.status(self._side) is Status.DISCONNECTED:
                connection.forget()
                return
            unclosed = f"unclosed {self!r}"
            connection.finalize(self._side)
        except Exception:
            if not _ending():
                raise
            return  # interpreter exit: no module or waiter is left
        _warn(unclosed, ResourceWarning, stacklevel=2, source=self)

    # Representation.

    def __repr__(self) -> str:
        connection, side = self._connection, self._side
        inward, outward = connection.flows[side], connection.flows[1 - side]
        return (
            f"<{self._kind} {self.local_name!r} to {self.remote_name!r}"
            f" port {self.port} {self.status.value},"
            f" {len(inward.buffer)} in, {len(outward.buffer)} out>"
        )

    # For the two kinds of content.

    def _act(
        self,
        attempt: Callable[[int], Verdict],
        timeout: float | None,
        *,
        sends: bool,
    ) -> Verdict:
        """Repeat ``attempt(waited_ns)`` under the lock while it returns WAIT.

        Once at ``timeout`` 0, else until the timeout has passed. A repeated attempt
        gets the time waited so far. WAIT is returned if the time is up first.
        """
        connection = self._connection
        deadline = deadline_after(timeout)
        # As `_sync.owns`, which would cost one more call for each message.
        if connection.sole and connection.lock._is_owned():  # type: ignore[attr-defined]
            connection.check_not_within("send" if sends else "receive")
        verdict = connection.critical(partial(attempt, 0))
        if verdict is not Verdict.WAIT or timeout == 0:
            return verdict
        return self._wait(attempt, deadline, sends=sends)

    def _wait(
        self, attempt: Callable[[int], Verdict], deadline: float | None, *, sends: bool
    ) -> Verdict:
        """Sleep and attempt again, until it need not wait or the time is up."""
        check_may_wait(self._connection.lock)
        waiters, look, ready = self._waiting(attempt, sends=sends)
        outcome = wait_for(self._connection, waiters, look, ready, deadline)
        self._connection.settle()
        return Verdict.WAIT if outcome is PENDING else outcome

    def _waiting(
        self, attempt: Callable[[int], Verdict], *, sends: bool
    ) -> tuple[WaitList, Callable[[], Verdict | Pending], Callable[[], bool]]:
        """Return the wait list, the attempt in the form of `Wait`, and the ready test.

        A coroutine waits for the same condition as a thread, but sleeps in its own way.
        """
        connection, side = self._connection, self._side
        began_ns = connection.now_ns()

        def look() -> Verdict | Pending:
            verdict = attempt(connection.now_ns() - began_ns)
            return PENDING if verdict is Verdict.WAIT else verdict

        def ready() -> bool:
            if sends:
                return connection.send_verdict(side, waited=True) is not Verdict.WAIT
            return connection.receive_verdict(side) is not Verdict.WAIT

        buffer = connection.flows[other_side(side) if sends else side].buffer
        waiters: WaitList = buffer.room if sends else buffer.arrived
        return waiters, look, ready

    def _refusal(self, act: str) -> DisconnectedError:
        """Return the exception for an act that the status of this end refuses."""
        connection, side = self._connection, self._side
        local = connection.closed[side]
        cause = connection.cause(side)
        reason = None if cause is None else str(cause) or type(cause).__name__
        error = self._error(
            f"cannot {act}: {self.local_name!r} port {self.port} was disconnected by"
            f" {'this end' if local else repr(self.remote_name)}"
            f"{'' if reason is None else f': {reason}'}",
            side="local" if local else "remote",
            reason=reason,
        )
        error.__cause__ = cause
        return error
