"""The properties of the stream model, under the same names, as assertions on the code.

The scene is that of ``specs/promela/stream.pml``: one sender, one receiver, and a link
that loses, duplicates and reorders. Either side may restart.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Final

import attrs

from bus.kernel.streams.incoming_stream import Acknowledgement
from bus.kernel.streams.incoming_streams import IncomingStreams, Refusal
from bus.kernel.streams.outgoing_stream import OutgoingStream

if TYPE_CHECKING:
    from bus.kernel.streams.incoming_stream import IncomingStream

__all__ = [
    "Scene",
    "each_number_is_one_of_three",
    "handed_over_in_order",
    "no_more_is_outstanding_than_the_window",
    "nothing_is_accepted_twice",
    "nothing_is_held_without_a_gap",
    "nothing_is_missing_below_the_floor",
]

WINDOW: Final = 3
SENDER: Final = "s"


@attrs.frozen
class Frame:
    """One message under way: its number and its header fields."""

    epoch: int
    incarnation: int
    number: int
    floor: int

    @property
    def message(self) -> tuple[int, int]:
        """The identity of the message: equal numbers in two epochs differ."""
        return self.epoch, self.number


class Scene:
    """One run: every step is drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.incarnation: int = 1
        self.sender: OutgoingStream[Frame] = OutgoingStream(1, window=WINDOW)
        self.receiver: IncomingStreams[Frame] = self._receiver()
        self.link: list[Frame] = []
        self.known_floor: int = 0
        # By incarnation of the receiver and epoch: the messages handed over.
        self.handed: dict[tuple[int, int], list[Frame]] = {}
        self._opened: bool = False

    def step(self) -> None:
        """Execute one random step."""
        act = self._random.choices(
            [self.send, self.arrive, self.skip, self.sender_anew, self.receiver_anew],
            [30, 60, 6, 1, 1],
        )
        act[0]()

    def send(self) -> None:
        """Send a new message, or resend an outstanding one."""
        self._open()
        if self.sender.room and self._random.random() < 0.6:
            number = self.sender.next
            frame = Frame(self.sender.epoch, self.incarnation, number, 0)
            self.sender.send(frame)
        frames = [frame for _, frame in self.sender.outstanding()]
        if frames:
            again = self._random.choice(frames)
            floor = self.sender.floor
            self.link.append(
                attrs.evolve(again, incarnation=self.incarnation, floor=floor)
            )

    def arrive(self) -> None:
        """Deliver a random frame, drop it, or leave a duplicate on the link."""
        if not self.link:
            return
        frame = self.link.pop(self._random.randrange(len(self.link)))
        if self._random.random() < 0.2:
            return
        if self._random.random() < 0.2:
            self.link.append(frame)
        taken = self.receiver.accept(
            *(SENDER, frame.epoch, frame.incarnation),
            *(frame.number, [frame], frame.floor),
        )
        if isinstance(taken, Refusal):
            return
        self.known_floor = max(self.known_floor, frame.floor)
        self.handed.setdefault((self.incarnation, frame.epoch), []).extend(taken)
        if self._random.random() < 0.7 and frame.epoch == self.sender.epoch:
            self.sender.acknowledge(self.receiver.acknowledgement(SENDER))

    def skip(self) -> None:
        """Abandon the oldest outstanding message, as the sender of a peer may."""
        if len(self.sender):
            self.sender.acknowledge(Acknowledgement(self.sender.floor + 1))

    def sender_anew(self) -> None:
        """Begin a new epoch."""
        self.sender = OutgoingStream(self.sender.epoch + 1, window=WINDOW)
        self._opened = False

    def receiver_anew(self) -> None:
        """Restart the receiver without state; outstanding messages are in doubt."""
        self.incarnation += 1
        self.receiver = self._receiver()
        self.sender.abandon()
        self._opened = False

    def _receiver(self) -> IncomingStreams[Frame]:
        return IncomingStreams(
            self.incarnation,
            window=WINDOW,
            ranges_max=WINDOW,
            life_s=math.inf,
            ended_max=1,
        )

    def _open(self) -> None:
        if not self._opened:
            self._opened = True
            self.known_floor = 0
            self.receiver.open(SENDER, self.sender.epoch, self.sender.floor)


def nothing_is_accepted_twice(scene: Scene) -> None:
    """No message is handed over twice, in one life of the receiver or in two."""
    messages = [frame.message for each in scene.handed.values() for frame in each]
    assert len(messages) == len(set(messages))


def handed_over_in_order(scene: Scene) -> None:
    """Numbers rise within each incarnation and epoch."""
    for handed in scene.handed.values():
        numbers = [frame.number for frame in handed]
        assert numbers == sorted(numbers)


def each_number_is_one_of_three(scene: Scene) -> None:
    """Each number is accepted, missing or abandoned."""
    stream = _stream(scene)
    if stream is not None:
        missing = stream._missing.count
        passed = stream.next - stream._first
        assert stream.accepted + missing + stream.given_up == passed
        assert stream.accepted >= stream.held >= 0


def no_more_is_outstanding_than_the_window(scene: Scene) -> None:
    """At most a window of numbers lies between the floor and the next number."""
    assert scene.sender.next - scene.sender.floor <= WINDOW


def nothing_is_missing_below_the_floor(scene: Scene) -> None:
    """Applies to the floors that the receiver has received."""
    stream = _stream(scene)
    if stream is not None and stream._missing.lowest is not None:
        assert stream._missing.lowest >= scene.known_floor


def nothing_is_held_without_a_gap(scene: Scene) -> None:
    """An accepted message is held back only while an earlier one is missing."""
    stream = _stream(scene)
    if stream is not None:
        assert not stream.held or stream._missing


def _stream(scene: Scene) -> IncomingStream[Frame] | None:
    known = scene.receiver._senders.get(SENDER)
    return None if known is None else known.stream
