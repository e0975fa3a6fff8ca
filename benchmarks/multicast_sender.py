"""`MulticastSender`: the sending side of a contestant of the suite ``multicast``.

A contestant is a module with ``NAME``, ``VERSION`` and two functions:

``near(folder, job)``: returns the sender, which listens already; the receivers start
  afterwards.
``far(folder, job, tally)``: one receiver. It passes each message to `Tally.take`,
  returns it to the sender if the job is "echo" and ``take`` returned True, and calls
  `Tally.finish` before it closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MulticastSender"]


def _nothing() -> object:
    return None


def _no_losses() -> int:
    return 0


def _cannot_ask(_: bytes) -> object:
    raise NotImplementedError("this contestant has no round trip")


@attrs.frozen
class MulticastSender:
    """The side that sends, and measures.

    send: sends one message to all receivers. The caller may change a `bytearray` once
      the call has returned.
    ask: sends one message to the only receiver, and waits until it comes back.
    reached: called once, when all receivers are there. It removes names in memory that
      no other process will look up, so that none is left if the job is killed.
    losses: returns how many messages were not delivered, as the library knows it.
    """

    send: Callable[[bytes | bytearray], object]
    close: Callable[[], object]
    ask: Callable[[bytes], object] = _cannot_ask
    reached: Callable[[], object] = _nothing
    losses: Callable[[], int] = _no_losses
