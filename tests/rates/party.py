"""The processes of a contest; each function gets the bus of its own process.

One process sends to another as fast as it can, and returns its rate. Meanwhile it sends
to the third one each millisecond, as a program may to any reader.
"""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from bus import BusFullError

if TYPE_CHECKING:
    from bus import Bus, Incoming

__all__ = ["burn", "flood", "measure", "read", "sink", "tell"]

_MESSAGE: Final = bytes(64)
_BATCH: Final = 100  # messages between two readings of the clock
_EACH_S: Final = 0.001
_SLOW_S: Final = 0.02
_FOR_EVER: Final = 3600.0
_DRAIN_S: Final = 30.0


def sink(bus: Bus) -> None:
    """Register a task that takes messages as fast as it can, and one to be flooded."""
    taken = bus.thread("sink")
    bus.register("sink", thread=taken, overflow="block", on_command=_take)
    bus.register("flooded", thread=bus.thread("flooded"), on_command=_take)


def _take(_: Incoming) -> None:
    """Take a message, and do nothing."""


def measure(bus: Bus, seconds: float) -> float:
    """Send to the sink for a while; return the rate in messages a second, all taken."""
    sender = bus.register("sender")
    try:
        sender.call("sink")
        sent, began = 0, perf_counter()
        while perf_counter() - began < seconds:
            for _ in range(_BATCH):
                sender.command("sink", _MESSAGE)
            sent += _BATCH
        sender.call("sink", timeout=_DRAIN_S)
        return sent / (perf_counter() - began)
    finally:
        sender.deregister()


def tell(bus: Bus) -> None:
    """Notify, and command the reader, each millisecond from now on."""
    teller = bus.register("news")

    def run() -> None:
        while True:
            teller.notify(_MESSAGE)
            with suppress(BusFullError):
                teller.command("reader", _MESSAGE)
            time.sleep(_EACH_S)

    Thread(target=run, daemon=True).start()


def read(bus: Bus, how: str) -> None:
    """Read the notifications and commands: at once, slowly, or one message forever."""
    pause_s = {"at once": 0.0, "slowly": _SLOW_S, "never": _FOR_EVER}[how]
    pause = Event()
    received = Event()

    def taken(_: Any) -> None:
        received.set()
        if pause_s:
            pause.wait(pause_s)

    bus.register("reader", thread=bus.thread("reader"), on_command=taken)
    listener = bus.register("listener", thread=bus.thread("listener"))
    listener.subscribe("news", taken)
    assert received.wait(_DRAIN_S)


def flood(bus: Bus) -> None:
    """Send to the flooded task as fast as possible; ignore refusals."""
    writer = bus.register("writer")
    writer.call("flooded")

    def run() -> None:
        while True:
            with suppress(BusFullError):
                writer.command("flooded", _MESSAGE)

    Thread(target=run, daemon=True).start()


def burn(_: Bus) -> None:
    """Use as much of a processor as a thread can, and send nothing."""

    def run() -> None:
        while True:
            bytes(_MESSAGE)

    Thread(target=run, daemon=True).start()
