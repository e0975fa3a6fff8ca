"""`LockedMessageQueue`: the kind of end that runs every operation under the lock.

It serves observed queues, interpreters without a global lock, and programs started with
``QUEUEBROKER_LOCKED=1``. The first attempt is made at once. A caller that has to wait
continues in `wait_for` and counts as "waited" from then on. That decides the fate of
its message when the peer disconnects (QB-DISC-7 against QB-DISC-6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from queuebroker.arguments import (
    Buffer,
    deadline_after,
    flat_view,
    positive,
    remaining_s,
    snapshot,
)
from queuebroker.channel.message_queue import MessageQueue
from queuebroker.channel.receive_attempt import ReceiveAttempt, Take
from queuebroker.channel.side import Side
from queuebroker.channel.status import DONE, Verdict
from queuebroker.errors import QueueBrokerError, ReceiveTimeoutError, SendTimeoutError

__all__ = ["LockedMessageQueue"]

T = TypeVar("T")


class LockedMessageQueue(MessageQueue):
    """A `MessageQueue` that runs each operation as one or more critical sections.

    Lock: the connection's. An exception inside wakes every waiter, because it may have
    come after a change and before its wake-up (QB-ERR-9).
    """

    __slots__ = ()

    # Sending.

    # The parameters of `send` and `receive` are those of the fast kind, without a star:
    # a call that works unobserved must not fail observed.

    def send(
        self,
        data: Buffer,
        offset: int = 0,
        length: int | None = None,
        timeout: float | None = None,
    ) -> None:
        message = snapshot(data, offset, length, self._connection.limit)
        verdict = self._act(self._send_attempt(message), timeout, sends=True)
        if verdict not in DONE:
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

    def _send_run_locked(
        self, messages: list[bytes], begin: int
    ) -> tuple[int, Verdict]:
        """Send from ``begin`` on while the table permits; return where it stopped."""
        for position in range(begin, len(messages)):
            verdict = self._connection.send_locked(self._side, messages[position])
            if verdict not in DONE:
                return position, verdict
        return len(messages), Verdict.DO

    # Receiving.

    def receive(self, timeout: float | None = None) -> bytes:
        return self._receive(self._connection.take_locked, timeout)

    def receive_into(self, buffer: Buffer, *, timeout: float | None = None) -> int:
        return self._receive(self._take_into(buffer), timeout)

    def receive_many(
        self, limit: int | None = None, *, timeout: float | None = None
    ) -> list[bytes]:
        return self._receive(self._take_many(limit), timeout)

    def _receive(self, take: Take[T], timeout: float | None) -> T:
        """Run ``take(side, waited_ns)`` under the lock once a message is here."""
        receive_attempt = self._receive_attempt(take, timeout)
        try:
            receive_attempt.verdict = self._act(
                receive_attempt.attempt, timeout, sends=False
            )
        finally:
            receive_attempt.end()
        return self._result_of(receive_attempt, timeout)

    # For drivers that wait in their own way (queuebroker.aio).

    def _snapshots(
        self, messages: Iterable[Buffer]
    ) -> tuple[list[bytes], TypeError | ValueError | None]:
        """Copy the messages up to the first that cannot be sent; return its error."""
        if (
            self._connection.limit is None
            and isinstance(messages, (list, tuple))
            and set(map(type, messages)) == {bytes}
        ):
            return list(messages), None  # not copied, without a call for each
        sendable: list[bytes] = []
        try:
            for data in messages:
                sendable.append(snapshot(data, 0, None, self._connection.limit))  # noqa: PERF401  # those before an error count
        except (TypeError, ValueError) as flaw:
            return sendable, flaw
        return sendable, None

    def _send_from(
        self,
        sendable: list[bytes],
        sent: int,
        timeout: float | None,
        deadline: float | None,
    ) -> int:
        """Send the messages not sent yet; return the total number sent."""
        if self._connection.sole:
            self._connection.check_not_within("send")
        while sent < len(sendable):
            run = partial(self._send_run_locked, sendable, sent)
            sent, verdict = self._connection.critical(run)
            if verdict is Verdict.WAIT:
                # As a single send: a buffer that only looks full has to be settled
                # (QB-TIME-8).
                attempt = self._send_attempt(sendable[sent])
                rest_s = timeout and remaining_s(deadline)
                verdict = self._act(attempt, rest_s, sends=True)
                sent += verdict in DONE
            if verdict not in DONE:
                if not sent:
                    raise self._unsent(verdict)
                return sent
        return sent

    def _send_attempt(self, message: bytes) -> Callable[[int], Verdict]:
        """Return the attempt to send a message; its later calls count as waited."""
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

    def _take_into(self, buffer: Buffer) -> Take[int]:
        """Return a take of one message into a buffer, which the message must fit."""
        view = flat_view(buffer)
        if view.readonly and view.nbytes:
            msg = "cannot receive: buffer is read-only"
            raise TypeError(msg)

        def take(side: Side, waited_ns: int) -> int | None:
            head = self._connection.head_locked(side)
            if head is None:
                return None
            size = len(head[1] if isinstance(head, tuple) else head)
            if size > len(view):
                msg = f"cannot receive: message of {size} bytes, buffer of {len(view)}"
                raise ValueError(msg)
            message = self._connection.take_locked(side, waited_ns, head)
            if message is None:
                return None  # a signal handler has received it since
            if size:  # the view of an empty buffer is read-only
                view[:size] = message
            return size

        return take

    def _take_many(self, limit: int | None) -> Take[list[bytes]]:
        """Return a take of all messages that have arrived, ``limit`` at most."""
        most = None if limit is None else positive("limit", limit)

        def take(side: Side, waited_ns: int) -> list[bytes] | None:
            count = self.pending if most is None else min(most, self.pending)
            take_one = self._connection.take_locked
            taken = (take_one(side, waited_ns) for _ in range(count))
            return [message for message in taken if message is not None] or None

        return take

    def _receive_attempt(
        self, take: Take[T], timeout: float | None
    ) -> ReceiveAttempt[T]:
        """Return a receive that has not begun."""
        return ReceiveAttempt(self._connection, self._side, take, waits=timeout != 0)

    def _result_of(
        self, receive_attempt: ReceiveAttempt[T], timeout: float | None
    ) -> T:
        """Return the result of a receive, or raise the reason that it has none."""
        if receive_attempt.verdict is Verdict.REFUSE:
            raise self._refusal("receive")
        if receive_attempt.verdict is Verdict.WAIT:
            raise self._timeout_error(timeout)
        assert receive_attempt.taken is not None  # by its verdict
        return receive_attempt.taken

    def _timeout_error(self, timeout: float | None) -> ReceiveTimeoutError:
        """Return the exception for a receive that ran out of time."""
        return ReceiveTimeoutError(
            f"cannot receive: nothing from {self.remote_name!r} port {self.port}"
            f" within {timeout} s"
        )
