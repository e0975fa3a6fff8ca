"""`Session`: the traffic to and from one other process, over all links to it.

A link may be lost while both processes live; the session continues over the next link.
Messages are numbered (`OutgoingStream`). Control frames are counted, and kept until the
peer has acknowledged them. The first frame on a new link states how many messages and
control frames have arrived; the peer resends the others in their original order. So
nothing is lost and nothing arrives twice while both sides keep the session.

The session uses only one link at a time. It takes no decision on the content of frames.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from bus.errors import WireError
from bus.kernel import constants
from bus.kernel.peer.delayed_acks import DelayedAcks
from bus.kernel.streams.incoming_stream import NUMBERS, Acknowledgement
from bus.kernel.streams.outgoing_stream import OutgoingStream
from bus.kernel.wire import (
    BATCH_BYTES_MAX,
    FOLLOWS_MIN,
    MESSAGES_MAX,
    NO_DEADLINE,
    Batch,
    OpenStream,
    Run,
    Unrelay,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bus.kernel.tasks.runs import OutboundRun
    from bus.kernel.timers import Alarm
    from bus.kernel.wire import Ack, ControlFrame, Frame
    from bus.model.config import BusConfig

__all__ = ["Session", "milliseconds_left"]

# The number of a run's first message, the relay number it is for, and the run.
_Numbered: TypeAlias = "tuple[int, int, OutboundRun]"


class Session:
    """One epoch of this process towards one incarnation of another process.

    epoch: of the numbers assigned here. their_epoch: of the numbers that the peer
      assigns; None until the peer has named it.
    own, incarnation: the incarnations of this process and of the peer.
    link: the link in use; None while there is none.
    ready: True once both sides have stated on the link how much has arrived.
    acks: the acknowledgements of the traffic from the peer.

    Invariant: ``_controls`` holds the last ``len(_controls)`` of the ``_controls_sent``
    frames.
    """

    __slots__ = (
        "_controls",
        "_controls_sent",
        "_held",
        "_nonce",
        "_outbox",
        "_unrelays",
        "acks",
        "epoch",
        "incarnation",
        "link",
        "outgoing",
        "own",
        "ready",
        "their_epoch",
    )

    def __init__(
        self,
        epoch: int,
        *,
        own: int,
        incarnation: int,
        nonce: int,
        config: BusConfig,
        ack_alarm: Alarm,
    ) -> None:
        self.epoch: int = epoch
        self.incarnation: Final = incarnation
        self.own: Final = own
        self._nonce: Final = nonce
        self.outgoing: OutgoingStream[_Numbered] = OutgoingStream(
            epoch, window=constants.STREAM_WINDOW
        )
        self.their_epoch: int | None = None
        self.link: int | None = None
        self.ready: bool = False
        # Unacknowledged control frames, each with the number that the next message had
        # when the frame was sent.
        self._controls: deque[tuple[int, ControlFrame]] = deque()
        self._controls_sent: int = 0
        # How many UNRELAY frames among these name each relay number.
        self._unrelays: Final[Counter[int]] = Counter()
        self._held: int | None = None  # `_controls_sent` at the time of `hold`
        self._outbox: list[ControlFrame | _Numbered] = []
        self.acks: Final = DelayedAcks(config, ack_alarm)

    # Links.

    def attach(self, link: int, remembered: int = 0) -> OpenStream:
        """Use a link from now on; return the first frame to send on it.

        remembered: the newest epoch that the peer had before this session; 0 for none.
        """
        self.link, self.ready, self._held = link, False, None
        self._outbox.clear()
        return OpenStream(
            epoch=self.epoch,
            nonce=self._nonce,
            incarnation=self.incarnation,
            first=self.outgoing.floor,
            window=constants.STREAM_WINDOW,
            known=self.their_epoch or remembered,
            last=self.acks.received.next - 1,
            controls=self.acks.controls_received,
        )

    def detach(self) -> None:
        """Stop using the link."""
        self.link, self.ready, self._held = None, False, None
        self._outbox.clear()

    def open(self, frame: OpenStream, has: Acknowledgement) -> None:
        """Resume where the peer stopped; has: how much of its stream arrived here."""
        self.their_epoch = frame.epoch
        self.acks.received = has
        if frame.known == self.epoch:
            self.outgoing.acknowledge(Acknowledgement(frame.last + 1))
            self._forget_controls(frame.controls)
        self.ready = True
        self.acks.on_link_open()
        # Resend everything in its original order: the frame that introduces a task
        # precedes its messages, and the frame that removes it follows them.
        controls = deque(self._controls)
        for sent, messages in groupby(self.outgoing.outstanding(), itemgetter(1)):
            for part in _parts(sent, [number for number, _ in messages]):
                while controls and controls[0][0] <= part[0]:
                    self._outbox.append(controls.popleft()[1])
                self._outbox.append(part)
        self._outbox += [frame for _, frame in controls]

    def renew(self, epoch: int) -> None:
        """Take another epoch: the peer knows a greater one of this process (AMO-17).

        Raises:
            WireError: the peer has opened this session, and so knows its epoch, or no
                greater epoch is left.
        """
        if self.their_epoch is not None or epoch >= NUMBERS:
            raise WireError(
                f"OPEN_STREAM knows epoch {epoch - 1}, sent is {self.epoch}"
            )
        self.epoch = epoch
        self.outgoing = OutgoingStream(epoch, window=constants.STREAM_WINDOW)

    def reset(self) -> None:
        """Start over, as the peer has: everything sent to it before is void."""
        self.outgoing.abandon()
        self._controls.clear()
        self._unrelays.clear()
        self._controls_sent = 0
        self.their_epoch = None
        self.acks.reset()
        self._outbox.clear()

    # Sending.

    @property
    def room(self) -> int:
        """The number of messages that may be sent now."""
        return self.outgoing.room if self.ready and self._held is None else 0

    def send_link_frame(self, frame: ControlFrame) -> None:
        """Send a frame about this link; it is not repeated on another link."""
        if self.ready:
            self._outbox.append(frame)

    @property
    def backlog(self) -> int:
        """The number of control frames not known to have arrived, sent or unsent."""
        return len(self._controls)

    def is_unrelay_pending(self, relay: int) -> bool:
        """Return True while a relay's deregistration is not known to have arrived."""
        return relay in self._unrelays

    def pause(self) -> None:
        """Send nothing more on this link for now, since it may be closed."""
        self._held = self._controls_sent

    def resume(self) -> None:
        """Send the control frames held back since `pause`."""
        held, self._held = self._held, None
        if held is not None and self.ready and self._controls_sent > held:
            since = list(self._controls)[held - self._controls_sent :]
            self._outbox += [frame for _, frame in since]

    def send_control(self, frame: ControlFrame) -> None:
        """Send a control frame now, or as soon as there is a link."""
        record = (self.outgoing.next, frame)
        unrelay = frame if isinstance(frame, Unrelay) else None
        unrelays = 0 if unrelay is None else self._unrelays[unrelay.relay]
        # No call between these lines: an interrupt finds the frame everywhere, or
        # nowhere. The peer counts the frames, so none may be missing on this link.
        self._controls += (record,)
        self._controls_sent += 1
        if unrelay is not None:
            self._unrelays[unrelay.relay] = unrelays + 1
        if self.ready and self._held is None:
            self._outbox += (frame,)

    def send(self, to: int, outbound_runs: Sequence[OutboundRun]) -> list[int]:
        """Send message runs to a relay number; there must be room for all of them.

        Returns the number of the first message of each run.
        """
        outgoing, outbox = self.outgoing, self._outbox
        numbers = []
        for outbound_run in outbound_runs:
            numbered = (outgoing.next, to, outbound_run)
            numbers.append(outgoing.send(numbered, count=len(outbound_run.bodies)))
            outbox.append(numbered)
        return numbers

    def flush(self, now: float) -> list[Frame]:
        """Remove and return the frames to put on the link now, in order."""
        outbox, acks, their_epoch = self._outbox, self.acks, self.their_epoch
        if not self.ready or not (
            outbox or (their_epoch is not None and acks.is_due(now))
        ):
            return []
        frames: list[Frame] = []
        runs: list[Run] = []
        first = stop = size = 0
        for each in outbox:
            if not isinstance(each, tuple):
                self._close_batch(frames, first, runs)
                runs, size = [], 0
                frames.append(each)
                continue
            number, to, whole = each
            for outbound_run in _cut(whole):
                count = len(outbound_run.bodies)
                long = (
                    count == 1 and outbound_run.size >= FOLLOWS_MIN
                )  # in its own frame
                if runs and (
                    long
                    or number != stop
                    or stop - first + count > MESSAGES_MAX
                    or size + outbound_run.size > BATCH_BYTES_MAX
                ):
                    self._close_batch(frames, first, runs)
                    runs, size = [], 0
                if not runs:
                    first = number
                runs.append(_run(to, outbound_run, now))
                # A long message fills its batch, since its body is the next frame.
                size += outbound_run.size + BATCH_BYTES_MAX * long
                number = stop = number + count
        self._close_batch(frames, first, runs)
        outbox.clear()
        if their_epoch is not None and acks.is_due(now):
            frames += acks.take(their_epoch, self.own)
        return frames

    @property
    def has_unsent(self) -> bool:
        """True if unsent frames must go on the link before any new one."""
        return bool(self._outbox)

    def _close_batch(self, frames: list[Frame], first: int, runs: list[Run]) -> None:
        if not runs:
            return
        acknowledged, extracted = self.acks.acknowledge_by(runs[0].source)
        frames.append(
            Batch(
                self.epoch,
                self.incarnation,
                self.outgoing.floor,
                first,
                runs,
                acknowledged,
                extracted,
            )
        )

    # Receiving.

    def on_ack(self, ack: Ack) -> None:
        """Forget the messages and frames that the peer has received.

        Raises:
            WireError: the peer acknowledges something that was never sent.
        """
        self.outgoing.acknowledge(ack.acknowledgement)
        self._forget_controls(ack.controls)

    @property
    def ack_at(self) -> float | None:
        """When an acknowledgement is due; None for never."""
        return self.acks.due_at if self.ready else None

    def _forget_controls(self, received: int) -> None:
        if received > self._controls_sent:
            raise WireError(
                f"ACK counts {received} control frames of {self._controls_sent} sent"
            )
        while len(self._controls) > self._controls_sent - received:
            _, frame = self._controls.popleft()
            if isinstance(frame, Unrelay):
                self._unrelays[frame.relay] -= 1
                if not self._unrelays[frame.relay]:
                    del self._unrelays[frame.relay]


