"""A relay outbox, and fakes for everything behind it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from bus.address import Address
from bus.config import BusConfig
from bus.core.local.actions import Fail
from bus.core.local.routing_table import Entry, RoutingTable
from bus.core.wire import Characteristics
from bus.errors import BusFullError
from bus.links.relay_outbox import RelayOutbox
from bus.links.send_batch import SealedBatch
from bus.message import Incoming, Kind
from bus.registration import RegistrationId, Visibility
from tests.kit.messages import new_message
from tests.kit.station import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.links.relay_account import RelayAccount
    from bus.links.send_batch import SendBatch
    from bus.threads.account import Admission, Overflow

__all__ = ["FakeRelay", "Process", "Remote"]


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

    full: True if relays have no room for more.
    """

    def __init__(self) -> None:
        self.full = False
        self.todo: list[Fail] = []
        self.notified: list[Any] = []
        self.gaps: list[tuple[object, int]] = []
        self.answered: list[Any] = []
        self.outbound_messages = self

    def post(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        if self.full:
            error = BusFullError("the relay", 1)
            self.todo += [Fail(message, error) for message in messages]
        else:
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

    def answer(self, question: Incoming, payload: Any, *, error: str | None) -> None:
        self.answered.append((question.payload, payload, error))


class Process:
    """An outbox, one relay, and tasks that post to it."""

    def __init__(self, overflow: Overflow = "error", **config: Any) -> None:
        self.host = RelayOutbox(
            IDENTITY,
            BusConfig(**config),
            lambda message: None,
        )
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
        self.entry = self.entry_of("far", self.relay, overflow)
        self.lost: list[Any] = []

    def unsent(self) -> list[Any]:
        """Take out the payloads that the relay did not send before its removal."""
        return [each.payload for each in self.host.take_unsent(self.entry, ())]

    def _send_alone(self, command: Incoming) -> bool:
        if self.may_go_alone:
            self.alone.append(command)
        return self.may_go_alone

    def entry_of(
        self, name: str, mailbox: object, overflow: Overflow = "error"
    ) -> Entry:
        return Entry(
            id=RegistrationId("there", "p2", 1),
            name=name,
            visibility=Visibility.PUBLIC,
            address=Address(name, machine="there", bus="bus1"),
            host=self.host,
            mailbox=mailbox,
            remote=True,
            overflow=overflow,
            table=RoutingTable(),
        )

    def message(
        self, payload: Any, to: Entry | None = None, by: object = None
    ) -> Incoming:
        entry = self.entry if to is None else to
        audience = entry is self.host.audience
        return new_message(
            payload,
            kind=Kind.NOTIFICATION if audience else Kind.COMMAND,
            _source=self.sender() if by is None else by,
            _to=entry,
            _account=self.host.account if audience else self.relay.client,
            _size=1,
        )

    def sender(self) -> object:
        """Return a sending task of this process."""
        return _Sender(self.lost)

    def post(
        self, payload: Any, to: Entry | None = None, by: object = None
    ) -> Admission:
        return self.host.post(self.message(payload, to, by))

    def send_batch(self, waits_s: float = 0.0) -> SendBatch:
        """Return a send batch of a task of this process, for the calling thread.

        waits_s: how long the batch may wait for room, in seconds.
        """
        by = self.host.audience
        return self.host.begin_send_batch(self.entry, by, None, lambda: waits_s)

    def round(self) -> list[Any]:
        """Make one round of the comm thread; return the failed messages."""
        posted, requests = self.host.take()
        self.host.forward(posted, self.remote)  # type: ignore[arg-type]
        for request in requests:
            request.run()
        self.host.review()
        back, self.remote.todo = self.remote.todo, []
        return back

    @property
    def waiting(self) -> list[Any]:
        return [message.payload for message in self.relay.queue]

    def leave(self) -> None:
        """Put the messages queued in the relay on a link."""
        self.relay.queue.clear()
        self.host.review()


class _Sender:
    def __init__(self, lost: list[Any]) -> None:
        self.mailbox = self
        self.client = self
        self._lost = lost

    def on_dropped(self, message: Incoming) -> None:
        self._lost.append(message.payload)
