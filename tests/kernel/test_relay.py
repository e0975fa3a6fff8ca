"""A relay whose runs hold several messages, against lists of single messages.

The grouping into runs must not matter. Sent, remaining and counted messages are the
same as if each message had a run of its own.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from bus.kernel.peer import peer as peer_module
from bus.kernel.peer.peer import Peer
from bus.kernel.peer.relay import Relay
from bus.kernel.peer.session import Session
from bus.kernel.trace import Trace
from bus.kernel.wire import Ack, Batch, Characteristics, Gap
from bus.model.config import BusConfig
from bus.model.events import BusOperation, BusReason
from bus.model.message import Incoming, Kind
from bus.model.registration import RegistrationId
from specs.clauses import clause
from tests.kernel.sessions import link_up, new_alarm, outbound_run
from tests.kernel.test_trace import Notes
from tests.kit.constants import configured, set_constants

if TYPE_CHECKING:
    from bus.kernel.tasks.runs import OutboundRun

WINDOW = 6
WINDOW_BYTES = 40
STREAM_WINDOW = 9
CONFIG = BusConfig(window=WINDOW, window_bytes=WINDOW_BYTES)
ADDRESSEE = Characteristics(
    relay=3, id=RegistrationId("m1", "s2", 1), name="f", incarnation=2
)
SENDERS = {1: "d", 2: "e"}  # by relay number

senders = st.sampled_from(sorted(SENDERS))
sizes = st.integers(4, 30)


@attrs.frozen
class Command:
    """One message, as the model represents it."""

    sender: int
    turn: int
    body: bytes
    deadline: float | None


def outbound_run_of(commands: list[Command], *, alone: bool = False) -> OutboundRun:
    """Make a run of messages that differ only in their bodies.

    alone: True for a single command, posted by itself.
    """
    first = commands[0]
    source: Any = SENDERS[first.sender]
    message = None
    if alone:
        message = Incoming(
            Kind.COMMAND, first.body, _source=source, _deadline=first.deadline
        )
    return outbound_run(
        [each.body for each in commands],
        source=source,
        relay=first.sender,
        turn=first.turn,
        deadline=first.deadline,
        message=message,
        name=None if alone else "f",
    )


def notification(sender: int, turn: int) -> OutboundRun:
    """Make a run for the audience."""
    return outbound_run(
        (b"n",),
        kind=Kind.NOTIFICATION,
        source=SENDERS[sender],
        relay=sender,
        turn=turn,
        name=None,
    )


class RelayMachine(RuleBasedStateMachine):
    """Runs are posted, sent in parts, extracted in parts, and withdrawn."""

    def __init__(self) -> None:
        super().__init__()
        set_constants(STREAM_WINDOW=STREAM_WINDOW)
        session = Session(
            5, own=1, incarnation=2, nonce=0, config=CONFIG, ack_alarm=new_alarm()
        )
        self.peer = Peer(
            ("m1", "s2"),
            session,
            0.0,
            config=CONFIG,
            message_alarm=new_alarm(),
        )
        link_up(self.peer.session)
        self.peer.announced.update(SENDERS)
        self.relay = Relay(self.peer, ADDRESSEE, 0.0, config=CONFIG)
        self.now = 0.0
        self.made = 0
        self.turns = 0
        # The model: single messages by place.
        self.queued: list[Command] = []
        self.under_way: list[tuple[int, Command]] = []
        self.withdrawn: list[Command] = []
        self.notified: list[tuple[int, int]] = []  # sender and turn
        self.unflushed: list[tuple[int, bytes]] = []
        self.next = self.floor = 1

    # Steps.

    @rule(sender=senders, lengths=st.lists(sizes, min_size=1, max_size=9))
    def several_are_posted(self, sender: int, lengths: list[int]) -> None:
        commands = self._letters(sender, lengths, None)
        self.relay.append([outbound_run_of(commands)])

    @rule(sender=senders, lengths=st.lists(sizes, min_size=1, max_size=3))
    def several_are_posted_that_are_soon_too_late(
        self, sender: int, lengths: list[int]
    ) -> None:
        commands = self._letters(sender, lengths, self.now + 2)
        self.relay.append([outbound_run_of(commands)])

    @rule(sender=senders, lengths=st.lists(sizes, min_size=1, max_size=3))
    def some_are_posted_one_by_one(self, sender: int, lengths: list[int]) -> None:
        commands = self._letters(sender, lengths, None)
        self.relay.append([outbound_run_of([each], alone=True) for each in commands])

    @rule(sender=senders)
    def its_sender_notifies(self, sender: int) -> None:
        self.turns += 1
        self.notified.append((sender, self.turns))
        self.peer.audience.append([notification(sender, self.turns)])

    @rule()
    def a_notification_goes(self) -> None:
        if self.notified:
            self.notified.pop(0)
            self.peer.audience._drop_oldest(1, 0, 1)

    @rule()
    def what_may_goes(self) -> None:
        at, held = 0, set[int]()
        while at < len(self.queued) and self._window_open():
            command = self.queued[at]
            if command.sender in held or self._is_overtaking(command):
                held.add(command.sender)
                at += 1
                continue
            del self.queued[at]
            self.under_way.append((self.next, command))
            self.unflushed.append((self.next, command.body))
            self.next += 1

        self.relay.pump()

    @rule()
    def it_is_put_on_the_link(self) -> None:
        frames = self.peer.session.flush(self.now)
        bodies = [
            (number, body)
            for frame in frames
            if isinstance(frame, Batch)
            for number, body in enumerate(
                (bytes(body) for run in frame.runs for body in run.bodies), frame.first
            )
        ]
        assert bodies == self.unflushed
        self.unflushed = []

    @rule(data=st.data())
    def it_arrives(self, data: st.DataObject) -> None:
        last = data.draw(st.integers(self.floor - 1, self.next - 1))
        self.floor = last + 1
        self.peer.session.on_ack(Ack(epoch=5, incarnation=2, last=last, controls=0))

    @rule(data=st.data())
    def some_are_taken(self, data: st.DataObject) -> None:
        """Also in the middle of a run; an old number may be repeated."""
        number = data.draw(st.integers(0, self.next - 1))
        taken = [each for each in self.under_way if each[0] <= number]
        self.under_way = self.under_way[len(taken) :]

        before = self.relay.counters.commands_taken
        self.relay.on_extracted(number)
        assert self.relay.counters.commands_taken - before == len(taken)

    @rule()
    def the_oldest_is_dropped(self) -> None:
        oldest = self.queued[:1]
        del self.queued[:1]
        self._are(self.relay.drop_oldest_command(), oldest)

    @rule()
    def time_passes(self) -> None:
        self.now += 1.0
        late = [
            each
            for each in self.queued
            if each.deadline is not None and each.deadline <= self.now
        ]
        self.queued = [each for each in self.queued if each not in late]
        self._are(self.relay.expire(self.now), late)
        at = self.relay.next_deadline()
        assert at is None or at > self.now  # else the thread would not sleep

    @rule()
    def they_are_withdrawn(self) -> None:
        self.withdrawn += self.queued
        self.queued = []
        self.relay.withdraw()

    @rule()
    def what_was_not_sent_is_taken_back(self) -> None:
        unsent = self.withdrawn + self.queued
        self.withdrawn, self.queued = [], []
        self._are(self.relay.take_unsent(), unsent)

    @rule()
    def what_is_in_doubt_is_taken_back(self) -> None:
        doubtful = [command for _, command in self.under_way]
        self.under_way = []
        self._are(self.relay.take_unacked(), doubtful)

    # Invariants.

    @invariant()
    def all_is_where_it_would_be_one_by_one(self) -> None:
        relay = self.relay
        queued = [(each.relay, body) for each in relay.queue for body in each.bodies]
        assert queued == [(each.sender, each.body) for each in self.queued]
        unacked = [
            (number, body)
            for first, each in relay.unacked
            for number, body in enumerate(each.bodies, first)
        ]
        assert unacked == [(number, each.body) for number, each in self.under_way]
        self._are(relay.withdrawn, self.withdrawn)

    @invariant()
    def what_is_counted_is_there(self) -> None:
        relay = self.relay
        assert relay.queued == len(self.queued)
        assert relay.queued_bytes == sum(len(each.body) for each in self.queued)
        assert relay.under_way == len(self.under_way)
        assert relay.unacked_bytes == sum(len(each.body) for _, each in self.under_way)
        here = len(self.queued) + len(self.under_way) + len(self.withdrawn)
        assert relay.in_transit == here
        assert relay.busy == bool(here)
        deadlines = [each.deadline for each in self.queued if each.deadline is not None]
        at = relay.next_deadline()
        assert not deadlines or (at is not None and at <= min(deadlines))
        assert at is None or self.queued
        waiting = [each.sender for each in self.queued]
        waiting += [sender for sender, _ in self.notified]
        assert self.peer.waiting == {each: waiting.count(each) for each in waiting}

    @invariant()
    def the_window_holds(self) -> None:
        under_way = [len(each.body) for _, each in self.under_way]
        assert self.relay.under_way <= WINDOW
        assert sum(under_way[:-1]) < WINDOW_BYTES

    # The model's rules.

    def _letters(
        self, sender: int, lengths: list[int], deadline: float | None
    ) -> list[Command]:
        self.turns += 1
        commands = []
        for length in lengths:
            self.made += 1
            body = self.made.to_bytes(4).ljust(length, b".")
            commands.append(Command(sender, self.turns, body, deadline))
        self.queued += commands
        return commands

    def _window_open(self) -> bool:
        size = sum(len(each.body) for _, each in self.under_way)
        return (
            self.next - self.floor < STREAM_WINDOW
            and len(self.under_way) < WINDOW
            and size < WINDOW_BYTES
        )

    def _is_overtaking(self, command: Command) -> bool:
        return any(
            sender == command.sender and turn < command.turn
            for sender, turn in self.notified
        )

    @staticmethod
    def _are(messages: list[Incoming], commands: list[Command]) -> None:
        """Compare commands with the model: the same senders, in the same order."""
        assert [
            (each._source, each.payload, each._deadline, each.kind, each.wants_reply)
            for each in messages
        ] == [
            (SENDERS[each.sender], each.body, each.deadline, Kind.COMMAND, False)
            for each in commands
        ]


@pytest.mark.deep
@clause("BUS-RELAY-9", "BUS-RELAY-11", "BUS-FLOW-1", "BUS-MSG-15")
def test_which_messages_share_an_outbound_run_makes_no_difference() -> None:
    run_state_machine_as_test(RelayMachine)


@clause("BUS-FLOW-1", "BUS-FLOW-3")
def test_notifications_that_wait_are_bounded_in_messages_and_in_bytes() -> None:
    """One notification is accepted in any case if none waits."""
    machine = RelayMachine()
    machine.peer.session.detach()
    config = attrs.evolve(CONFIG, task_fifo_messages=5, task_fifo_bytes=100)
    audience = Relay(machine.peer, None, 0.0, config=config)

    def waiting(size: int) -> list[int]:
        machine.turns += 1
        each = notification(1, machine.turns)
        each = replace(each, bodies=(bytes(size),), size=size)
        audience.append([each])
        audience.drop_excess()
        return [each.size for each in audience.queue]

    assert waiting(300) == [300]
    assert waiting(1) == [1]
    assert waiting(40) == [1, 40]
    assert waiting(59) == [1, 40, 59]
    assert waiting(60) == [60]
    assert [waiting(1) for _ in range(5)][-2:] == [[60, 1, 1, 1, 1], [1] * 5]
    assert audience.queued_bytes == 5


@clause("BUS-FLOW-1", "BUS-FLOW-3")
@pytest.mark.parametrize(
    ("lengths", "left"),
    [
        ([20] * 5, [20] * 5),
        ([10] * 8, [10] * 5),
        ([20, 30, 30, 20, 20], [30, 30, 20, 20]),  # exactly the bytes in excess
        ([10, 9, 30, 30, 22], [9, 30, 30, 22]),  # one byte in excess
        ([40, 10, 50, 15], [10, 50, 15]),
        ([5, 5, 5, 60, 40], [60, 40]),
        ([50, 300], [300]),
        ([300], [300]),
    ],
)
def test_of_notifications_sent_together_the_oldest_are_dropped_down_to_the_bounds(
    lengths: list[int], left: list[int]
) -> None:
    """As few as possible, in messages and in bytes; never the newest."""
    machine = RelayMachine()
    machine.peer.session.detach()
    config = attrs.evolve(CONFIG, task_fifo_messages=5, task_fifo_bytes=100)
    audience = Relay(machine.peer, None, 0.0, config=config)
    bodies = [bytes(length) for length in lengths]
    audience.append([replace(notification(1, 1), bodies=bodies, size=sum(lengths))])

    audience.drop_excess()

    assert [len(body) for run in audience.queue for body in run.bodies] == left
    assert (audience.queued, audience.queued_bytes) == (len(left), sum(left))
    assert audience.counters.dropped == len(lengths) - len(left)


@clause("BUS-MSG-16", "BUS-FLOW-3")
def test_of_notifications_sent_together_only_those_too_long_are_dropped() -> None:
    """The next one that is sent reports them."""
    machine = RelayMachine()
    peer = machine.peer
    peer.message_bytes_max = 10
    audience = peer.audience
    bodies = [bytes(size) for size in (3, 11, 12, 10, 4, 11)]
    run = replace(notification(1, 1), bodies=bodies, size=sum(map(len, bodies)))
    audience.append([run])

    audience.pump()

    frames = peer.session.flush(0.0)
    sent = [
        [len(body) for run in each.runs for body in run.bodies]
        if isinstance(each, Batch)
        else each
        for each in frames
    ]
    assert sent == [[3], Gap(relay=1, count=2), [10, 4]]
    assert (audience.queued, audience.queued_bytes) == (0, 0)
    assert audience.counters.dropped == 3
    peer.send_gap(notification(1, 2))
    assert peer.session.flush(0.0) == [Gap(relay=1, count=1)]


@clause("BUS-FLOW-3", "BUS-RELAY-11")
def test_of_notifications_sent_in_parts_only_the_first_reports_the_gap() -> None:
    machine = RelayMachine()
    audience, session = machine.peer.audience, machine.peer.session
    count = CONFIG.window + 2
    run = replace(notification(1, 1), bodies=[b"n"] * count, size=count, gap=3)
    audience.append([run])

    audience.pump()
    assert session.flush(0.0)[0] == Gap(relay=1, count=3)
    audience.on_extracted(session.outgoing.next - 1)
    audience.pump()
    assert [type(each) for each in session.flush(0.0)] == [Batch]
    assert not audience.queue


@clause("BUS-FLOW-5", "BUS-DEREG-5")
@pytest.mark.parametrize("all_", [True, False])
def test_each_of_many_requests_that_are_extracted_at_once_expires(
    *, all_: bool
) -> None:
    """Otherwise the relay, and its link, would wait for the answers for ever."""
    config = configured(window=300, STREAM_WINDOW=300)
    session = Session(
        5, own=1, incarnation=2, nonce=0, config=config, ack_alarm=new_alarm()
    )
    peer = Peer(
        ("m1", "s2"),
        session,
        0.0,
        config=config,
        message_alarm=new_alarm(),
    )
    link_up(session, window=300)
    peer.announced.update(SENDERS)
    relay = Relay(peer, ADDRESSEE, 0.0, config=config)
    peer.relays[relay.number] = relay
    for number in range(200):
        message = Incoming(
            Kind.COMMAND, b"x", _source="d", _deadline=1.0, wants_reply=True
        )
        run = outbound_run((b"x",), id=number, message=message, name=None)
        relay.append([run])
        relay.pump()
    peer.message_alarm.at = math.inf  # it has rung since
    if all_:
        relay.on_all_extracted()
    else:
        relay.on_extracted(200)
    assert len(relay.asked) == 200
    assert peer.message_alarm.at == 1.0
    assert peer.counters.commands_taken == 200

    relay.expire(1.0)

    assert not relay.busy


def test_only_answers_that_wait_are_counted_as_waiting_answers() -> None:
    """Windows limit the commands, so a backlog of answers does not include them."""
    relay = RelayMachine().relay
    relay.append([outbound_run((b"command",))])
    relay.append([outbound_run((b"answer",), kind=Kind.COMMAND_RESPONSE)] * 2)

    assert relay.waiting_answers() == (2, 12)


@clause("B3")
@pytest.mark.parametrize(
    ("lost", "operation", "reason"),
    [
        (False, BusOperation.DISCARD, BusReason.UNWANTED),
        (True, BusOperation.IN_DOUBT, BusReason.PROCESS_LOST),
    ],
)
def test_an_answer_that_was_under_way_to_a_released_relay_is_recorded(
    *, lost: bool, operation: BusOperation, reason: BusReason
) -> None:
    """As discarded, or as in doubt if the process of its addressee is lost."""
    machine, notes = RelayMachine(), Notes()
    kind = Kind.COMMAND_RESPONSE
    trace = Trace(notes, kind, 5, 1, mid=3, accepted_as=BusOperation.RESPOND)
    trace.record_accepted(7)
    machine.relay.append([outbound_run((b"a",), kind=kind, name=None, trace=trace)])
    machine.relay.pump()

    assert machine.relay.take_unacked(lost=lost) == []

    assert notes.reported[-1] == (operation, 3, 7, 0, reason)


@clause("BUS-ENT-17", "BUS-DEREG-5")
@pytest.mark.parametrize("extracted", [True, False])
def test_a_relay_awaits_no_answer_for_a_task_that_deregistered(
    *, extracted: bool
) -> None:
    """Otherwise the relay, and its link, would be kept for the answers for ever."""
    machine = RelayMachine()
    relay = machine.relay
    tasks: list[Any] = [*SENDERS.values()]
    for number, source in enumerate(tasks):
        message = Incoming(Kind.COMMAND, b"x", _source=source, wants_reply=True)
        run = outbound_run(
            (b"x",), id=number, source=source, message=message, name=None
        )
        relay.append([run])
    relay.pump()
    if extracted:
        relay.on_all_extracted()

    relay.on_departure(tasks[0])

    assert [
        relay.is_unanswered(source, number) for number, source in enumerate(tasks)
    ] == [False, True]
    relay.on_all_extracted()
    assert [source for source, _ in relay.asked] == tasks[1:]


@clause("BUS-RELAY-10")
def test_a_message_that_was_sent_at_once_is_sent_again_on_a_new_link() -> None:
    machine = RelayMachine()
    session = machine.peer.session
    machine.relay.send_at_once(outbound_run((b"x",)))
    assert machine.relay.in_transit == 1

    session.detach()
    link_up(session, 2, known=5)

    (batch,) = session.flush(0.0)
    assert isinstance(batch, Batch)
    assert (batch.floor, batch.first) == (1, 1)
    assert [(run.to, [*run.bodies]) for run in batch.runs] == [(3, [b"x"])]


@clause("BUS-MSG-15")
def test_only_notifications_whose_sender_has_earlier_messages_wait() -> None:
    """However many of them are ahead of the notifications of another sender."""
    machine = RelayMachine()
    peer, audience = machine.peer, machine.peer.audience
    peer.relays[machine.relay.number] = machine.relay
    machine.relay.append([outbound_run((b"earlier",), turn=1)])
    for turn, sender in enumerate((1, 1, 2, 2), 2):
        audience.append([notification(sender, turn)])

    audience.pump()

    assert [run.relay for run in audience.queue] == [1, 1]
    assert [run.relay for _, run in audience.unacked] == [2, 2]


@clause("BUS-FLOW-3", "BUS-MOVE-8")
def test_a_restarted_process_gets_no_gap_of_its_previous_incarnation() -> None:
    peer = RelayMachine().peer
    peer.count_dropped(notification(1, 1))

    peer.forget()
    peer.send_gap(notification(1, 2))

    assert peer.session.flush(0.0) == []


@clause("BUS-RELAY-9")
def test_extractions_are_settled_for_each_task_that_has_none_unread() -> None:
    """Tasks with nothing to settle, or nothing yet, do not keep others from it."""
    peer = RelayMachine().peer
    tasks: list[Any] = [SimpleNamespace(relay=relay) for relay in (1, 2, 3)]
    _, second, third = [peer.receipts(task) for task in tasks]
    second.expect(20)
    third.expect(30)

    assert not peer.settle_receipts(lambda relay: relay != 2, 0.0)

    assert peer.acks.extracted == {3: 30}
    assert peer.settle_receipts(lambda _: True, 0.0)
    assert peer.acks.extracted == {2: 20, 3: 30}


@clause("BUS-RELAY-11")
def test_a_window_is_filled_by_as_much_of_an_outbound_run_as_fits() -> None:
    """In messages and in bytes; only the last message may exceed the bytes."""
    machine = RelayMachine()
    machine.several_are_posted(1, [4] * 9)
    machine.what_may_goes()
    machine.the_window_holds()
    assert (machine.relay.under_way, machine.relay.queued) == (WINDOW, 3)

    machine = RelayMachine()
    machine.several_are_posted(1, [15] * 9)
    machine.what_may_goes()
    machine.the_window_holds()
    assert (machine.relay.under_way, machine.relay.queued) == (3, 6)


@clause("BUS-RELAY-9")
@pytest.mark.parametrize("last", range(5))
def test_extracted_messages_of_an_outbound_run_are_released(last: int) -> None:
    """The other messages keep their numbers."""
    machine, lengths = RelayMachine(), [4, 5, 6, 7]
    relay = machine.relay
    machine.several_are_posted(1, lengths)
    machine.what_may_goes()

    relay.on_extracted(last)

    assert (relay.counters.taken, relay.counters.commands_taken) == (last, last)
    left = lengths[last:]
    assert [
        (first, [len(each) for each in rest.bodies], rest.size)
        for first, rest in relay.unacked
    ] == ([(last + 1, left, sum(left))] if left else [])
    assert (relay.under_way, relay.unacked_bytes) == (len(left), sum(left))


@clause("BUS-FLOW-6")
def test_one_message_of_an_outbound_run_makes_room_for_another() -> None:
    """The oldest one; the others of its run keep their places."""
    machine = RelayMachine()
    machine.several_are_posted(1, [4, 5, 6])

    machine.the_oldest_is_dropped()

    machine.all_is_where_it_would_be_one_by_one()
    machine.what_is_counted_is_there()
    assert machine.relay.queued == 2


@clause("BUS-RELAY-11")
@pytest.mark.parametrize("notifying", [False, True])
def test_the_bytes_under_way_leave_less_room_for_the_next_outbound_run(
    *, notifying: bool
) -> None:
    """Only the last message that fits may exceed the bytes of the window.

    notifying: a notification waits for the same process.
    """
    machine = RelayMachine()
    machine.several_are_posted(1, [WINDOW_BYTES - 5])
    machine.what_may_goes()
    if notifying:
        machine.its_sender_notifies(1)

    machine.several_are_posted(2, [4] * (WINDOW - 1))
    machine.what_may_goes()

    machine.the_window_holds()
    assert (machine.relay.under_way, machine.relay.queued) == (3, WINDOW - 3)


@clause("BUS-FLOW-7")
@pytest.mark.parametrize("all_", [False, True])
def test_the_sums_of_a_peer_include_the_relays_that_it_has_lost(*, all_: bool) -> None:
    """Also the messages that end only after the removal of their relay."""
    machine = RelayMachine()
    peer, relay = machine.peer, machine.relay
    peer.relays[relay.number] = relay
    machine.several_are_posted(1, [4] * (WINDOW + 1))
    machine.what_may_goes()
    relay.on_extracted(1)

    if all_:
        peer.forget()
    else:
        peer.depart(relay.number)
    relay.take_unacked(lost=True)
    relay.take_unsent()

    assert not peer.relays
    sums = peer.counters
    assert (sums.posted, sums.taken, sums.commands_taken) == (WINDOW + 1, 1, 1)
    assert (sums.in_doubt, sums.returned) == (WINDOW - 1, 1)


@clause("BUS-FLOW-7")
def test_only_the_latest_departures_of_a_peer_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many of its tasks deregister, the memory is bounded."""
    monkeypatch.setattr(peer_module, "_DEPARTED_MAX", 3)
    peer = RelayMachine().peer

    for number in range(1, 6):
        peer.depart(number)

    assert [each for each in range(1, 6) if peer.has_departed(each)] == [3, 4, 5]


@clause("BUS-FLOW-3")
def test_the_gap_of_a_dropped_notification_is_added_to_that_before_it() -> None:
    """The next notification reports all that are missing."""
    peer = RelayMachine().peer
    dropped = replace(notification(1, 3), gap=2)

    peer.count_dropped(dropped)

    assert peer._gaps[dropped.relay] == len(dropped.bodies) + 2


@clause("AMO-20", "BUS-RELAY-9")
def test_a_restarted_process_has_no_receipts_of_its_previous_incarnation() -> None:
    peer = RelayMachine().peer
    task: Any = SimpleNamespace(relay=1)
    peer.receipts(task).expect(20)

    peer.forget()

    assert peer.settle_receipts(lambda _: False, 0.0)  # there is nothing to settle
