"""The slots for the coroutines of a bus; see `bus.features.otel.tracing`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from bus.aio.task import Handler, Task
from bus.features.otel.tracing import (
    SLOTS,
    carried_payload,
    fail,
    is_traced,
    processing,
    received,
    sending,
)
from bus.model.carried import Carried

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from opentelemetry.trace import Tracer

    from bus.model.message import Incoming

__all__: list[str] = []


def _sends(operation: str) -> Callable[[Tracer, Any], Any]:
    def wrap(tracer: Tracer, function: Callable[..., Awaitable[Any]]) -> Any:
        async def send(self: Task, to: Any, payload: Any = None, **options: Any) -> Any:
            if not is_traced():
                return await function(self, to, payload, **options)
            with sending(tracer, operation, to):
                return await function(self, to, carried_payload(payload), **options)

        return send

    return wrap


def _receive(_: Tracer, function: Callable[..., Awaitable[Incoming]]) -> Any:
    async def receive(*args: Any, **kwargs: Any) -> Incoming:
        return received(await function(*args, **kwargs))

    return receive


def _handle(tracer: Tracer, function: Callable[..., Coroutine[Any, Any, None]]) -> Any:
    def traced(handler: Handler) -> Handler:
        @functools.wraps(handler)
        async def handle(message: Incoming) -> Any:
            with processing(tracer, message) as span:
                try:
                    return await handler(message)
                except Exception:
                    fail(span)
                    raise

        return handle

    def handle(
        self: Task, handler: Handler, message: Incoming
    ) -> Coroutine[Any, Any, None]:
        carries = type(message.payload) is Carried
        return function(self, traced(handler) if carries else handler, message)

    return handle


SLOTS.update(
    {
        (Task, "call"): _sends("call"),
        (Task, "command"): _sends("command"),
        (Task, "receive"): _receive,
        (Task, "_handle"): _handle,
    }
)