def milliseconds_left(deadline: float | None, now: float) -> int:
    """Return the remaining lifetime of a message, in the unit of frames (OPEN-7)."""
    if deadline is None:
        return NO_DEADLINE
    left_ms = (deadline - now) * 1000
    # A frame cannot state more than seven weeks. The message then never expires at the
    # receiver; the process that set the deadline enforces it.
    if left_ms >= NO_DEADLINE:
        return NO_DEADLINE
    return int(left_ms) if left_ms > 0 else 0


def _run(to: int, outbound_run: OutboundRun, now: float) -> Run:
    return Run(
        to,
        outbound_run.relay,
        outbound_run.kind,
        outbound_run.flags,
        outbound_run.id,
        milliseconds_left(outbound_run.deadline, now),
        0,
        outbound_run.bodies,
        0 if outbound_run.trace is None else outbound_run.trace.mid,
    )


def _cut(outbound_run: OutboundRun) -> Iterator[OutboundRun]:
    """Split a run too large for one frame into pieces of at least one message."""
    count = len(outbound_run.bodies)
    if count == 1 or (outbound_run.size <= BATCH_BYTES_MAX and count <= MESSAGES_MAX):
        yield outbound_run
        return
    start = size = 0
    for at, body in enumerate(outbound_run.bodies):
        full = size + len(body) > BATCH_BYTES_MAX or at - start == MESSAGES_MAX
        if full and at > start:
            yield outbound_run.part(start, at)
            start, size = at, 0
        size += len(body)
    yield outbound_run.part(start)


def _parts(sent: _Numbered, numbers: Sequence[int]) -> Iterator[_Numbered]:
    """Return the pieces of a run whose messages still have these numbers."""
    first, to, outbound_run = sent
    start = numbers[0]
    for number, after in zip(numbers, [*numbers[1:], 0], strict=True):
        if after != number + 1:
            yield start, to, outbound_run.part(start - first, number + 1 - first)
            start = after
