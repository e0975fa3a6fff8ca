"""`DelayedAcks`: the acknowledgements that this process owes to one other process.

An acknowledgement is delayed, so that the next message frame to the peer can carry it.
If there is no such frame in time, or half a window is unacknowledged, an ACK frame
carries it. Three things are acknowledged: the messages that arrived, the control frames
that arrived, and the messages that each task has extracted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.kernel import constants
from bus.kernel.streams.incoming_stream import Acknowledgement
from bus.kernel.wire import Ack
from bus.kernel.wire.frames import EXTRACTED_MAX

if TYPE_CHECKING:
    from bus.kernel.timers import Alarm
    from bus.kernel.wire import Frame
    from bus.model.config import BusConfig

__all__ = ["DelayedAcks"]

_CONTROLS_MAX: Final = 64  # control frames received and not acknowledged
# How many times longer the last message of an exchange, or of a stream of
# notifications, may stay unacknowledged.
_EXCHANGE: Final = 50


class DelayedAcks:
    """The acknowledgements of the traffic from one peer, and when they are due.

    The exchange's lock guards it, as it guards the session.

    received: how much of the peer's stream has arrived. Set it by `on_received`. Not if
      the last message is extracted at once: that counts at least as much, against the
      same half of a window.
    controls_received: the number of control frames received.
    extracted: the last number extracted by each task of this process, by relay number.
    due_at: when an acknowledgement is due, in seconds; None for never.
    is_urgent: True if one is due now, mostly since half a window is unacknowledged: the
      sender may soon lack room.
    in_exchange: True if messages acknowledge one another. The comm thread then checks
      at long intervals, not after each message, whether an acknowledgement is due.

    Invariants:
    I1. ``_taken`` has the keys of the entries of ``extracted`` that no frame on the
        link has acknowledged.
    I2. while the session can send, the alarm is set for ``due_at`` or earlier. In an
        exchange it is set for the next check instead.
    """

    __slots__ = (
        "_acked",
        "_acked_controls",
        "_acked_extracted",
        "_alarm",
        "_delay_s",
        "_exchanges",
        "_taken",
        "_urgent_bytes",
        "_urgent_count",
        "controls_received",
        "due_at",
        "extracted",
        "in_exchange",
        "is_urgent",
        "received",
    )

    def __init__(self, config: BusConfig, alarm: Alarm) -> None:
        self._delay_s: Final = config.ack_delay_s
        self._urgent_count: Final = min(config.window, constants.STREAM_WINDOW) // 2
        self._urgent_bytes: Final = config.window_bytes // 2
        self._alarm: Final = alarm
        self.controls_received: int = 0
        self._acked_controls: int = 0
        self.received = Acknowledgement(1)
        self._acked: int = 1
        self.extracted: dict[int, int] = {}
        self._taken: dict[int, int] = {}  # extracted bytes not acknowledged yet
        self._acked_extracted: dict[int, int] = {}
        self.due_at: float | None = None
        self.is_urgent: bool = False
        # True if message frames have acknowledged everything since the last
        # `next_check`.
        self._exchanges: bool = False
        self.in_exchange: bool = False

    def on_link_open(self) -> None:
        """Acknowledge all extractions again: the last ACK may have been lost."""
        self._alarm.by(self.due_at)
        self._taken = dict.fromkeys(self.extracted, 0)
        self.is_urgent = bool(self._taken)

    def reset(self) -> None:
        """Start over, as the peer has."""
        self.controls_received = self._acked_controls = 0
        self.received = Acknowledgement(1)
        self._acked = 1
        self.extracted.clear()
        self._taken.clear()
        self._acked_extracted.clear()
        self.due_at, self.is_urgent = None, False

    # The traffic from the peer.

    def on_received(self, has: Acknowledgement) -> None:
        """Record how much of the peer's stream has arrived."""
        self.received = has
        if has.next - self._acked >= constants.STREAM_WINDOW // 2:
            self.is_urgent = True

    def count_control(self) -> None:
        """Count a control frame that arrived; it may end an exchange."""
        self.controls_received += 1
        if self._exchanges or self.in_exchange:
            # A process that closes waits for the acknowledgement.
            self._alarm.by(self.due_at)
            self._exchanges = self.in_exchange = False
        if self.controls_received - self._acked_controls >= _CONTROLS_MAX:
            self.is_urgent = True

    def on_extracted(self, relay: int, number: int, now: float, size: int = 0) -> None:
        """Record that a task has extracted all its messages up to a number.

        size: of the messages just extracted, in bytes.

        Half a window of messages or bytes is acknowledged at once: otherwise the sender
        would wait for room in its window.
        """
        self.extracted[relay] = number
        taken = self._taken
        if relay in taken:
            size += taken[relay]
        taken[relay] = size
        if self.due_at is None:
            due_at = now + self._delay_s
            # No call here, since this is done for each message. The next tick finds out
            # when to check: at the due time, or later in an exchange.
            if not self.in_exchange and due_at < self._alarm.at:
                self._alarm.at = 0.0
            self.due_at = due_at
        count = number - self._acked_extracted.get(relay, 0)
        if count >= self._urgent_count or size >= self._urgent_bytes:
            self.is_urgent = True

    def check_rarely(self) -> None:
        """Check as rarely as in an exchange: no caller waits for a notification."""
        self._exchanges = True

    def forget(self, relay: int) -> None:
        """Forget the extractions of a deregistered task: UNRELAY reports them."""
        for each in (self.extracted, self._taken, self._acked_extracted):
            each.pop(relay, None)

    def repeat(self) -> None:
        """Make an acknowledgement due now, even a repeated one (AMO-24)."""
        self.is_urgent = True

    # Acknowledgements in message frames.

    def acknowledge_by(
        self, task: int, extraction: tuple[int, float, int] | None = None
    ) -> tuple[int, int]:
        """Return the acknowledgements for a message frame that begins with `task`.

        They are `Batch.acknowledged` and `Batch.extracted`. If nothing else is due, no
        ACK frame follows. So the caller sends that frame, or drops the link.

        extraction: the last message that the task has extracted, as for `on_extracted`.
        """
        has, taken = self.received, self._taken
        if extraction is None:
            extracted = self.extracted.get(task, 0)
        else:
            self.extracted[task] = extracted = extraction[0]
        if (
            # No other task has extracted any.
            (not taken or len(taken) == (task in taken))
            and self.controls_received == self._acked_controls
            and not has.missing
        ):
            # No calls below: an interrupt finds either all of these changes or none.
            self._acked = has.next
            if taken:
                self._taken = {}
            if extracted:
                self._acked_extracted[task] = extracted
            self.due_at = None
            self.is_urgent = False
            self._exchanges = True
            return has.next - 1, extracted
        if extraction is not None:  # due with the rest
            self.on_extracted(task, *extraction)
        return (0, 0) if has.missing else (has.next - 1, extracted)

    # Acknowledgements in frames of their own.

    def next_check(self, now: float, *, ready: bool) -> float | None:
        """Return when to check for a due acknowledgement; None for never.

        In an exchange, each message acknowledges the one before it, so the checks are
        rare. Checking at each due time cost one wake-up for every few messages.

        ready: True if the session can send; nothing is due before that.
        """
        self.in_exchange = self._exchanges and ready
        if not self.in_exchange:
            return self.due_at if ready else None
        self._exchanges = False
        return now + _EXCHANGE * self._delay_s

    def is_due(self, now: float) -> bool:
        """Return True if an acknowledgement is due."""
        return self.is_urgent or (self.due_at is not None and self.due_at <= now)

    def take(self, epoch: int, incarnation: int) -> list[Frame]:
        """Return the frames that acknowledge everything; nothing is due after that.

        epoch, incarnation: the peer's epoch, and the incarnation of this process.
        """
        taken = [(relay, self.extracted[relay]) for relay in self._taken]
        self._acked_extracted.update(taken)
        self._taken.clear()
        self.due_at, self.is_urgent = None, False
        self._acked, self._acked_controls = self.received.next, self.controls_received
        parts = [
            tuple(taken[at : at + EXTRACTED_MAX])
            for at in range(0, max(1, len(taken)), EXTRACTED_MAX)
        ]
        return [
            Ack.of(
                self.received,
                epoch=epoch,
                incarnation=incarnation,
                extracted=part,
                controls=self.controls_received,
            )
            for part in parts
        ]
