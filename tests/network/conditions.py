"""`Conditions`: the faults of one direction of a network, at one time."""

from __future__ import annotations

import math
from typing import Final

import attrs

__all__ = ["GOOD", "Conditions"]


def _is_share(_: object, field: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{field.name} must be from 0 to 1, got {value}")


@attrs.frozen(kw_only=True)
class Conditions:
    """The faults that affect each frame of one direction.

    loss, duplication, reordering: the share of frames that are lost, arrive twice, or
      arrive after later ones.
    delay_s, jitter_s: the delay of each frame, and its variation, in seconds.
    bytes_per_s: the bandwidth. If a frame would wait for it longer than `queue_s`, the
      frame is dropped.
    queue_s: the longest wait for the bandwidth, in seconds.
    bytes_max: longer frames are dropped; in bytes.
    cut: True if all frames are dropped.
    """

    loss: float = attrs.field(default=0.0, validator=_is_share)
    duplication: float = attrs.field(default=0.0, validator=_is_share)
    reordering: float = attrs.field(default=0.0, validator=_is_share)
    delay_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float = math.inf
    queue_s: float = 0.5
    bytes_max: float = math.inf
    cut: bool = False


GOOD: Final = Conditions()
