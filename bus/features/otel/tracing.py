"""`instrument`: send trace contexts, and make spans of sends and callbacks.

The slots are four functions of the API, which this module replaces for all buses of the
process. So a process that does not call `instrument` pays nothing, not even a test for
a slot. A context travels as a `Carried` in place of the payload; see there.

The names of spans and attributes are those of the conventions for messaging, which are
under development: they stand in this module alone.
"""

from __future__ import annotations

import functools
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
    from collections.abc import Callable

    from opentelemetry.trace import Span, Tracer

__all__ = ["instrument", "uninstrument"]

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_PARENT_MAX: Final = 255  # characters; see `Context`
_STATE_MAX: Final = 512  # as the W3C demands of all that pass it on

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
    for (owner, name), wrap in _SLOTS.items():
        _before[owner, name] = function = getattr(owner, name)
        setattr(owner, name, functools.wraps(function)(wrap(tracer, function)))
    CONTEXTS.kept = True  # last: from now on only an instrumented receiver sees them


def uninstrument() -> None:
    """End `instrument`, for tests; no message with a context may be unread."""
    CONTEXTS.kept = False
    for (owner, name), function in _before.items():
        setattr(owner, name, function)
    _before.clear()


def _is_traced() -> bool:
    return trace.get_current_span().get_span_context().is_valid


def _carried(payload: Any) -> Any:
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


def _sending(tracer: Tracer, operation: str, destination: str) -> Any:
    return tracer.start_as_current_span(
        f"{operation} {destination}",
        kind=SpanKind.PRODUCER,
        attributes=_attributes(operation, "send", destination),
    )


# The slots.


def _command(tracer: Tracer, function: Callable[..., Any]) -> Callable[..., Any]:
    def command(
        self: Task, to: Any, payload: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        # For an `Address`, the function calls the method again with its text.
        if type(payload) is Carried or not _is_traced():
            return function(self, to, payload, *args, **kwargs)
        several = isinstance(to, (list, tuple))
        names = ",".join(map(str, to)) if several else str(to)
        with _sending(tracer, "command", names):
            return function(self, to, _carried(payload), *args, **kwargs)

    return command


def _call(tracer: Tracer, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Sender, to: Any, payload: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_traced():
            return function(self, to, payload, *args, **kwargs)
        with _sending(tracer, "call", str(to)):
            return function(self, to, _carried(payload), *args, **kwargs)

    return call


def _notify(tracer: Tracer, function: Callable[..., Any]) -> Callable[..., Any]:
    def notify(self: Task, payload: Any = None, **kwargs: Any) -> Any:
        if not _is_traced():
            return function(self, payload, **kwargs)
        with _sending(tracer, "notify", self._entry.name):
            return function(self, _carried(payload), **kwargs)

    return notify


def _has_expired(item: Incoming) -> bool:
    return item._deadline is not None and item._deadline <= _sync.monotonic()


def _handle(tracer: Tracer, function: Callable[..., Any]) -> Callable[..., Any]:
    @calls_user
    def handle(self: Receiver, item: Any) -> None:
        if type(item) is not Incoming or type(item.payload) is not Carried:
            function(self, item)
            return
        carried = item.payload
        item.payload = carried.payload
        is_kept = not self.has_callback and item.kind is Kind.COMMAND
        if is_kept or item._dropped or _has_expired(item):
            function(self, item)  # no callback runs; `Task.receive` may return it later
            return
        parent, state = carried.context
        texts = {"traceparent": parent, "tracestate": state}
        failures = self.failures
        with tracer.start_as_current_span(
            f"process {_destination(item)}",
            context=_PROPAGATOR.extract(texts),
            kind=SpanKind.CONSUMER,
            attributes=_attributes("process", "process", _destination(item)),
        ) as span:
            function(self, item)
            if self.failures > failures:  # the receiver has contained the exception
                _fail(span)

    return handle


def _destination(item: Incoming) -> str:
    """Return the name to which a message was sent: a notifier, or an addressee."""
    entry = item._source if item.kind is Kind.NOTIFICATION else item._to
    return str(entry.name)


def _fail(span: Span) -> None:
    span.set_attribute("error.type", "callback")
    span.set_status(Status(StatusCode.ERROR, "the callback raised"))


_SLOTS: Final[dict[tuple[type, str], Callable[[Tracer, Any], Any]]] = {
    (Task, "command"): _command,
    (Task, "notify"): _notify,
    (Sender, "call"): _call,
    (Receiver, "handle"): _handle,
}
