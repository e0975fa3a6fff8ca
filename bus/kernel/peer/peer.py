"""`Peer`: another process, and the state the two processes keep of each other's tasks.

A peer lasts until either side drops it. If the process connects again after that, it is
a new peer, under a new epoch.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from bus.kernel.peer.relay import Relay
from bus.kernel.peer.run_queue import AnswerBacklog, RelayCounters
from bus.kernel.streams.receipts import Receipts
from bus.kernel.wire import AddRelay, Characteristics, Gap, Role, Unrelay
from bus.model.events import BusReason
from bus.model.message import Kind
from bus.model.rights import UNRESTRICTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.kernel.peer.session import Session
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import OutboundRun
    from bus.kernel.timers import Alarm
    from bus.model.config import BusConfig
    from bus.model.registration import Key
    from bus.model.rights import Credentials, Rights

__all__ = ["Peer"]

_DEPARTED_MAX: Final = 4096


class Peer:
    """One other process that this process communicates with.

    The exchange's lock guards it, with its session and its relays.

    key: its machine and its name. role: the role it states; machine_id: the id of its
      host, "" until a link has stated it.
    session: the traffic to and from it; acks: the acknowledgements owed to it.
    credentials: its identity and rights; None until a link has stated them. user: the
      owner of the process, as the master reported before any link did.
    joined: True if a signalling link was opened between the two processes, at least one
      of which is a master.
    bound: True if any link was ever bound to it.
    since: when it last had a link, or was created, in seconds.
    dialling: True while a link to it is being set up.
    closing: True if it was asked to close the link, and has not refused.
    pid: its process id on its own system; None until a link has stated it.
    parted: how its last link ended, if one has.
    received_at: when anything was last received from it; pinged_at: when it was last
      pinged; both in seconds. unresponsive: True if it was silent for too long.
    ping: number of the last PING, 0 once answered. round_trip_s: until its answer.
    message_bytes_max: the longest message it accepts (OPEN-6), in bytes; until a link
      has stated it, the limit of this process.
    addresses: the addresses it listens on, as far as known. inside_address: the one for
      its own machine, as it stated to its master when it dialled; "" for others.
    relays: the relays of its tasks here, by the numbers it assigned.
    active: those of its relays, and of its audience, that may hold a message or a
      request. A relay enters with each message; `active_relays` drops the others.
    message_alarm: is set for the deadline of each message in a relay.
    audience: the relay of all its tasks that subscribe to tasks of this process.
    announced: relay numbers of local tasks introduced to it and not dismissed.
    notifications: the counters of the audience, and of all earlier ones.
    answers: the bound on the answers queued for it; flooded: True if they are too many.
    waiting: how many messages of each local task wait for a link, by relay number.
    """

    __slots__ = (
        "_departed",
        "_departing",
        "_gaps",
        "_notified",
        "_numbers_of_departed",
        "_receipts",
        "_removed",
        "acks",
        "active",
        "addresses",
        "announced",
        "answers",
        "audience",
        "bound",
        "closing",
        "credentials",
        "dialling",
        "flooded",
        "inside_address",
        "joined",
        "key",
        "machine_id",
        "message_alarm",
        "message_bytes_max",
        "notifications",
        "parted",
        "pid",
        "ping",
        "pinged_at",
        "received_at",
        "relays",
        "role",
        "round_trip_s",
        "session",
        "since",
        "unresponsive",
        "user",
        "waiting",
    )

    def __init__(
        self,
        key: Key,
        session: Session,
        now: float,
        *,
        config: BusConfig,
        message_alarm: Alarm,
    ) -> None:
        self.key: Final = key
        self.message_alarm: Final = message_alarm
        self.notifications: Final = RelayCounters()
        self._removed: Final = RelayCounters()  # of the relays removed so far
        self.session: Final = session
        self.acks: Final = session.acks
        self.role: Role = Role.SLAVE
        self.machine_id: str = ""
        self.joined: bool = False
        self.bound: bool = False
        self.since: float = now
        self.closing: bool = False
        self.dialling: bool = False
        self.pid: int | None = None
        self.parted: BusReason = BusReason.GIVEN_UP
        self.received_at: float = now
        self.pinged_at: float = now
        self.unresponsive: bool = False
        self.ping: int = 0
        self.round_trip_s: float | None = None
        self.credentials: Credentials | None = None
        self.user: int | None = None
        self.message_bytes_max: int = config.message_bytes_max
        self.addresses: tuple[str, ...] = ()
        self.inside_address: str = ""
        self.flooded: bool = False
        self.relays: Final[dict[int, Relay]] = {}
        self.active: dict[Any, None] = {}  # the keys are relays
        self.answers: Final = AnswerBacklog(self.relays)
        self.audience: Relay = Relay(self, None, now, config=config)
        self.announced: Final[set[int]] = set()
        self.waiting: Final[Counter[int]] = Counter()
        self._notified: Final[Counter[int]] = Counter()  # the notifications among these
        # Notifications dropped before a task's oldest waiting one, by relay number.
        self._gaps: Final[Counter[int]] = Counter()
        # UNRELAY frames to send once no message of the deregistered task waits.
        self._departing: Final[dict[int, Unrelay]] = {}
        # Relay numbers of tasks that deregistered before they were introduced to it.
        self._numbers_of_departed: Final[dict[Entry, int]] = {}
        # Relay numbers of its deregistered tasks: a late frame must not re-create one.
        self._departed: Final[dict[int, None]] = {}
        self._receipts: Final[dict[int, Receipts]] = {}

    @property
    def machine(self) -> str:
        """The machine that it runs on."""
        return self.key[0]

    @property
    def name(self) -> str:
        """Its name in stream tables and in text for people."""
        return "/".join(self.key)

    @property
    def counters(self) -> RelayCounters:
        """The sums of the counters of all its relays, including removed ones."""
        relays = [each.counters for each in self.all_relays()]
        return RelayCounters().add(self._removed, *relays)

    def all_relays(self) -> list[Relay]:
        """Return its relays, including the one of its audience."""
        return [*self.relays.values(), self.audience]

    def active_relays(self) -> list[Relay]:
        """Return the relays that hold a message or a request, audience included.

        Their number, not that of all relays, bounds the work of each round.
        """
        active: list[Relay] = [
            relay for relay in self.active if relay.busy and self._has_relay(relay)
        ]
        self.active = dict.fromkeys(active)
        return active

    def _has_relay(self, relay: Relay) -> bool:
        return relay is self.audience or self.relays.get(relay.number) is relay

    # Rights.

    @property
    def rights(self) -> Rights:
        """Its rights (BUS-SEC-1); unrestricted until a link states its credentials."""
        return (self.credentials or UNRESTRICTED).rights

    def is_other(self, credentials: Credentials) -> bool:
        """Return True if these credentials belong to another process that poses as it.

        Otherwise a guest could use the rights of others and receive their messages. A
        process with all rights may appear as another user, under another system's
        users.
        """
        known, whole = self.credentials, credentials.rights.whole
        if known is None:
            return not whole and self.user not in {None, credentials.uid}
        return known.uid != credentials.uid and not (whole and known.rights.whole)

    def is_reported_as_other(self, user: int | None) -> bool:
        """Return True if a guest's link proves another user than the master reports."""
        known = self.credentials
        if known is None or known.rights.whole:
            return False
        return user not in {None, known.uid}

    def set_credentials(self, credentials: Credentials) -> None:
        """Record the identity from its first link; drop forbidden notifications."""
        self.credentials = credentials
        may_subscribe = credentials.rights.may_subscribe
        self.audience.forbid(lambda run: not may_subscribe(run.source.name))

    # Local tasks.

    def about(self, task: Entry, relay: int | None = None) -> Characteristics:
        """Return a task's characteristics, closed if the peer may not command it."""
        about = characteristics(task, self.session.own, relay)
        if not self.rights.may_command(task.name):
            about = replace(about, closed=True)
        return about

    def announce(self, task: Entry, relay: int) -> None:
        """Introduce a task to the peer, unless the peer knows it."""
        if relay not in self.announced:
            self.announced.add(relay)
            about = self.about(task, relay)
            if relay in self._departing:
                # Another task may hold its name by now. But a private task would have
                # no subscribers.
                about = replace(about, closed=True)
            self.session.send_control(AddRelay(task=about))

    def number_of_departed(self, task: Entry, new: Callable[[], int]) -> int:
        """Return the relay number of a deregistered task with messages for the peer.

        This is the old number while any of its messages waits; else one new number, for
        all of its messages.
        """
        if task.relay in self._departing:
            return task.relay
        number = self._numbers_of_departed.get(task)
        if number is None:
            number = self._numbers_of_departed[task] = new()
        return number

    def count_queued(self, outbound_run: OutboundRun, count: int = 1) -> None:
        """Count messages like `outbound_run` that now wait for the link."""
        self.waiting[outbound_run.relay] += count
        if outbound_run.kind is Kind.NOTIFICATION:
            self._notified[outbound_run.relay] += count

    def uncount_queued(self, outbound_run: OutboundRun, count: int = 1) -> None:
        """Uncount messages that no longer wait; send a deferred UNRELAY after the last.

        UNRELAY cannot be sent earlier: the messages would then have no known sender.
        """
        relay = outbound_run.relay
        if outbound_run.kind is Kind.NOTIFICATION:
            self._notified[relay] -= count
            if not self._notified[relay]:
                del self._notified[relay]
        self.waiting[relay] -= count
        if not self.waiting[relay]:
            del self.waiting[relay]
            unrelay = self._departing.pop(relay, None)
            if unrelay is not None:
                self._send_unrelay(unrelay)

    def count_dropped(self, oldest: OutboundRun) -> None:
        """Count dropped notifications, their task's oldest ones (BUS-FLOW-3)."""
        self._gaps[oldest.relay] += len(oldest.bodies) + oldest.gap

    def has_gap(self, relay: int) -> bool:
        """Return True if a local task's next notification must report a gap."""
        return relay in self._gaps

    def send_gap(self, notification: OutboundRun) -> None:
        """Send a GAP before a task's next notification if any was dropped before it."""
        relay = notification.relay
        if count := self._gaps.pop(relay, 0) + notification.gap:
            self.session.send_control(Gap(relay=relay, count=count))

    @property
    def notifying(self) -> bool:
        """True if a notification waits for the link; it may delay other messages."""
        return bool(self._notified)

    def notified(self, relay: int) -> int:
        """Return how many notifications of a local task wait for the link."""
        return self._notified.get(relay, 0)

    def holds_back(self, relay: object, outbound_run: OutboundRun) -> bool:
        """Return True if an earlier message of the same sender waits in another queue.

        Notifications wait in one queue, other messages in the queues of their relays.
        Each queue keeps its order. Between the relays of two tasks the order does not
        matter: neither task receives the other's messages.
        """
        notified = self.notified(outbound_run.relay)
        others: Iterable[Relay]
        if relay is not self.audience:
            if not notified:
                return False
            others = (self.audience,)
        else:
            if notified == self.waiting[outbound_run.relay]:
                return False
            others = [each for each in self.active_relays() if each is not relay]
        return any(
            each.relay == outbound_run.relay and each.turn < outbound_run.turn
            for other in others
            for each in other.queue
        )

    def report_departure(self, relay: int, *, final: bool) -> None:
        """Report a local task's deregistration and last extraction (BUS-DEREG-4)."""
        if relay in self._departing:
            return
        receipts = self._receipts.pop(relay, None)
        extracted = 0 if receipts is None else receipts.extracted
        frame = Unrelay(relay=relay, extracted=extracted, final=final)
        if relay in self.waiting:
            # Send UNRELAY early, so that the peer can release the messages the task has
            # not extracted. Otherwise two tasks that deregister while they send to each
            # other would wait for each other.
            self._departing[relay] = frame
            self.session.send_control(replace(frame, more=True))
        else:
            self._send_unrelay(frame)

    def _send_unrelay(self, frame: Unrelay) -> None:
        self.announced.discard(frame.relay)
        self._gaps.pop(frame.relay, None)
        for task, number in list(self._numbers_of_departed.items()):
            if number == frame.relay:
                del self._numbers_of_departed[task]
        self.session.send_control(frame)
        self.acks.forget(frame.relay)

    def is_leaving(self, relay: int) -> bool:
        """Return True if messages of a deregistered task still wait for the link."""
        return relay in self._departing

    def is_unrelay_pending(self, relay: int) -> bool:
        """Return True if this task's deregistration is pending or unacknowledged."""
        return relay in self._departing or self.session.is_unrelay_pending(relay)

    def receipts(self, task: Entry) -> Receipts:
        """Return the receipts of the messages from this peer for a local task."""
        receipts = self._receipts.get(task.relay)
        if receipts is None:
            receipts = self._receipts[task.relay] = Receipts()
        return receipts

    def on_extracted(
        self, relay: int, number: int, now: float, *, count: int = 1, size: int = 0
    ) -> None:
        """Record that a local task extracted messages, the first of which has `number`.

        size: the total length of the messages, in bytes.
        """
        receipts = self._receipts.get(relay)
        if receipts is not None and receipts.take(number, count):
            self.acks.on_extracted(relay, receipts.extracted, now, size)

    def settle_receipts(self, may_settle: Callable[[int], bool], now: float) -> bool:
        """Count messages as extracted whose extraction was not recorded.

        may_settle: returns True if the local task with a relay number has none unread.

        Return False if some task may have.
        """
        settled = True
        for relay, receipts in self._receipts.items():
            if not receipts.unread:
                continue
            if may_settle(relay):
                receipts.take_all()
                self.acks.on_extracted(relay, receipts.extracted, now)
            else:
                settled = False
        return settled

    # Remote tasks.

    def depart(self, number: int) -> Relay | None:
        """Forget one of its tasks; return the task's relay."""
        self._departed[number] = None
        if len(self._departed) > _DEPARTED_MAX:
            del self._departed[next(iter(self._departed))]
        return self.remove_relay(number)

    def remove_relay(self, number: int) -> Relay | None:
        """Remove the relay of one of its tasks, if there is one, and return it."""
        relay = self.relays.pop(number, None)
        if relay is not None:
            self._removed.add(relay.counters)
            relay.counters = self._removed  # its last messages may end only now
        return relay

    def has_departed(self, number: int) -> bool:
        """Return True if it has reported that this task of its own deregistered."""
        return number in self._departed

    def forget(self) -> None:
        """Forget all shared state, since the peer has forgotten it too."""
        for number in list(self.relays):
            self.remove_relay(number)
        self.active.clear()
        self.audience.abandon()
        before = self.audience
        self.audience = Relay(self, None, before.since, config=before.config)
        self.announced.clear()
        self.waiting.clear()
        self._notified.clear()
        self._gaps.clear()
        self._departing.clear()
        self._numbers_of_departed.clear()
        self._departed.clear()
        self._receipts.clear()
        self.joined = self.closing = self.flooded = False
        self.answers.clear()

    @property
    def busy(self) -> bool:
        """True if any message of this process waits for it or for one of its tasks."""
        return bool(self.active_relays())


def characteristics(
    task: Entry, incarnation: int, relay: int | None = None
) -> Characteristics:
    """Return the characteristics from which another process makes a task's relay."""
    return Characteristics(
        relay=task.relay if relay is None else relay,
        id=task.id,
        name=task.name,
        visibility=task.visibility,
        incarnation=incarnation,
        overflow=task.overflow,
    )
