"""The properties of the model of restarts, under the same names, on the code.

The scene is that of ``specs/promela/restarts.pml``: one sender and one receiver, either
of which may restart, with the sender's clock set back; links that break, whose frames
arrive later. The receiver performs one action after another, as the exchange does, and
a restart drops those not performed yet.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from bus.features.durable.horizons import Horizon, Horizons
from bus.kernel.streams.incoming_stream import Acknowledgement
from bus.kernel.streams.incoming_streams import IncomingStreams, Refusal
from bus.kernel.streams.outgoing_stream import OutgoingStream

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Scene",
    "a_synced_horizon_covers_each_delivery",
    "acknowledged_messages_were_delivered",
    "each_message_has_one_outcome",
    "every_message_has_an_outcome",
    "nothing_is_delivered_twice",
    "undelivered_messages_stay_undelivered",
]

WINDOW: Final = 8
SENDER: Final = "s"
ACKNOWLEDGED, IN_DOUBT, UNDELIVERED = "acknowledged", "in doubt", "undelivered"
_LIFE: Final = 1000  # between the epochs of two lives of the sender

Act: TypeAlias = "Callable[[], object]"


@attrs.frozen
class Open:
    """The first frame on a link."""

    epoch: int
    incarnation: int
    first: int


@attrs.frozen
class Frame:
    """One message under way; a message without an identity only fills a number."""

    epoch: int
    incarnation: int
    number: int
    floor: int
    message: int | None


class Scene:
    """One run: every step is drawn from a seed.

    Args:
        durable: the receiver stores horizons, and the sender continues its epoch after
            a restart of the receiver.

    Attributes:
        delivered: the messages that the receiver's task has received, in order.
        covered: for each of these, whether a stored horizon covered it.
        reported: the outcomes that the sender's task was informed of, in order.
        left: the messages of a life of the sender that has ended.
    """

    def __init__(self, seed: int, *, durable: bool) -> None:
        self._random: Final = random.Random(seed)
        self._durable: Final = durable
        self._ahead: Final = self._random.choice((0, 2))
        self.delivered: list[int] = []
        self.covered: list[bool] = []
        self.reported: list[tuple[int, str]] = []
        self.left: set[int] = set()
        self._messages: int = 0
        self._unsent: list[int] = []
        # The sender.
        self._epochs: int = 100 * _LIFE
        self._sender: OutgoingStream[int | None] | None = None
        self._peer: int = 0
        self._up: bool = False
        # The present link is the last one.
        self._links: deque[deque[Open | Frame]] = deque([deque()], maxlen=2)
        self._to_sender: deque[tuple[int, int, Acknowledgement]] = deque()
        # The receiver.
        self._incarnation: int = 0
        self._stored: dict[str, Horizon] = {}
        self._todo: deque[Act] = deque()
        self._start_receiver()

    def step(self) -> None:
        """Execute one random step."""
        steps: list[Act] = [
            *(self._create, self._send, self._arrive, self._act, self._hear),
            *(self._dial, self._expire, self._break),
            *(self._sender_anew, self._receiver_anew),
        ]
        weights = [10, 10, 40, 40, 30, 10, 1, 3, 1, 1]
        [act] = self._random.choices(steps, weights)
        act()

    def settle(self) -> None:
        """Execute steps without faults until each message has its outcome.

        Raises:
            AssertionError: a message has none after many steps.
        """
        for _ in range(2000):
            for act in (self._dial, self._send, self._arrive, self._act, self._hear):
                act()
        every_message_has_an_outcome(self)

    # The sender.

    def _create(self) -> None:
        if len(self._unsent) < WINDOW:
            self._messages += 1
            self._unsent.append(self._messages)

    def _send(self) -> None:
        if self._up and self._unsent and self._sender is not None and self._sender.room:
            message = self._unsent.pop(0)
            self._put(self._sender.send(message), message)

    def _put(self, number: int, message: int | None) -> None:
        assert self._sender is not None
        frame = Frame(
            self._sender.epoch, self._peer, number, self._sender.floor, message
        )
        self._links[-1].append(frame)

    def _dial(self) -> None:
        """Set up a link; the receiver answers once its actions are performed."""
        if self._up or self._todo:
            return
        self._links.append(deque())
        self._up = True
        known = self._receiver.newest_epoch(SENDER)
        if self._sender is None:
            self._begin(self._epochs)
        elif self._peer != self._incarnation and not self._durable:
            self._doubt()
            self._begin(self._epochs)
        assert self._sender is not None
        if known > self._sender.epoch:
            self._doubt()
            self._begin(known + 1)
            self._peer, self._up = self._incarnation, False
            return
        if known == self._sender.epoch:
            # A probe, since no call without effect tells which messages it has.
            has = self._receiver.open(SENDER, known).has
            same = self._peer == self._incarnation
            self._resume(has, ACKNOWLEDGED if same else IN_DOUBT)
        self._peer = self._incarnation
        opening = Open(self._sender.epoch, self._peer, self._sender.floor)
        self._links[-1].append(opening)
        for number, message in self._sender.outstanding():
            self._put(number, message)

    def _begin(self, epoch: int) -> None:
        self._epochs += 1
        self._sender = OutgoingStream(epoch, window=WINDOW)

    def _resume(self, has: Acknowledgement, outcome: str) -> None:
        sender = self._sender
        assert sender is not None
        below = Acknowledgement(min(has.next, sender.next), has.missing)
        self._tell(sender.acknowledge(below), outcome)
        if has.next > sender.next:
            # The horizon is ahead of all messages: their numbers are lost.
            sender.send(None, count=has.next - sender.next)
            sender.acknowledge(has)

    def _tell(self, messages: list[int | None], outcome: str) -> None:
        self.reported += [(each, outcome) for each in messages if each is not None]

    def _doubt(self) -> None:
        assert self._sender is not None
        self._tell(self._sender.abandon(), IN_DOUBT)

    def _hear(self) -> None:
        """Handle an acknowledgement."""
        if self._to_sender:
            epoch, incarnation, has = self._to_sender.popleft()
            sender = self._sender
            if sender is not None and (epoch, incarnation) == (
                sender.epoch,
                self._peer,
            ):
                self._tell(sender.acknowledge(has), ACKNOWLEDGED)

    def _expire(self) -> None:
        """Report a message that was never sent."""
        if self._unsent:
            self.reported.append((self._unsent.pop(), UNDELIVERED))

    def _sender_anew(self) -> None:
        if self._sender is None:
            return
        sent = {message for _, message in self._sender.outstanding()}
        self.left |= {each for each in sent if each is not None}
        back = self._random.random() < 0.5
        self._epochs += -_LIFE // 2 if back else _LIFE
        self._sender, self._peer = None, 0
        self._break()

    # The links.

    def _break(self) -> None:
        self._up = False
        self._to_sender.clear()

    def _arrive(self) -> None:
        link = self._random.choice(self._links)
        if not link:
            return
        frame = link.popleft()
        if isinstance(frame, Open):
            refused = frame.incarnation != self._incarnation
            if not refused:
                opened = self._receiver.open(SENDER, frame.epoch, frame.first)
                refused = opened.refusal is not None
        else:
            refused = self._receive(frame, link)
        if refused:
            link.clear()
            if link is self._links[-1]:
                self._break()

    # The receiver.

    def _start_receiver(self) -> None:
        self._incarnation += 1
        self._todo.clear()
        self._horizons = Horizons(self._stored, ahead=self._ahead)
        self._receiver: IncomingStreams[Frame] = IncomingStreams(
            self._incarnation,
            window=WINDOW,
            ranges_max=WINDOW,
            life_s=math.inf,
            ended_max=1,
            horizons=self._horizons if self._durable else None,
        )

    def _receiver_anew(self) -> None:
        self._start_receiver()
        self._break()

    def _receive(self, frame: Frame, link: deque[Open | Frame]) -> bool:
        """Accept a message; return True if it is refused."""
        taken = self._receiver.accept(
            *(SENDER, frame.epoch, frame.incarnation),
            *(frame.number, [frame], frame.floor),
        )
        if isinstance(taken, Refusal):
            return True
        if taken and self._durable:
            number = taken[-1].number
            raised = self._horizons.raise_over(SENDER, frame.epoch, number)
            if raised is not None:
                self._todo.append(lambda: self._stored.update({SENDER: raised.horizon}))
        for each in taken:
            self._todo.append(lambda each=each: self._deliver(each))  # type: ignore[misc]
        has = self._receiver.acknowledgement(SENDER)
        heading = (frame.epoch, self._incarnation)
        if link is self._links[-1] and self._up:
            self._todo.append(lambda: self._acknowledge(link, (*heading, has)))
        return False

    def _acknowledge(
        self, link: deque[Open | Frame], ack: tuple[int, int, Acknowledgement]
    ) -> None:
        if link is self._links[-1] and self._up:
            self._to_sender.append(ack)

    def _deliver(self, frame: Frame) -> None:
        assert frame.message is not None
        self.delivered.append(frame.message)
        stored = self._stored.get(SENDER)
        own = Horizon(frame.epoch, frame.number)
        self.covered.append(stored is not None and stored.covers(own))

    def _act(self) -> None:
        if self._todo:
            self._todo.popleft()()

    # For the properties.

    @property
    def durable(self) -> bool:
        """True if the receiver stores horizons."""
        return self._durable

    @property
    def messages(self) -> range:
        """All messages so far."""
        return range(1, self._messages + 1)


def nothing_is_delivered_twice(scene: Scene) -> None:
    """No message is delivered twice, in one life of the receiver or in several."""
    assert len(scene.delivered) == len(set(scene.delivered))


def undelivered_messages_stay_undelivered(scene: Scene) -> None:
    """A message that was reported as undelivered is not delivered, then or later."""
    assert not set(scene.delivered) & _with_outcome(scene, UNDELIVERED)


def acknowledged_messages_were_delivered(scene: Scene) -> None:
    """The sender takes no message for delivered that was not."""
    assert _with_outcome(scene, ACKNOWLEDGED) <= set(scene.delivered)


def each_message_has_one_outcome(scene: Scene) -> None:
    """No message is reported twice."""
    assert all(
        count == 1 for count in Counter(each for each, _ in scene.reported).values()
    )


def a_synced_horizon_covers_each_delivery(scene: Scene) -> None:
    """Before a durable process delivers a message, it has stored a horizon."""
    assert all(scene.covered) or not scene.durable


def every_message_has_an_outcome(scene: Scene) -> None:
    """Holds when nothing is under way: no message is forgotten."""
    reported = {each for each, _ in scene.reported}
    assert set(scene.messages) == reported | scene.left


def _with_outcome(scene: Scene, outcome: str) -> set[int]:
    return {each for each, reported in scene.reported if reported == outcome}
