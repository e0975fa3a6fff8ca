"""`LockedMessageQueue`: the kind of end that does everything under the lock.

It serves observed queues, interpreters without a global lock, and whoever sets
``QUEUEBROKER_LOCKED=1``. One attempt is made at once; a caller that has to wait goes
on in `wait_for` and counts as "waited" from then on, which decides what becomes of it
when the peer hangs up (QB-DISC-7 against QB-DISC-6).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from queuebroker.arguments import deadline_after, flat_view, positive, snapshot
from queuebroker.errors import ReceiveTimeoutError, SendTimeoutError
from queuebroker.message_queue import MessageQueue
from queuebroker.observer import Operation, Reason
from queuebroker.status import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from typing_extensions import Buffer

    from queuebroker.connection import Side
    from queuebroker.errors import QueueBrokerError

__all__ = ["LockedMessageQueue"]

T = TypeVar("T")

# What a send that returns normally was told.
_DONE: Final = frozenset({Verdict.DO, Verdict.DROP})

# How a receive that had to wait ended.
_ENDED: Final[Mapping[Verdict, Reason]] = {
    Verdict.DO: Reason.NONE,
    Verdict.REFUSE: Reason.DISCONNECTED,
    Verdict.WAIT: Reason.TIMED_OUT,
}


class LockedMessageQueue(MessageQueue):
    """A `MessageQueue` whose every operation is one critical section, or several.

    Lock: the connection's. An exception that strikes inside rouses everybody who
    waits, because it may have come after a change and before its wake-up (QB-ERR-9).
    """

    __slots__ = ()

    # Sending.

    def send(
        self,
        data: Buffer,
        offset: int = 0,
        length: int | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        message = snapshot(data, offset, length, self._connection.limit)
        verdict = self._act(self._sending(message), timeout, sends=True)
        if verdict not in _DONE:
            raise self._unsent(verdict)

    def send_many(
        self, messages: Iterable[Buffer], *, timeout: float | None = None
    ) -> int:
        deadline = deadline_after(timeout)
        sendable, flaw = self._snapshots(messages)
        sent = self._send_from(sendable, 0, timeout, deadline)
        if flaw is not None and not sent:
            raise flaw
        return sent

    def _send_from(
        self,
        sendable: list[bytes],
        sent: int,
        timeout: float | None,
        deadline: float | None,
    ) -> int:
        """Send what was not sent yet; return how many of all were sent."""
        while sent < len(sendable):
            run = partial(self._send_run_locked, sendable, sent)
            sent, verdict = self._connection.critical(run)
            if verdict is Verdict.WAIT and timeout != 0:
                attempt = self._sending(sendable[sent])
                verdict = self._wait(attempt, deadline, sends=True)
                sent += verdict in _DONE
            if verdict not in _DONE:
                if not sent:
                    raise self._unsent(verdict)
                return sent
        return sent

    def _snapshots(
        self, messages: Iterable[Buffer]
    ) -> tuple[list[bytes], TypeError | ValueError | None]:
        """Copy the messages up to the first that cannot be sent; return why not."""
        if (
            self._connection.limit is None
            and isinstance(messages, (list, tuple))
            and set(map(type, messages)) == {bytes}
        ):
            return list(messages), None  # as they are, without a call for each
        sendable: list[bytes] = []
        try:
            for data in messages:
                sendable.append(snapshot(data, 0, None, self._connection.limit))  # noqa: PERF401  # what came before an error counts
        except (TypeError, ValueError) as flaw:
            return sendable, flaw
        return sendable, None

    def _send_run_locked(
        self, messages: list[bytes], begin: int
    ) -> tuple[int, Verdict]:
        """Send from ``begin`` on while the table lets; return where it stopped."""
        for position in range(begin, len(messages)):
            verdict = self._connection.send_locked(self._side, messages[position])
            if verdict not in _DONE:
                return position, verdict
        return len(messages), Verdict.DO

    def _sending(self, message: bytes) -> Callable[[int], Verdict]:
        """Return the attempt to send a message; from its second call on it waited."""
        waited = False

        def attempt(waited_ns: int) -> Verdict:
            nonlocal waited
            verdict = self._connection.send_locked(
                self._side, message, waited=waited, waited_ns=waited_ns
            )
            waited = True
            return verdict

        return attempt

    def _unsent(self, verdict: Verdict) -> QueueBrokerError:
        """Return the exception for a send that was refused or ran out of time."""
        if verdict is Verdict.REFUSE:
            return self._refusal("send")
        return SendTimeoutError(
            f"cannot send: {self.remote_name!r} port {self.port} has"
            f" {self.capacity} unread messages, its capacity"
        )

    # Receiving.

    def receive(self, *, timeout: float | None = None) -> bytes:
        return self._receive(self._connection.take_locked, timeout)

    def receive_into(self, buffer: Buffer, *, timeout: float | None = None) -> int:
        view = flat_view(buffer)
        if view.readonly and view.nbytes:
            msg = "cannot receive: buffer is read-only"
            raise TypeError(msg)

        def take(side: Side, waited_ns: int) -> int | None:
            size = self._connection.next_size_locked(side)
            if size > len(view):
                msg = f"cannot receive: message of {size} bytes, buffer of {len(view)}"
                raise ValueError(msg)
            message = self._connection.take_locked(side, waited_ns)
            if message is None:
                return None
            if size:  # what stands for an empty buffer is read-only
                view[:size] = message
            return size

        return self._receive(take, timeout)

    def receive_many(
        self, limit: int | None = None, *, timeout: float | None = None
    ) -> list[bytes]:
        most = None if limit is None else positive("limit", limit)

        def take(side: Side, waited_ns: int) -> list[bytes] | None:
            count = self.pending if most is None else min(most, self.pending)
            take_one = self._connection.take_locked
            taken = (take_one(side, waited_ns) for _ in range(count))
            return [message for message in taken if message is not None] or None

        return self._receive(take, timeout)

    def _receive(
        self, take: Callable[[Side, int], T | None], timeout: float | None
    ) -> T:
        """Do ``take(side, waited_ns)`` under the lock once something is here.

        None stands for nothing: then it waits on.
        """
        connection, side = self._connection, self._side
        taken: list[T] = []
        slept = False

        def attempt(waited_ns: int) -> Verdict:
            nonlocal slept
            verdict = connection.receive_verdict(side)
            if verdict is Verdict.DO:
                took = take(side, waited_ns)
                if took is None:  # somebody without the lock was faster
                    return Verdict.WAIT
                taken.append(took)
            elif verdict is Verdict.REFUSE:
                connection.see_close_locked(side)
            elif timeout != 0 and not slept:
                slept = True
                connection.note(Operation.RECV_BEGIN, side, side)
            return verdict

        reason = Reason.INTERRUPTED
        try:
            verdict = self._act(attempt, timeout, sends=False)
            reason = _ENDED[verdict]
        finally:
            if slept:
                note = connection.note
                connection.critical(
                    lambda: note(Operation.RECV_END, side, side, reason=reason)
                )
        if verdict is Verdict.REFUSE:
            raise self._refusal("receive")
        if verdict is Verdict.WAIT:
            raise self._nothing_came(timeout)
        return taken[0]

    def _nothing_came(self, timeout: float | None) -> ReceiveTimeoutError:
        """Return the exception for a receive that ran out of time."""
        return ReceiveTimeoutError(
            f"cannot receive: nothing from {self.remote_name!r} port {self.port}"
            f" within {timeout} s"
        )
