"""`Talk`: two processes over sockets, and the messages that take the fast path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus import Role
from bus.kernel.fast_path import FastPath
from tests.kit.buses import socket_bus
from tests.kit.comm_threads import comm_of
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from contextlib import ExitStack

    import pytest

    from bus import Bus, Incoming

__all__ = ["Talk", "until_at_rest"]


class Talk:
    """Two processes over sockets; one asks, and a thread of the other answers.

    went, received: how many frames both processes sent and received on the fast path.
    asked: how many of the sent frames were questions.
    """

    def __init__(self, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.went = self.received = self.asked = 0
        self.far = stack.enter_context(socket_bus("far", role=Role.MASTER))
        self.near = stack.enter_context(socket_bus("near", role=Role.SLAVE))
        self.answered: list[Any] = []
        self.thread = self.far.thread()
        self.answerer = self.far.register(
            "answerer", on_command=self._answer, thread=self.thread
        )
        self.here = self.near.here()
        self.asker = self.near.register("asker", thread=self.here)
        self._count(monkeypatch)

    def _answer(self, message: Incoming) -> Any:
        self.answered.append(message.payload)
        return message.payload

    def _count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ask, answer, received = FastPath.command, FastPath.answer, FastPath.receive

        def asks(short: FastPath, *about: Any) -> Any:
            frame = ask(short, *about)
            self.went += frame is not None
            self.asked += frame is not None
            return frame

        def answers(short: FastPath, *about: Any, **how: Any) -> Any:
            frame = answer(short, *about, **how)
            self.went += frame is not None
            return frame

        def comes(short: FastPath, *about: Any, **how: Any) -> Any:
            taken = received(short, *about, **how)
            self.received += taken
            return taken

        monkeypatch.setattr(FastPath, "command", asks)
        monkeypatch.setattr(FastPath, "answer", answers)
        monkeypatch.setattr(FastPath, "receive", comes)

    def ask(self, payload: Any = b"x") -> Any:
        return self.asker.call("answerer", payload, timeout=LIMIT_S)

    def warm(self) -> None:
        """Ask until both sides wait at the link."""
        until(self._is_warm, "the question takes the fast path")

    def _is_warm(self) -> bool:
        before = self.received
        self.ask()
        return self.received == before + 2

    @property
    def waits(self) -> bool:
        """True if the answering thread waits at the link."""
        return self.thread._manager.link_wait is not None


def until_at_rest(bus: Bus) -> None:
    """Wait until all sent messages are read and acknowledged."""
    peers = comm_of(bus).remote.topology.peers

    def at_rest() -> bool:
        return all(
            not (relay.queue or relay.unacked or relay.asked or relay._unanswered)
            and relay.under_way == relay.unacked_bytes == 0
            and relay.counters.posted == relay.counters.taken
            for peer in peers.values()
            for relay in peer.relays.values()
        )

    until(lambda: bus._exchange.query(at_rest), "all was taken, and its sender knows")
