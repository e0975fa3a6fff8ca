"""`Responder`: the answers that a task gives to the messages it has received."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.api.arguments import wrong_type
from bus.error_text import fitting
from bus.errors import (
    AlreadyAnsweredError,
    NotJoinedError,
    RemoteError,
    UnknownTaskError,
)
from bus.message import Kind
from bus.payload import freeze_within
from bus.threads.delivery import Answer

if TYPE_CHECKING:
    from bus.api.task_owner import TaskOwner
    from bus.config import BusConfig
    from bus.core.local.routing_table import Entry
    from bus.core.local.trace import Trace
    from bus.message import Incoming
    from bus.threads.router import Router

__all__ = ["Responder"]


class Responder:
    """The part of a task that answers; only the thread that hosts the task calls it.

    Args:
        bus: the bus of the task; None if the task asks and answers on that bus alone.

    Attributes:
        unasked: the number of answers that nobody requested (BUS-MSG-7).
    """

    __slots__ = ("_bus", "_config", "_router", "unasked")

    def __init__(
        self,
        router: Router,
        config: BusConfig,
        bus: TaskOwner | None,
    ) -> None:
        self._router: Final = router
        self._config: Final = config
        self._bus: Final = bus
        self.unasked: int = 0

    def respond(
        self, message: Incoming, payload: Any = None, *, error: str | None = None
    ) -> None:
        """Answer a message; see `Incoming.respond`."""
        entry: Entry = message._to
        if error is not None and not isinstance(error, str):
            raise wrong_type("error", "a str or None", error)
        if entry.host is None:
            raise UnknownTaskError(entry.name)
        if not message.wants_reply:
            self.unasked += 1
            return
        if message._answered:
            raise AlreadyAnsweredError(entry.name)
        asker, router = message._source, self._router
        if asker.remote and asker.address.bus != entry.address.bus:
            router = self._router_to(str(asker.address.bus))
        config = self._config
        limit = config.message_bytes_max
        frozen, size = freeze_within(payload, limit, config.encoders)
        if error is not None:
            error = fitting(error, limit)
        message._answered = True
        if asker.remote:
            comm = router.exchange.comm
            assert comm is not None
            comm.answer(message, frozen, error)
            return
        trace: Trace | None = message._trace
        wanted = router.deliver_answer(
            Answer(
                _to=asker,
                number=message._id,
                responder=entry.address,
                payload=frozen,
                error=None if error is None else RemoteError(entry.name, error),
                final=message.kind is Kind.COMMAND,
                _trace=None if trace is None else trace.answer(entry.id.number, size),
            )
        )
        if not wanted:  # the asker has deregistered
            self.unasked += 1

    def _router_to(self, name: str) -> Router:
        """Return the router of another bus, over which a question came.

        Raises:
            NotJoinedError: this process has left that bus.
        """
        bus = None if self._bus is None else self._bus._others.get(name)
        if bus is None:
            raise NotJoinedError(name)
        return bus._router
