"""`instrument`: send trace contexts, and make spans of sends and callbacks.

The slots are functions of the API, which this module replaces for all buses of the
process; `bus.aio.tracing` adds those of coroutines. So a process that does not call
`instrument` pays nothing, not even a test for a slot. A context travels as a `Carried`
in place of the payload; see there.

The names of spans and attributes are those of the conventions for messaging, which are
under development: they stand in this module alone.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from bus.api.receiver import Receiver
from bus.api.reentry import calls_user
from bus.api.sender import Sender
from bus.api.task import Task
from bus.model.carried import CONTEXTS, Carried, Context
from bus.model.message import Incoming, Kind
from bus.requirements import version_of_us
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.trace import Span, Tracer

__all__ = [
    "SLOTS",
    "carried_payload",
    "fail",
    "instrument",
    "is_traced",
    "processing",
    "received",
    "sending",
    "uninstrument",
]

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_PARENT_MAX: Final = 255  # characters; see `Context`
_STATE_MAX: Final = 512  # the W3C demands that much of a forwarder

# Slot -> the function that it held; empty while nothing is instrumented.
_before: Final[dict[tuple[type, str], Any]] = {}


def instrument(tracer_provider: TracerProvider | None = None) -> None:
    """Trace the messages of all buses of this process from now on.

    A command, a call or a notification that is sent within a span gets a span of kind
    PRODUCER, and its context travels with the message. A callback of a message that
    has a context runs in a span of kind CONSUMER, whose parent is that of the sender.
    Without a span of the sender there is neither. A second call does nothing.

    Call it before the first message arrives: one that is decoded before has no context.

    tracer_provider: the global one by default.
    """
    if _before:
        return
    tracer = trace.get_tracer("bus", version_of_us(), tracer_provider)
    for (owner, name), wrap in SLOTS.items():
        _before[owner, name] = function = getattr(owner, name)
        setattr(owner, name, functools.wraps(function)(wrap(tracer, function)))
    CONTEXTS.kept = True  # last: from now on only an instrumented receiver sees them


def uninstrument() -> None:
    """End `instrument`, for tests; no message with a context may be unread."""
    CONTEXTS.kept = False
    for (owner, name), function in _before.items():
        setattr(owner, name, function)
    _before.clear()


def is_traced() -> bool:
    """Return True if the caller runs in a span."""
    return trace.get_current_span().get_span_context().is_valid


def carried_payload(payload: Any) -> Any:
    """Return a payload with the current context."""
    texts: dict[str, str] = {}
    _PROPAGATOR.inject(texts)
    parent, state = texts.get("traceparent", ""), texts.get("tracestate", "")
    if not (0 < len(parent) <= _PARENT_MAX and parent.isascii()):
        return payload
    if len(state) > _STATE_MAX or not state.isascii():
        state = ""
    return Carried(Context(parent, state), payload)


def _attributes(operation: str, kind: str, destination: str) -> dict[str, str]:
    return {
        "messaging.system": "bus",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": destination,
    }


def sending(tracer: Tracer, operation: str, to: Any) -> Any:
    """Return a block in a span of kind PRODUCER; ``to``: one name, or several."""
    destination = ",".join(map(str, to)) if isinstance(to, (list, tuple)) else str(to)
    return tracer.start_as_current_span(
        f"{operation} {destination}",
        kind=SpanKind.PRODUCER,
        attributes=_attributes(operation, "send", destination),
    )


@contextmanager
def processing(tracer: Tracer, item: Incoming) -> Iterator[Span]:
    """Take the context off a message, and run a block in a span of kind CONSUMER."""
    carried: Any = item.payload
    item.payload = carried.payload
    parent, state = carried.context
    # The name to which it was sent: a notifier, or an addressee.
    entry = item._source if item.kind is Kind.NOTIFICATION else item._to
    with tracer.start_as_current_span(
        f"process {entry.name}",
        context=_PROPAGATOR.extract({"traceparent": parent, "tracestate": state}),
        kind=SpanKind.CONSUMER,
        attributes=_attributes("process", "process", str(entry.name)),
    ) as span:
        yield span


def received(message: Incoming) -> Incoming:
    """Return a message without its context, as `Task.receive` does."""
    if type(message.payload) is Carried:
        message.payload = message.payload.payload
    return message


def fail(span: Span) -> None:
    """Note that the callback of a span has raised."""
    span.set_attribute("error.type", "callback")
    span.set_status(Status(StatusCode.ERROR, "the callback raised"))


# The slots.


def _command(tracer: Tracer, function: Callable[..., Any]) -> Callable[..., Any]:
    def command(
        self: Task, to: Any, payload: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        # A coroutine passes a `Carried`. For an `Address`, the function calls its own
        # method again, with a text.
        if type(payload) is Carried or not is_traced():
            return function(self, to, payload, *args, **kwargs)
        with sending(tracer, "command", to):
            return function(self, to, carried_payload(payload), *args, **kwargs)

    return command


def _call(tracer: Tracer, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Sender, to: Any, payload: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced():
            return function(self, to, payload, *args, **kwargs)
        with sending(tracer, "call", to):
            return function(self, to, carried_payload(payload), *args, **kwargs)

    return call


def _notify(tracer: Tracer, function: Callable[..., Any]) -> Callable[..., Any]:
    def notify(self: Task, payload: Any = None, **kwargs: Any) -> Any:
        if not is_traced():
            return function(self, payload, **kwargs)
        with sending(tracer, "notify", self._entry.name):
            return function(self, carried_payload(payload), **kwargs)

    return notify


def _has_expired(item: Incoming) -> bool:
    # By the clock of `Receiver._extract`: else a callback could get a `Carried`.
    deadline, scheduler = item._deadline, item._to.host.scheduler
    return deadline is not None and deadline <= (scheduler.since or _sync.monotonic())


def _handle(tracer: Tracer, function: Callable[..., Any]) -> Callable[..., Any]:
    @calls_user
    def handle(self: Receiver, item: Any) -> None:
        if type(item) is not Incoming or type(item.payload) is not Carried:
            function(self, item)
            return
        is_kept = not self.has_callback and item.kind is Kind.COMMAND
        if is_kept or item._dropped or _has_expired(item):
            # No callback runs. A receive, or a handler of `bus.aio`, may take it later.
            function(self, item)
            return
        failures = self.failures
        with processing(tracer, item) as span:
            function(self, item)
            if self.failures > failures:  # the receiver has contained the exception
                fail(span)

    return handle


def _receive(_: Tracer, function: Callable[..., Incoming]) -> Callable[..., Incoming]:
    def receive(*args: Any, **kwargs: Any) -> Incoming:
        return received(function(*args, **kwargs))

    return receive


SLOTS: Final[dict[tuple[type, str], Callable[[Tracer, Any], Any]]] = {
    (Task, "command"): _command,
    (Task, "notify"): _notify,
    (Task, "receive"): _receive,
    (Sender, "call"): _call,
    (Receiver, "handle"): _handle,
}
