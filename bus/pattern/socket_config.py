"""`SocketConfig`: the limits of a bus socket or a pair socket."""

from __future__ import annotations

from typing import Any, Final, Literal

import attrs

from queuebroker.arguments import index, positive, seconds

__all__ = ["SocketConfig"]

_COUNT_MAX: Final = 1 << 31


def _positive(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    positive(attribute.name, value, _COUNT_MAX)


def _seconds(_: object, attribute: attrs.Attribute[float], value: object) -> None:
    seconds(attribute.name, value)


def _overflow(_: object, attribute: attrs.Attribute[str | None], value: object) -> None:
    if value not in ("drop", "block", None):
        msg = f"{attribute.name} must be 'drop', 'block' or None, got {value!r}"
        raise ValueError(msg)


def _duration(_: object, attribute: attrs.Attribute[float], value: object) -> None:
    seconds(attribute.name, value, has_zero=False)


def _not_negative(_: object, attribute: attrs.Attribute[int], value: Any) -> None:
    if index(attribute.name, value) < 0:
        raise ValueError(f"{attribute.name} must be >= 0, got {value}")


@attrs.frozen(kw_only=True)
class SocketConfig:
    """The limits of one socket; each has a default.

    send_messages, send_bytes: the bounds of the queue to each peer. One message always
      fits. The messages of one write, up to 128 KiB or one message, may exceed them.
    receive_messages, receive_bytes: the bounds of the received messages of each peer
      that the application has not taken (BP-6, BP-18). One message always fits. A
      burst of short messages brings thousands at once, and the default has room for it.
    receive_overflow: "drop" drops the newest message at these bounds (BP-6). "block"
      reads nothing more from that peer until there is room; then the messages wait at
      the peer, and are dropped there if its queue is full. The messages of one turn,
      256 KiB at most, may exceed the bounds. None for the way of the socket: a bus
      socket drops, a pair blocks.
    message_bytes: the maximum length of an incoming message; a peer that sends a longer
      one is disconnected, and the message is in no account. 0 for no limit. It limits
      neither ``inproc`` peers, whose messages are not copied, nor the messages sent:
      these have less than 4 GiB.
    handshake_s: time limit for the handshake of a peer, in seconds.
    redial_min_s, redial_max_s: limits of the pause between two attempts of a dialler,
      in seconds. The pause is random, from 0 to a limit: at first ``redial_min_s``, and
      after each failure twice as long, up to ``redial_max_s``, unless that is less than
      ``redial_min_s``. ``redial_min_s`` is above 0: a dialler would never pause.
    repeat_s: a message of another library whose bytes equal those of one that arrived
      within this time, in seconds, is dropped. It limits loops through devices of other
      libraries, and also drops intended repeats (BP-16). 0 for never.

    Raises:
        TypeError, ValueError: a value is no number, or out of range.
    """

    send_messages: int = attrs.field(default=16_384, validator=_positive)
    send_bytes: int = attrs.field(default=16 << 20, validator=_positive)
    receive_messages: int = attrs.field(default=16_384, validator=_positive)
    receive_bytes: int = attrs.field(default=16 << 20, validator=_positive)
    receive_overflow: Literal["drop", "block"] | None = attrs.field(
        default=None, validator=_overflow
    )
    message_bytes: int = attrs.field(default=64 << 20, validator=_not_negative)
    handshake_s: float = attrs.field(default=10.0, validator=_duration)
    redial_min_s: float = attrs.field(default=0.02, validator=_duration)
    redial_max_s: float = attrs.field(default=10.0, validator=_seconds)
    repeat_s: float = attrs.field(default=0.0, validator=_seconds)
