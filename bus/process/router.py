"""`Router`: finds the addressees of one process, and posts messages to them.

The sender looks up the route without a lock, then posts the message. If the task has
moved in between, the sender looks up the route again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bus.model.message import Incoming
from bus.process.account import Admission
from queuebroker.arguments import deadline_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.errors import BusFullError
    from bus.kernel.tasks.actions import Answer
    from bus.kernel.tasks.routing_table import Entry
    from bus.process.exchange import Exchange
    from bus.process.mailbox import Client, Delivery
    from bus.process.thread_manager import ThreadManager

__all__ = ["Router"]


class Router:
    """Posts messages to the tasks and relays of one process; for any thread.

    Args:
        exchange: the exchange of this process; also an attribute.
        send_timeout_s: the maximum time, in seconds, that a sender blocks on a full
          receiver.
        may_wait: returns True if the calling thread may block: it runs no callback.
    """

    __slots__ = ("_find", "_may_wait", "_send_timeout_s", "exchange")

    def __init__(
        self,
        exchange: Exchange,
        *,
        send_timeout_s: float,
        may_wait: Callable[[], bool],
    ) -> None:
        self.exchange: Final = exchange
        self._find: Final = exchange.find
        self._send_timeout_s: Final = send_timeout_s
        self._may_wait: Final = may_wait
        exchange.send_at_once = partial(self.send, at_once=True)

    def send(self, message: Incoming, *, at_once: bool = False) -> None:
        """Post a command to the task registered under its ``_name``, or park it.

        at_once: True for a command that was accepted once, and is sent again by a
          thread that performs the actions of its process: it neither waits for room nor
          uses a link itself.

        Raises:
            BusFullError: the receiver or the parked list has no room (BUS-FLOW-2).
        """
        name = message._name
        assert name is not None
        while True:
            entry = self._find(name)
            if entry is None:
                entry = self.exchange.park(name, message, again=at_once)
                if entry is None:
                    return
            message._to, message._account = entry, None  # `_post` sets the account
            if at_once:
                # Ends the sender's batches: no later command may overtake this one.
                message._source.order = object()
                posted = self._post(message, entry, may_wait=False)
            else:
                posted = self.post(message)
            if posted:
                return
            # The task has left its host. The thread that decides where the task goes
            # may hold the lock just now: wait for that thread.
            self.exchange.query(bool)

    def post(self, message: Delivery, encoded: bytes | None = None) -> bool:
        """Post to the task that ``_to`` names; return False if it has deregistered.

        The task may be a local one, or the relay of a task in another process.

        encoded: the encoding of the payload, if it is known.

        Raises:
            BusFullError: the receiver has no room for the message (BUS-FLOW-2).
        """
        entry: Entry = message._to
        if not entry.remote:
            return self._post(message, entry)
        comm: Any = self.exchange.comm  # not None: the entry is a relay
        try:
            return comm.send_now(message, encoded) or self._post(message, entry)
        finally:
            # Ends the sender's batches: no later command may overtake this message.
            message._source.order = object()  # type: ignore[attr-defined]  # no answer

    def _post(self, message: Delivery, entry: Entry, *, may_wait: bool = True) -> bool:
        # Not before: a message on the fast path has no account.
        if message._account is None and isinstance(message, Incoming):
            message._account = entry.mailbox.client.account
        while True:
            host = entry.host
            if host is None:
                return False
            admission = host.post(message)
            if admission is Admission.ACCEPTED:
                return True
            if isinstance(message, Incoming):  # other deliveries have no account
                if admission is Admission.FULL:
                    admission = self._overflow(message, host, may_wait=may_wait)
                if admission is Admission.DROPPED:
                    message._source.mailbox.client.on_dropped(message)
            if admission is not Admission.GONE:
                return True

    def deliver_answer(self, answer: Answer) -> bool:
        """Deliver an answer to the asker, behind all earlier deliveries.

        Return False if the asker has deregistered. If the caller waits in a thread that
        does not host the asker, it is woken directly: the host thread need not wake
        only to wake the caller.
        """
        entry: Entry = answer._to
        host = entry.host
        if host is not None and host.idle:
            client: Client = entry.mailbox.client
            if client.try_deliver_directly(answer):
                return True
        return self.post(answer)

    def _overflow(
        self, message: Incoming, host: ThreadManager, *, may_wait: bool
    ) -> Admission:
        """Apply the policy of a full receiver: block, disconnect or raise.

        The account applies the two policies that drop.

        Raises:
            BusFullError: the receiver still has no room.
        """
        overflow = message._account.overflow
        admission = Admission.FULL
        # If the caller hosts the receiver, waiting is futile: no other thread reads.
        waits = may_wait and not host.is_owner() and self._may_wait()
        if overflow == "block" and waits:
            until = deadline_after(self._send_timeout_s)
            admission = host.inbox.offer_until(message, host, until)
        if admission is Admission.FULL:
            if overflow == "disconnect":
                message._to.mailbox.client.on_overflow(message)
            error: BusFullError = message._account.error(f"task {message._to.name!r}")
            raise error
        return admission

    def waits_s(self) -> float:
        """Return how many seconds the calling thread may block for room; 0 if none."""
        return self._send_timeout_s if self._may_wait() else 0.0
