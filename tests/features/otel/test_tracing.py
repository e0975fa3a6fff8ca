"""Trace contexts travel with messages, and only where there is one."""

from __future__ import annotations

import array
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from bus.api.receiver import Receiver
from bus.api.task import Task
from bus.model.address import Address
from bus.otel import instrument, uninstrument
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import socket_bus
from tests.kit.serving import settle
from tests.kit.tasks import Reader
from tests.process.real import Far
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Tracer

    from bus import Bus, Incoming, Undelivered

PAYLOADS: Final[Sequence[Any]] = (
    *(None, True, 7, -(2**63), 0.5, "text", "\u00e9", b"bytes", ()),
    *((1, ("a", b"b")), {}, {"x": {"y": (1, 2)}}),
)


class Traced:
    """An instrumented process, and the spans that have ended in it."""

    def __init__(self) -> None:
        self._exporter: Final = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Final[Tracer] = provider.get_tracer("test")
        instrument(provider)

    def spans(self, kind: SpanKind) -> list[ReadableSpan]:
        return [x for x in self._exporter.get_finished_spans() if x.kind is kind]

    def consumers(self, count: int) -> list[ReadableSpan]:
        """Wait for the spans of that many callbacks."""
        until(lambda: len(self.spans(SpanKind.CONSUMER)) >= count, "callbacks ended")
        return self.spans(SpanKind.CONSUMER)


@pytest.fixture
def traced() -> Iterator[Traced]:
    yield Traced()
    uninstrument()


@pytest.fixture
def pair(traced: Traced) -> Iterator[tuple[Bus, Bus]]:
    """Yield two processes of a bus, which both trace."""
    with (
        memory_bus(process="one") as one,
        memory_bus(process="two", beside=one) as two,
    ):
        yield one, two


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


@clause("BUS-MSG-21")
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_a_callback_runs_in_the_trace_of_the_caller_and_gets_the_same_payload(
    pair: tuple[Bus, Bus], traced: Traced, far: bool
) -> None:
    one, two = pair
    got: list[tuple[Any, int]] = []

    def on_command(message: Incoming) -> Any:
        got.append((message.payload, get_current_span().get_span_context().span_id))
        return message.payload

    there = two if far else one
    there.register("echo", on_command=on_command, thread=there.thread())

    with traced.tracer.start_as_current_span("root") as root:
        answers = [one.call("echo", payload) for payload in PAYLOADS]

    consumers = traced.consumers(len(PAYLOADS))
    producers = traced.spans(SpanKind.PRODUCER)
    assert answers == [payload for payload, _ in got] == [*PAYLOADS]
    assert [type(payload) for payload, _ in got] == [*map(type, PAYLOADS)]
    assert [parent_of(each) for each in consumers] == [
        each.context.span_id for each in producers if each.context is not None
    ]
    assert [span for _, span in got] == [
        each.context.span_id for each in consumers if each.context is not None
    ]
    assert {parent_of(each) for each in producers} == {root.get_span_context().span_id}
    [first, *_] = consumers
    assert first.name == "process echo"
    assert first.attributes is not None
    assert dict(first.attributes) == {
        "messaging.system": "bus",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "echo",
    }


