"""`RelayOutbox`: the host of all relays of a process, to which tasks post.

Messages for relays, and for all remote subscribers, wait in one inbox until the comm
thread takes them. So the sender's part ends with the post (BUS-RELAY-6).
"""

from __future__ import annotations

from collections import deque
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bus.errors import InDoubtError
from bus.kernel.tasks.routing_table import Entry, RoutingTable
from bus.kernel.wire import Bodies
from bus.model.address import Address
from bus.model.error_text import error_text_of
from bus.model.message import Kind
from bus.model.registration import RegistrationId, Visibility
from bus.process.accounts import AudienceAccount, RelayAccount
from bus.process.inbox import Inbox
from bus.process.send_batch import SealedBatch, SendBatch
from bus.process.thread_manager import Request
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bus.errors import BusError
    from bus.kernel.messages.outbound_messages import OutboundMessages
    from bus.kernel.peer.relay import Relay
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.wire import Characteristics, Identity
    from bus.model.config import BusConfig
    from bus.model.message import Incoming
    from bus.model.payload import Payload
    from bus.process.account import Admission
    from bus.process.mailbox import Delivery

__all__ = ["OutboundAnswer", "RelayOutbox"]

# An item posted here, after it is taken out.
Posted: TypeAlias = "Incoming | SealedBatch | OutboundAnswer"

_ADDRESSEE: Final = attrgetter("_to")


def _source_alone(item: Incoming | SealedBatch) -> Entry | None:
    """Return the source of a notification if its bytes are all that matters; or None.

    Successive ones of one source, too long for a batch, are passed on together.
    """
    if isinstance(item, SealedBatch) or type(item.payload) is not bytes:
        return None
    if item._id or item._trace is not None or item.gap or item.subscriptions:
        return None
    source: Entry = item._source
    return source


class OutboundAnswer:
    """The answer of a local task to a question of a remote one.

    It is not posted to a relay: the question identifies the relay.
    """

    __slots__ = ("_to", "error", "payload", "question")

    def __init__(self, question: Incoming, payload: Payload, error: str | None) -> None:
        self._to: Final = None
        self.question: Final = question
        self.payload: Final = payload
        self.error: Final = error


