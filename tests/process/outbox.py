"""The outbox of a process, one relay behind it, and tasks that send by them.

For the races of senders with the comm thread, at every bytecode and every point of an
interrupt: a whole bus would take too long for so many schedules, and its comm thread
would take each message out at once. All that follows the outbox is a stand-in.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bus.api.sender import NO_QUESTION, CommandHandle, Sender
from bus.api.task import Task
from bus.errors import BusFullError
from bus.kernel.tasks.routing_table import Entry, RoutingTable
from bus.kernel.wire import Characteristics
from bus.model.address import Address
from bus.model.config import BusConfig
from bus.model.message import Incoming, Kind
from bus.model.registration import RegistrationId, Visibility
from bus.process.relay_outbox import RelayOutbox
from bus.process.send_batch import SealedBatch, SendBatch
from queuebroker import _sync
from tests.kit.messages import new_message
from tests.kit.station import IDENTITY
from tests.kit.tasks import ignore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.process.account import Admission, Overflow
    from bus.process.accounts import RelayAccount

__all__ = [
    "RACES",
    "Notifier",
    "Process",
    "add",
    "adds",
    "all_is_given_back",
    "missing",
]


class FakeRelay:
    """A relay, as its outbox and its account see it: a queue of messages."""

    def __init__(self) -> None:
        self.queue: deque[Incoming] = deque()
        self.client: RelayAccount

    @property
    def queued(self) -> int:
        return len(self.queue)

    @property
    def queued_bytes(self) -> int:
        return sum(message._size for message in self.queue)


class Remote:
    """The receiver of the outbox's messages: a fake of the remote manager and a part.

    notified, gaps: the notifications that left, and each one's source and gap.
    """

    def __init__(self) -> None:
        self.notified: list[Any] = []
        self.gaps: list[tuple[object, int]] = []
        self.outbound_messages = self

    def post(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        entry.mailbox.queue.extend(messages)

    def post_alike(
        self,
        entry: Entry,
        source: Entry,
        payloads: Sequence[bytes],
        size: int,
        deadline: float | None,
    ) -> None:
        assert size == sum(map(len, payloads))
        sealed_batch = SealedBatch(entry, source, list(payloads), size, deadline)
        self.post(entry, sealed_batch.commands())

    def notify(
        self,
        source: Entry,
        payload: Any,
        question: int,
        trace: object,
        gap: int,
        *,
        delivered: bool,
    ) -> None:
        assert not delivered  # no subscriber is in this process
        self.notified.append((payload, question))
        self.gaps.append((source, gap))

    def notify_alike(
        self, source: Entry, payloads: Sequence[bytes], size: int, gap: int
    ) -> None:
        assert size == sum(map(len, payloads))
        for each in payloads:
            self.notify(source, each, 0, None, gap, delivered=False)
            gap = 0


class Process:
    """An outbox, one relay, and tasks that post to it."""

    def __init__(self, overflow: Overflow = "error", **config: Any) -> None:
        self.host = RelayOutbox(IDENTITY, BusConfig(**config), ignore)
        self.host.send_single = self._send_alone
        # Commands sent on the fast path, and whether that is allowed.
        self.alone: list[Incoming] = []
        self.may_go_alone = False
        self.remote = Remote()
        self.relay = FakeRelay()
        about = Characteristics(
            relay=1,
            id=RegistrationId("there", "p2", 1),
            name="far",
            visibility=Visibility.PUBLIC,
            incarnation=1,
            overflow=overflow,
        )
        self.relay.client = self.host.new_relay_account(about)
        self.entry = Entry(
            id=about.id,
            name=about.name,
            visibility=about.visibility,
            address=Address(about.name, machine="there", bus="bus1"),
            host=self.host,
            mailbox=self.relay,
            remote=True,
            overflow=overflow,
            table=RoutingTable(),
        )

    def unsent(self) -> list[Any]:
        """Take out the payloads that the relay did not send before its removal."""
        return [each.payload for each in self.host.take_unsent(self.entry, ())]

    def _send_alone(self, command: Incoming) -> bool:
        if self.may_go_alone:
            self.alone.append(command)
        return self.may_go_alone

    def message(
        self,
        payload: Any,
        to: Entry | None = None,
        by: object = None,
        size: int = 1,
    ) -> Incoming:
        entry = self.entry if to is None else to
        audience = entry is self.host.audience
        return new_message(
            payload,
            kind=Kind.NOTIFICATION if audience else Kind.COMMAND,
            _source=by,
            _to=entry,
            _account=self.host.account if audience else self.relay.client,
            _size=size,
        )

    def post(
        self,
        payload: Any,
        to: Entry | None = None,
        by: object = None,
        size: int = 1,
    ) -> Admission:
        return self.host.post(self.message(payload, to, by, size))

    def send_batch(self, waits_s: float = 0.0) -> SendBatch:
        """Return a send batch of a task of this process, for the calling thread.

        waits_s: how long the batch may wait for room, in seconds.
        """
        by = self.host.audience
        return self.host.begin_send_batch(self.entry, by, None, lambda: waits_s)

    def round(self) -> None:
        """Make one round of the comm thread."""
        posted, requests = self.host.take()
        self.host.forward(posted, self.remote)  # type: ignore[arg-type]
        for request in requests:
            request.run()
        self.host.review()

    @property
    def waiting(self) -> list[Any]:
        return [message.payload for message in self.relay.queue]

    def leave(self) -> None:
        """Put the messages queued in the relay on a link."""
        self.relay.queue.clear()
        self.relay.client.review(self.relay)  # type: ignore[arg-type] # as far as needed
        self.host.review()


# Here the sender reads shared state without a lock, and other threads read its state.
RACES = [Task.command, SendBatch.confirm, SendBatch.take, SendBatch.reclaim_locked]


def adds(send_batch: SendBatch, payloads: Sequence[bytes]) -> list[bytes]:
    """Add payloads, as a task of the calling thread does; return the accepted ones."""
    return [payload for payload in payloads if add(send_batch, payload)]


def add(send_batch: SendBatch, payload: bytes) -> bool:
    send_batch.thread = _sync.get_ident()  # type: ignore[misc] # as if it had made it
    task = Sending(send_batch)
    with suppress(BusFullError):  # the wait for room timed out
        task.command("far", payload)
        return not task.left
    return False


class Sending(Task):
    """A task with an open send batch, and no other way to send.

    left: payloads that would go another way.
    """

    __slots__ = ("left",)

    def __init__(self, send_batch: SendBatch) -> None:
        self._send_batches = {"far": send_batch}  # type: ignore[misc]
        self._sender = self  # type: ignore[misc, assignment]
        self.left: list[Any] = []

    def command_one(self, _to: str, payload: Any, *_: object) -> CommandHandle:
        """Note a payload that goes another way; stands in for `Sender`."""
        self.left.append(payload)
        return NO_QUESTION


def all_is_given_back(process: Process) -> None:
    """Check that no message is queued, and that all room is free again."""
    process.round()
    process.leave()
    relay_account = process.relay.client
    assert relay_account.unread == 0
    assert relay_account._posted == relay_account._moved == relay_account._left
    assert (
        relay_account._posted_bytes
        == relay_account._moved_bytes
        == relay_account._left_bytes
    )
    assert not relay_account._send_batches


class Notifier(Sender):
    """A task whose notifications are numbered.

    lost: the payloads of the dropped notifications that were reported to it.
    """

    __slots__ = ("_process", "lost", "number")

    def __init__(self, process: Process, name: str = "d") -> None:
        self._process = process
        self.number = 0
        self.lost: list[Any] = []
        client = SimpleNamespace(on_dropped=lambda each: self.lost.append(each.payload))
        self._entry = Entry(  # type: ignore[misc]
            id=RegistrationId("here", "p1", 1),
            name=name,
            visibility=Visibility.PUBLIC,
            address=Address(name, machine="here", bus="bus1"),
            host=self,
            mailbox=SimpleNamespace(client=client),
        )
        comm = SimpleNamespace(audience=process.host.audience)
        self._exchange: Any = SimpleNamespace(comm=comm)  # type: ignore[misc]
        self._tracer = None  # type: ignore[misc]
        self.send_batches = {}  # type: ignore[misc]
        self.notifications = None
        self._receiver = SimpleNamespace(leaving=False)  # type: ignore[misc, assignment]

    @property
    def entry(self) -> Entry:
        return self._entry

    def require_host(self) -> Any:
        return self

    def notify_numbers(self, count: int, size: int = 3) -> None:
        """Send notifications of bytes, as `Task.notify` does."""
        for _ in range(count):
            payload = str(self._next()).encode().ljust(size, b".")
            if self.notifications is not None:  # as if the calling thread had made it
                self.notifications.thread = _sync.get_ident()  # type: ignore[misc]
            self.send(payload)

    def send(self, payload: bytes) -> None:
        """Send one notification of bytes, which may be no number."""
        if not self.notify_bytes(payload):
            self._post(payload)

    def notify_objects(self, count: int) -> None:
        """Send notifications that are no bytes."""
        for _ in range(count):
            self._post(self._next())

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _post(self, payload: Any) -> None:
        process = self._process
        self._entry.order = object()  # as `Router.post` does
        process.post(payload, process.host.audience, self._entry)

    def received(self) -> list[tuple[int, int]]:
        """Return the numbers of the notifications that left, each with its gap."""
        received = []
        notified = self._process.remote.notified
        gaps = self._process.remote.gaps
        for (payload, _), (source, gap) in zip(notified, gaps, strict=True):
            if source is self._entry:
                text = payload.rstrip(b".") if isinstance(payload, bytes) else payload
                received.append((int(text), gap))
        return received


def missing(received: list[tuple[int, int]]) -> list[int]:
    """Return for each notification how many are missing just before it."""
    numbers = [0, *(number for number, _ in received)]
    return [now - last - 1 for last, now in pairwise(numbers)]
