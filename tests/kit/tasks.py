"""Tasks that record the messages they receive, and callbacks without a memory."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus import Bus, Incoming

__all__ = ["Holder", "Reader", "echo", "ignore", "unwanted"]


def echo(message: Incoming) -> Any:
    """Answer a command with its payload."""
    return message.payload


def ignore(_: object) -> None:
    """Ignore a message."""


def unwanted(what: object) -> None:
    """Fail the test: a callback for a message that must not arrive."""
    pytest.fail(f"nobody wants {what}")


class Reader:
    """A task that records the payloads of its commands, and replies with them.

    reply: makes the reply from the payload.
    """

    def __init__(
        self,
        bus: Bus,
        name: str = "reader",
        *,
        reply: Callable[[Any], Any] = lambda payload: payload,
        **options: Any,
    ) -> None:
        self._reply = reply
        self.got: list[Any] = []
        self.task = bus.register(name, on_command=self._read, **options)

    def _read(self, message: Incoming) -> Any:
        self.got.append(message.payload)
        return self._reply(message.payload)

    def has(self, count: int) -> None:
        """Wait until the task has received `count` messages."""
        until(lambda: len(self.got) >= count, f"{count} messages arrive")


class Holder(Reader):
    """A reader in a thread of its own whose callback blocks until `let_go`.

    holds: True for a payload at which the callback blocks.
    """

    def __init__(
        self,
        bus: Bus,
        name: str = "holder",
        *,
        holds: Callable[[Any], bool] = lambda _: True,
        **options: Any,
    ) -> None:
        self._holds = holds
        self._go, self.held = Event(), Event()
        self.thread = bus.thread(name)
        super().__init__(bus, name, thread=self.thread, **options)

    def _read(self, message: Incoming) -> Any:
        if self._holds(message.payload):
            self.held.set()
            assert self._go.wait(LIMIT_S), "nobody let it go"
        return super()._read(message)

    def let_go(self) -> None:
        """Let all callbacks return, later ones as well."""
        self._go.set()

    @classmethod
    @contextmanager
    def holding(cls, bus: Bus, **options: Any) -> Iterator[Holder]:
        """Yield a holder that is in its callback; it is released at the end."""
        holder = cls(bus, **options)
        try:
            bus.command(holder.task.address, "hold")
            assert holder.held.wait(LIMIT_S), "its callback does not run"
            yield holder
        finally:
            holder.let_go()