class RelayOutbox:
    """A host of relays that any thread may post to, as to a `ThreadManager`.

    Args:
        me: the identity of this process.
        taken: called with a remote message that its process need not keep any longer.

    Attributes:
        inbox: posted messages, and requests to the comm thread.
        audience: stands for all remote tasks that subscribe to tasks of this process.
        account: the account of ``audience``.
        ident: the comm thread; None before it runs.
        send_single: sends a single message at once; returns False if it may not. The
            comm thread sets it before a task can post.
        errors: the internal errors of the comm thread that are still to be logged; each
            has ended a frame with its link, a message or a request, and nothing else.

    Invariant: a message posted to a relay before its removal is in ``_strays``, in
    order, or in the inbox before the request that returns it.
    """

    __slots__ = (
        "_busy",
        "_config",
        "_strays",
        "_taken",
        "_unopened",
        "account",
        "audience",
        "errors",
        "ident",
        "inbox",
        "send_single",
    )

    send_single: Callable[[Incoming], bool]

    def __init__(
        self,
        me: Identity,
        config: BusConfig,
        taken: Callable[[Incoming], object],
    ) -> None:
        self._config: Final = config
        self._taken: Final = taken
        self.inbox: Final = Inbox()
        self.errors: Final[deque[Exception]] = deque()
        self.ident: int | None = None
        self.account: Final = AudienceAccount(
            messages_max=config.task_fifo_messages,
            bytes_max=config.task_fifo_bytes,
        )
        here = Address("audience", machine=me.machine, bus=me.bus)
        self.audience: Final = Entry(
            id=RegistrationId(me.machine, me.process, 0),
            name=here.module,
            visibility=Visibility.PRIVATE,
            address=here,
            host=self,
            mailbox=None,
            remote=True,
            table=RoutingTable(),  # its own, which it never leaves
            # As for its account, so that `take` skips the dropped notifications.
            overflow="drop-oldest",
        )
        # For the comm thread alone: messages posted to relays that were removed since,
        # and relays with waiting messages.
        self._strays: Final[dict[Entry, list[Incoming]]] = {}
        self._busy: Final[set[Relay]] = set()
        # Messages to send first through such a relay; stored here before the request
        # that returns them.
        self._unopened: Final[dict[Entry, Sequence[Incoming]]] = {}

    # For any thread.

    def new_relay_account(self, task: Characteristics) -> RelayAccount:
        """Make the account of a relay for its senders."""
        return RelayAccount(
            messages_max=self._config.task_fifo_messages,
            bytes_max=self._config.task_fifo_bytes,
            overflow=task.overflow,
            taken=self._taken,
            refuse=self._refuse,
        )

    def _refuse(self, question: Incoming, error: BusError) -> None:
        self.inbox.push(
            OutboundAnswer(question, None, f"{type(error).__name__}: {error}")
        )

    def is_owner(self) -> bool:
        """Return True if the caller is the comm thread."""
        return self.ident == _sync.get_ident()

    def post(self, message: Delivery) -> Admission:
        """Post a message for a relay, or for the audience; see `Inbox.offer`."""
        return self.inbox.offer(message, self)

    def begin_send_batch(
        self,
        to: Entry,
        source: Entry,
        timeout_s: float | None,
        waits_s: Callable[[], float] | None = None,
    ) -> SendBatch:
        """Begin a send batch of commands to a relay.

        timeout_s: how long each command is worth delivering; None for ever.
        waits_s: returns how long the calling thread may wait for room now.
        """
        # Encoding adds some bytes to a payload.
        longest = self._config.message_bytes_max - 8
        if to.overflow != "block" or self.is_owner():
            waits_s = None  # the comm thread makes room, and must not wait for itself
        return SendBatch(
            to,
            source,
            to.mailbox.client,
            self,
            timeout_s,
            longest,
            waits_s,
            self.send_single,
        )

    def begin_notifications(self, source: Entry) -> SendBatch:
        """Begin a send batch of notifications of a task to all remote subscribers.

        No notification of it waits for room, or expires.
        """
        longest = self._config.message_bytes_max - 8  # as above
        return SendBatch(
            self.audience,
            source,
            self.account,
            self,
            None,
            longest,
            None,
            self.send_single,
            Kind.NOTIFICATION,
        )

    def ask(self, request: Callable[[], object]) -> None:
        """Let the comm thread call ``request``, after everything posted before."""
        self.inbox.push(Request(request))

    # For the comm thread.

    def take(self) -> tuple[list[Posted], list[Request]]:
        """Take out the posted messages and the requests, each in order."""
        posted: list[Posted] = []
        requests: list[Request] = []
        for item in self.inbox.take_now():
            if type(item) is Request:
                requests.append(item)
            elif type(item) is SendBatch:
                sealed_batch = item.take()
                if sealed_batch.payloads:  # all notifications may have been dropped
                    posted.append(sealed_batch)
            elif (
                (entry := item._to) is None
                or entry.overflow != "drop-oldest"
                or self._extract(item)
            ):
                posted.append(item)
        return posted, requests

    def _extract(self, message: Incoming) -> bool:
        """Take a message off its account; return False if it was dropped."""
        entry: Entry = message._to
        if entry is self.audience:
            return self.account.extract(message, self.inbox.lock)
        relay_account: RelayAccount = entry.mailbox.client
        return relay_account.take(message, self.inbox.lock)

    def forward(self, items: Iterable[Any], remote: RemoteManager) -> None:
        """Pass items to their relays or remote tasks, under the exchange's lock.

        After an internal error, the commands that it ended are in doubt: some of them
        may be in the relay.
        """
        outbound_messages = remote.outbound_messages
        for entry, run in groupby(items, _ADDRESSEE):
            some = list(run)
            try:
                if entry is None:
                    for said in some:
                        outbound_messages.answer(
                            said.question, said.payload, error=said.error
                        )
                elif entry is self.audience:
                    for source, each in groupby(some, _source_alone):
                        self._pass_notifications_on(source, list(each), remote)
                else:
                    self._pass_on(entry, some, outbound_messages)
            except Exception as error:  # noqa: BLE001 # it ends these messages alone
                if entry is not None and entry is not self.audience:
                    why = f"its own process failed to send it: {error_text_of(error)}"
                    commands = [
                        command
                        for item in some
                        for command in (
                            item.commands() if type(item) is SealedBatch else [item]
                        )
                    ]
                    remote.topology.fail(commands, InDoubtError(entry.name, why))
                self.errors.append(error)

    def _pass_on(
        self, entry: Entry, items: Iterable[Any], outbound_messages: OutboundMessages
    ) -> None:
        self._busy.add(entry.mailbox)
        for kind, some in groupby(items, type):
            if kind is SealedBatch:
                for sealed_batch in some:
                    self._pass_sealed_batch_on(entry, sealed_batch, outbound_messages)
            else:
                self._pass_commands_on(entry, list(some), outbound_messages)

    @staticmethod
    def _pass_notifications_on(
        source: Entry | None,
        items: list[Incoming | SealedBatch],
        remote: RemoteManager,
    ) -> None:
        if source is not None and len(items) > 1:
            payloads = Bodies([item.payload for item in items])  # type: ignore[union-attr]
            remote.notify_alike(source, payloads, payloads.lengths.total, 0)
            return
        for item in items:
            if isinstance(item, SealedBatch):
                remote.notify_alike(item.source, item.payloads, item.size, item.gap)
            else:
                remote.notify(
                    item._source,
                    item.payload,
                    item._id,
                    item._trace,
                    item.gap,
                    delivered=bool(item.subscriptions),
                )

    def _pass_commands_on(
        self,
        entry: Entry,
        messages: list[Incoming],
        outbound_messages: OutboundMessages,
    ) -> None:
        relay_account: RelayAccount = entry.mailbox.client
        relay_account.on_moved(messages)
        if entry.host is self:
            outbound_messages.post(entry, messages)
        else:
            self._strays.setdefault(entry, []).extend(messages)

    def _pass_sealed_batch_on(
        self,
        entry: Entry,
        sealed_batch: SealedBatch,
        outbound_messages: OutboundMessages,
    ) -> None:
        relay_account: RelayAccount = entry.mailbox.client
        relay_account.on_batch_moved(len(sealed_batch.payloads), sealed_batch.size)
        if entry.host is self:
            outbound_messages.post_alike(
                entry,
                sealed_batch.source,
                sealed_batch.payloads,
                sealed_batch.size,
                sealed_batch.deadline,
            )
        else:
            self._strays.setdefault(entry, []).extend(sealed_batch.commands())

    def open(
        self, entry: Entry, messages: Sequence[Incoming], remote: RemoteManager
    ) -> None:
        """Open a relay for sending, first some messages, under the exchange's lock."""
        if entry.host is self:
            remote.outbound_messages.open(entry, messages)
        else:
            # The relay was removed since the decision to open it: `take_unsent` returns
            # these messages along with the rest of the relay.
            self._unopened[entry] = messages

    def take_unsent(self, entry: Entry, messages: Sequence[Incoming]) -> list[Incoming]:
        """Take out all messages that a removed relay did not send, in order.

        messages: those that were left in the relay itself.
        """
        return [
            *self._unopened.pop(entry, ()),
            *messages,
            *self._strays.pop(entry, ()),
        ]

    def review(self) -> None:
        """Count the messages that left relays; wake the senders that wait for room."""
        for relay in list(self._busy):
            relay_account: RelayAccount = relay.client
            relay_account.review(relay)
            if not relay.queue:
                self._busy.discard(relay)
        self.inbox.wake_senders()
