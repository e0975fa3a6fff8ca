"""`Durability`: the stable storage of a receiver that never repeats a message."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import attrs

__all__ = ["Durability"]

_PER_SYNC_MAX: Final = 2**32


def _folder(given: str | os.PathLike[str]) -> Path:
    return Path(given).absolute()


def _is_count(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{attribute.name} must be an int, got {value!r}")
    if not 1 <= value <= _PER_SYNC_MAX:
        raise ValueError(f"{attribute.name} must be in 1..{_PER_SYNC_MAX}, got {value}")


def _is_bool(_: object, attribute: attrs.Attribute[bool], value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{attribute.name} must be a bool, got {value!r}")


@attrs.frozen
class Durability:
    """The storage of a process that delivers no message twice, even after a restart.

    The storage holds a horizon for each stream: the greatest number that may have been
    handed over. After a restart the process refuses all messages up to it (AMO-20).

    directory: holds the horizons of one process of one bus, and no other files. It is
      created if its parent exists. One process at a time can use it.
    messages_per_sync: how far the horizon is raised at a time, in messages. After a
      crash a stream that continues loses at most this many messages that had not
      arrived.
    sync_on_arrival: True to raise the horizon exactly to the last message handed over.
      Messages that arrive together share one write. Then a crash loses only messages on
      their way to a task, and each group of messages waits for the storage.

    Raises:
        TypeError: ``messages_per_sync`` is not an `int`, or ``sync_on_arrival`` is not
          a `bool`.
        ValueError: ``messages_per_sync`` is out of range.
    """

    directory: Path = attrs.field(converter=_folder)
    messages_per_sync: int = attrs.field(default=1024, validator=_is_count)
    sync_on_arrival: bool = attrs.field(default=False, validator=_is_bool)

    @property
    def ahead(self) -> int:
        """How far a raised horizon lies above the message handed over, in messages."""
        return 0 if self.sync_on_arrival else self.messages_per_sync