@clause("BUS-MSG-21")
def test_a_notification_takes_its_context_to_every_subscriber(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    one, two = pair
    got: list[Any] = []
    for bus in (one, one, two):
        bus.subscribe("clock", lambda m: got.append(m.payload.pop("tick")), wait=True)
    clock = one.register("clock", thread=one.here())
    assert clock.wait_for_subscribers(3)

    with traced.tracer.start_as_current_span("root"):
        clock.notify({"tick": 1})
    consumers = traced.consumers(3)

    [sent] = traced.spans(SpanKind.PRODUCER)
    assert got == [1, 1, 1]
    assert sent.name == "notify clock"
    assert sent.context is not None
    assert {parent_of(each) for each in consumers} == {sent.context.span_id}
    assert {each.name for each in consumers} == {"process clock"}


@clause("BUS-MSG-21")
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize(
    "to",
    [Address("reader"), ["reader"], [Address("reader")]],
    ids=["address", "names", "addresses"],
)
def test_a_command_has_one_span_however_its_addressee_is_given(
    pair: tuple[Bus, Bus], traced: Traced, to: Any, far: bool
) -> None:
    one, two = pair
    there = two if far else one
    reader = Reader(there, "reader", thread=there.thread())
    task = one.register("task", thread=one.here())
    one.wait_for("reader")

    with traced.tracer.start_as_current_span("root"):
        task.command(to, {"x": 1})
    reader.has(1)

    [sent] = traced.spans(SpanKind.PRODUCER)
    [got] = traced.consumers(1)
    assert reader.got == [{"x": 1}]
    assert sent.name == "command reader"
    assert sent.context is not None
    assert parent_of(got) == sent.context.span_id


@clause("BUS-MSG-21")
def test_without_a_span_there_is_none_and_the_callback_has_none(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    one, two = pair
    reader = Reader(two, "reader", thread=two.thread())
    task = one.register("task", thread=one.here())

    assert one.call("reader", {"x": 1}) == {"x": 1}
    for number in range(100):
        task.command("reader", b"%d" % number)  # these share a send batch
    task.notify(b"x")
    reader.has(101)

    assert traced.spans(SpanKind.PRODUCER) == traced.spans(SpanKind.CONSUMER) == []


@clause("BUS-MSG-21")
def test_within_a_span_bytes_leave_their_batch_and_keep_their_order(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    one, two = pair
    reader = Reader(two, "reader", thread=two.thread(), overflow="block")
    task = one.register("task", thread=one.here())
    one.wait_for("reader")

    for number in range(60):
        if number % 3:
            task.command("reader", b"%d" % number)
        else:
            with traced.tracer.start_as_current_span("root"):
                task.command("reader", b"%d" % number)
    reader.has(60)

    assert reader.got == [b"%d" % number for number in range(60)]
    assert len(traced.consumers(20)) == 20


@clause("BUS-MSG-21")
def test_a_process_that_does_not_trace_gets_the_same_payload(traced: Traced) -> None:
    with socket_bus("near") as bus, Far("far", role="slave") as far:
        far.started()
        far("counter('reader')")
        far("made['reader'].task.subscribe('clock', made['reader']._read) and None")
        clock = bus.register("clock", thread=bus.here())
        assert clock.wait_for_subscribers()

        with traced.tracer.start_as_current_span("root"):
            assert bus.call("reader", {"x": [1, "y"]}) == {"x": (1, "y")}
            clock.notify({"tick": 1})

        until(lambda: len(far("made['reader'].got")) == 2, "both have arrived")
        assert far("made['reader'].got") == [{"x": [1, "y"]}, {"tick": 1}]
    assert traced.spans(SpanKind.CONSUMER) == []


@clause("BUS-MSG-21")
@pytest.mark.parametrize(
    "payload", [array.array("d", [1.5]), bytes(128 << 10), {"long": "x" * (128 << 10)}]
)
def test_a_long_payload_and_an_array_travel_without_the_context(
    pair: tuple[Bus, Bus], traced: Traced, payload: Any
) -> None:
    one, two = pair
    reader = Reader(two, "reader", thread=two.thread())

    with traced.tracer.start_as_current_span("root"):
        one.call("reader", payload)

    [got] = reader.got
    assert got == payload
    assert traced.spans(SpanKind.CONSUMER) == []
    assert len(traced.spans(SpanKind.PRODUCER)) == 1


def test_a_callback_that_raises_fails_its_span(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    one, two = pair
    two.register("bad", on_command=lambda m: 1 / m.payload, thread=two.thread())

    with (
        traced.tracer.start_as_current_span("root"),
        pytest.raises(Exception, match="zero"),
    ):
        one.call("bad", 0)
    [span] = traced.consumers(1)

    [sent] = traced.spans(SpanKind.PRODUCER)
    assert span.status.status_code is sent.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "callback"


@clause("BUS-MSG-21")
def test_a_command_that_waits_for_its_name_keeps_its_context(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    one, two = pair
    task = one.register("task", thread=one.here())

    with traced.tracer.start_as_current_span("root"):
        task.command("late", {"x": 1})
    reader = Reader(two, "late", thread=two.thread())
    reader.has(1)

    assert reader.got == [{"x": 1}]
    assert len(traced.consumers(1)) == 1


def test_a_command_that_expires_before_its_turn_has_no_span_of_a_callback(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    one, _ = pair
    got: list[Any] = []
    one.register("late", on_command=lambda m: got.append(m.payload), thread=one.here())
    task = one.register("task", thread=one.here())

    with traced.tracer.start_as_current_span("root"):
        task.command("late", {"x": 1}, on_response=got.append, timeout=0.0)
        task.command("late", {"x": 2})
    settle(one)

    assert {"x": 2} in got
    assert {"x": 1} not in got
    assert len(traced.spans(SpanKind.CONSUMER)) == 1


def test_a_command_that_expires_as_its_callback_begins_has_the_span(
    pair: tuple[Bus, Bus], traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver decides by the time at which it has chosen the message."""
    one, _ = pair
    got: list[Any] = []
    one.register("late", on_command=lambda m: got.append(m.payload), thread=one.here())
    task = one.register("task", thread=one.here())
    later = SimpleNamespace(monotonic=lambda: math.inf)
    monkeypatch.setattr("bus.features.otel.tracing._sync", later)

    with traced.tracer.start_as_current_span("root"):
        task.command("late", {"x": 1}, on_response=got.append, timeout=60.0)
    settle(one)

    assert got[0] == {"x": 1}
    assert len(traced.spans(SpanKind.CONSUMER)) == 1


def test_a_command_that_a_task_receives_by_itself_has_no_span(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    one, _ = pair
    task = one.register("task", thread=one.here())

    with traced.tracer.start_as_current_span("root"):
        task.command("task", {"x": 1})

    assert task.receive(0).payload == {"x": 1}
    assert traced.spans(SpanKind.CONSUMER) == []


def test_a_message_that_is_not_delivered_is_returned_as_it_was_sent(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    one, _ = pair
    back: list[Undelivered] = []
    task = one.register("task", thread=one.here(), on_undelivered=back.append)
    full = one.register("full", capacity=1, overflow="drop-oldest", thread=one.thread())

    with traced.tracer.start_as_current_span("root"):
        task.command("full", {"x": 1})
        task.command("full", {"x": 2})
    settle(one)

    assert [each.payload for each in back] == [{"x": 1}]
    full.deregister()


def test_uninstrument_restores_every_slot() -> None:
    before = Task.command, Task.notify, Receiver.handle

    instrument()
    instrument()
    replaced = Task.command, Task.notify, Receiver.handle
    uninstrument()

    assert all(one is not other for one, other in zip(before, replaced, strict=True))
    assert (Task.command, Task.notify, Receiver.handle) == before
