"""The handling of the runs of a batch, for any content that a peer may send.

A batch that follows the previous one is recorded in one step; otherwise each message is
checked by itself. To tasks it makes no difference.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from bus.kernel.tasks.actions import Post, Send
from bus.kernel.tasks.runs import InboundRun
from bus.kernel.wire import (
    FAILED,
    NO_DEADLINE,
    RAW,
    WANTS_REPLY,
    Ack,
    Batch,
    Gap,
    Run,
    Unrelay,
)
from bus.model.message import Incoming, Kind
from bus.model.payload import decode, encode
from bus.model.rights import Credentials, Rights
from specs.clauses import clause
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from bus.kernel.peer.peer import Peer
    from bus.kernel.tasks.actions import Action
    from tests.simulate.process import SimTask

GONE = 99  # a relay number of no task


class Scene:
    """A process ``s3`` that hosts "f" and "g", and a peer ``s2`` that hosts "d".

    The test sends frames on behalf of ``s2``.
    """

    def __init__(self) -> None:
        self.stage = Stage()
        self.d = self.stage.task("d", "s2")
        self.f, self.g = (self.stage.task(name, "s3") for name in "fg")
        self.stage.soon()
        for name in "fg":
            self.stage.send(self.d, name)
        self.stage.soon()
        self.here = self.stage.process("s3")
        there = self.stage.process("s2")
        self.peer: Peer = self.here.remote.topology.peers[there.key]
        (self.source,) = (
            number
            for number, relay in self.peer.relays.items()
            if relay.entry.name == "d"
        )
        self.next = there.remote.topology.peers[self.here.key].session.outgoing.next
        self.floor = self.next  # no message is abandoned

    @property
    def strays(self) -> int:
        return self.here.remote.inbound_messages.strays

    def run(
        self,
        to: int,
        *bodies: bytes,
        kind: Kind = Kind.COMMAND,
        flags: int = RAW,
        source: int | None = None,
        left: int = NO_DEADLINE,
    ) -> Run:
        by = self.source if source is None else source
        return Run(to, by, kind, flags, 0, left, 0, bodies)

    def number(self, task: SimTask) -> int:
        """Return the number by which the peer addresses a task of this process."""
        return task.entry.relay

    def come(self, *runs: Run, first: int | None = None) -> list[Action]:
        """Receive a batch that follows the previous one, or starts at ``first``."""
        first = self.next if first is None else first
        epoch = self.peer.session.their_epoch
        assert epoch is not None
        batch = Batch(epoch, self.here.life, self.floor, first, runs)
        self.next = max(self.next, first + batch.count)
        link = self.peer.session.link
        assert link is not None
        return self.here.remote.receive(link, batch, self.stage.world.now)


def posts(actions: list[Action]) -> list[tuple[str, list[Any]]]:
    """Return the posts by task name; a list stands for a run."""
    return [
        (
            each.entry.name,
            [
                list(item.payloads) if isinstance(item, InboundRun) else item.payload
                for item in each.messages
            ],
        )
        for each in actions
        if isinstance(each, Post)
    ]


def acks(actions: list[Action]) -> list[Ack]:
    """Return the acknowledgements that are sent."""
    return [
        each.frame
        for each in actions
        if isinstance(each, Send) and isinstance(each.frame, Ack)
    ]


def items(actions: list[Action]) -> list[Incoming | InboundRun]:
    """Return all posted messages and runs, in order."""
    return [
        item for each in actions if isinstance(each, Post) for item in each.messages
    ]


@clause("BUS-RELAY-2", "BUS-CHAN-6", "BUS-MSG-15")
def test_messages_that_arrive_together_for_a_task_are_posted_together() -> None:
    """Runs of bytes stay whole, other messages are single; in order per task."""
    scene = Scene()
    f, g = scene.number(scene.f), scene.number(scene.g)
    first = scene.next

    actions = scene.come(
        scene.run(f, b"1", b"2"),
        scene.run(f, b"3"),
        scene.run(f, encode(4), encode("5"), flags=0),
        scene.run(g, b"6", b"7", b"8", left=1500),
        scene.run(f, b"9", b"10"),
    )

    assert posts(actions) == [
        ("f", [[b"1", b"2"], b"3", 4, "5"]),
        ("g", [[b"6", b"7", b"8"]]),
        ("f", [[b"9", b"10"]]),
    ]
    numbers = [
        item.number if isinstance(item, InboundRun) else item._number
        for item in items(actions)
    ]
    assert numbers == [first + at for at in (0, 2, 3, 4, 5, 8)]
    late = [item for item in items(actions) if isinstance(item, InboundRun)][1]
    assert late.deadline == scene.stage.world.now + 1.5
    for item in items(actions):
        receipt = item.receipt if isinstance(item, InboundRun) else item._receipt
        assert receipt is not None
        assert receipt.peer is scene.peer
        assert receipt.relay in {f, g}


@clause("BUS-MSG-7", "BUS-RELAY-9")
def test_commands_that_want_an_answer_are_each_by_itself() -> None:
    """Even if the peer sends them as one run."""
    scene = Scene()
    f = scene.number(scene.f)

    messages = items(
        scene.come(scene.run(f, b"1", b"2", b"3", flags=RAW | WANTS_REPLY))
    )

    assert [type(each) for each in messages] == [Incoming] * 3
    assert [
        (each.payload, each.wants_reply)
        for each in messages
        if isinstance(each, Incoming)
    ] == [(b"1", True), (b"2", True), (b"3", True)]


@clause("BUS-RELAY-7", "BUS-MSG-1")
def test_each_notification_of_a_run_is_delivered() -> None:
    scene = Scene()
    scene.here.subscribe(scene.f, "d")
    scene.stage.soon()

    actions = scene.come(
        scene.run(0, b"1", b"2", b"3", kind=Kind.NOTIFICATION),
        scene.run(scene.number(scene.f), b"4", b"5"),
    )

    assert posts(actions) == [("f", [[b"1", b"2", b"3"], [b"4", b"5"]])]


@clause("BUS-FLOW-3")
def test_the_first_notification_of_a_run_alone_reports_the_gap() -> None:
    scene = Scene()
    scene.here.subscribe(scene.f, "d")
    scene.stage.soon()
    link = scene.peer.session.link
    assert link is not None
    now = scene.stage.world.now
    scene.here.remote.receive(link, Gap(relay=scene.source, count=7), now)

    actions = scene.come(scene.run(0, b"1", b"2", b"3", kind=Kind.NOTIFICATION))

    assert posts(actions) == [("f", [b"1"]), ("f", [[b"2", b"3"]])]
    first = items(actions)[0]
    assert isinstance(first, Incoming)
    assert first.gap == 7


@clause("BUS-RELAY-9", "BUS-RELAY-11")
@pytest.mark.parametrize(
    ("count", "size"), [(1, CONFIG.window_bytes // 2), (CONFIG.window // 2, 1)]
)
def test_half_a_window_of_notifications_is_acknowledged_at_once(
    count: int, size: int
) -> None:
    """Otherwise the notifier waits for room until the acknowledgement is due."""
    scene = Scene()
    scene.here.subscribe(scene.f, "d")
    scene.stage.soon()
    now = scene.stage.world.now

    def come(count: int, size: int) -> bool:
        """Receive notifications; return True if they are acknowledged at once."""
        scene.come(scene.run(0, *[bytes(size)] * count, kind=Kind.NOTIFICATION))
        sent = [each for each in scene.here.remote.flush(now) if isinstance(each, Send)]
        return any(isinstance(each.frame, Ack) for each in sent)

    come(CONFIG.window, 1)  # acknowledges all before
    assert come(count, size)
    assert not come(1, size - 1)


@clause("BUS-RELAY-9")
@pytest.mark.parametrize("gap", [False, True])
def test_only_the_messages_read_of_a_run_are_acknowledged_as_extracted(
    *, gap: bool
) -> None:
    """For a run that follows the previous batch, and for one after a gap."""
    scene = Scene()
    f = scene.number(scene.f)
    first = scene.next
    run = scene.run(f, b"1", b"2", b"3")
    if gap:
        assert items(scene.come(run, first=first + 1)) == []
        messages = items(scene.come(scene.run(f, b"0"), first=first))
        assert [type(each) for each in messages] == [Incoming] * 4
    else:
        messages = items(scene.come(run))
        assert [type(each) for each in messages] == [InboundRun]
    receipt = (
        messages[0].receipt
        if isinstance(messages[0], InboundRun)
        else messages[0]._receipt
    )
    assert receipt is not None

    now = scene.stage.world.now
    scene.here.remote.inbound_messages.on_extracted([(receipt, first, 2, 2)], now)

    sent = acks(scene.here.remote.flush(now + 1))
    assert [ack.extracted for ack in sent] == [((f, first + 1),)]


@clause("BUS-RELAY-10", "AMO-3", "AMO-8", "AMO-24")
def test_messages_repeated_in_a_run_are_delivered_once() -> None:
    """Its new messages are delivered, and it is acknowledged again."""
    scene = Scene()
    f = scene.number(scene.f)
    first = scene.next
    assert posts(scene.come(scene.run(f, b"1", b"2"))) == [("f", [[b"1", b"2"]])]

    again = scene.come(scene.run(f, b"1", b"2", b"3", b"4"), first=first)

    assert posts(again) == [("f", [b"3", b"4"])]
    sent = acks(scene.here.remote.flush(scene.stage.world.now))
    assert [ack.last for ack in sent] == [first + 3]
    assert posts(scene.come(scene.run(f, b"5", b"6"))) == [("f", [[b"5", b"6"]])]


@clause("BUS-DEREG-4", "BUS-FLOW-7")
@pytest.mark.parametrize(
    "kind", [Kind.COMMAND, Kind.COMMAND_RESPONSE, Kind.NOTIFICATION]
)
@pytest.mark.parametrize("follows", [True, False])
def test_each_message_of_a_run_with_an_unknown_relay_is_a_stray(
    kind: Kind, *, follows: bool
) -> None:
    """Messages for other tasks in the same batch are delivered."""
    scene = Scene()
    f = scene.number(scene.f)
    bodies = (b"1", b"2", b"3")
    stray = (
        scene.run(0, *bodies, kind=kind, source=GONE)
        if kind is Kind.NOTIFICATION
        else scene.run(GONE, *bodies, kind=kind)
    )

    if follows:
        actions = scene.come(stray, scene.run(f, b"4", b"5"))
    else:
        assert not posts(scene.come(stray, first=scene.next + 1))
        actions = scene.come(scene.run(f, b"4"), first=scene.next - 4)

    assert scene.strays == 3
    assert posts(actions) == [("f", [[b"4", b"5"]] if follows else [b"4"])]
    reported = [
        each
        for _, each in scene.peer.session._controls
        if isinstance(each, Unrelay) and each.relay == GONE
    ]
    assert len(reported) == (kind is not Kind.NOTIFICATION)


@clause("BUS-MSG-13")
@pytest.mark.parametrize(
    ("payload", "error", "text"),
    [
        (None, "bad \ud800", r"bad \\ud800"),
        ("bad \ud800", None, r"UnicodeEncodeError: .* surrogates not allowed"),
        (object(), None, r"\w+Error: "),
    ],
    ids=["an error", "a text", "an object"],
)
def test_an_answer_that_cannot_be_packed_is_sent_as_an_error(
    payload: Any, error: str | None, text: str
) -> None:
    """Though the checks in front of it let no such answer pass."""
    scene = Scene()
    f = scene.number(scene.f)
    (question,) = items(scene.come(scene.run(f, b"1", flags=RAW | WANTS_REPLY)))
    assert isinstance(question, Incoming)

    assert scene.here.remote.outbound_messages.answer(question, payload, error=error)

    sent = [
        run
        for action in scene.here.remote.flush(scene.stage.world.now)
        if isinstance(action, Send) and isinstance(action.frame, Batch)
        for run in action.frame.runs
    ]
    assert [run.flags for run in sent] == [FAILED]
    assert re.match(text, str(decode(sent[0].bodies[0])))


@clause("BUS-MSG-16")
@pytest.mark.parametrize(("less", "flags"), [(0, RAW), (1, FAILED)])
def test_an_answer_as_long_as_its_peer_accepts_is_sent(less: int, flags: int) -> None:
    """A longer one is sent as an error."""
    scene = Scene()
    body = bytes(1000)
    f = scene.number(scene.f)
    (question,) = items(scene.come(scene.run(f, b"1", flags=RAW | WANTS_REPLY)))
    assert isinstance(question, Incoming)
    scene.peer.message_bytes_max = len(body) - less

    assert scene.here.remote.outbound_messages.answer(question, body)

    sent = [
        run
        for action in scene.here.remote.flush(scene.stage.world.now)
        if isinstance(action, Send) and isinstance(action.frame, Batch)
        for run in action.frame.runs
    ]
    assert [run.flags for run in sent] == [flags]


@clause("BUS-SEC-1", "BUS-MSG-13")
@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("mid", [0, 5])
def test_a_denied_command_that_asks_is_answered_whether_or_not_its_sender_records_it(
    mid: int, *, asks: bool
) -> None:
    """This process records nothing."""
    scene = Scene()
    scene.peer.credentials = Credentials(rights=Rights(command=()))
    flags = RAW | WANTS_REPLY if asks else RAW
    question = scene.run(scene.number(scene.f), b"1", flags=flags)

    actions = scene.come(replace(question, mid=mid, hop=1))

    assert items(actions) == []
    sent = [
        run
        for action in scene.here.remote.flush(scene.stage.world.now)
        if isinstance(action, Send) and isinstance(action.frame, Batch)
        for run in action.frame.runs
    ]
    assert [run.flags for run in sent] == [FAILED] * asks
    assert all("access is denied" in str(decode(run.bodies[0])) for run in sent)


@clause("BUS-RELAY-9")
def test_an_acknowledgement_of_an_earlier_epoch_is_ignored() -> None:
    """It counts messages that the present epoch has not sent."""
    scene = Scene()
    scene.stage.hold(scene.d)
    scene.stage.send(scene.f, "d")
    scene.stage.soon()
    session = scene.peer.session
    assert session.link is not None
    ack = Ack(
        epoch=session.epoch - 1,
        incarnation=scene.here.life,
        last=100,
        extracted=((scene.source, 100),),
    )

    actions = scene.here.remote.receive(session.link, ack, scene.stage.world.now)

    assert actions == []
    assert len(scene.stage.relays("s3")["d"].unacked) == 1
