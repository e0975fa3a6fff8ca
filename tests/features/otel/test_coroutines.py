"""Trace contexts travel to and from coroutines, as they do between threads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from bus import BusFullError, RemoteError, aio
from specs.clauses import clause
from tests.aio.support import run
from tests.features.otel.test_tracing import PAYLOADS, Traced, pair, parent_of, traced

if TYPE_CHECKING:
    from bus import Bus, Incoming

__all__ = ["pair", "traced"]


def span_id() -> int:
    return get_current_span().get_span_context().span_id


@clause("BUS-MSG-21")
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_a_handler_runs_in_the_trace_of_the_coroutine_that_calls(
    pair: tuple[Bus, Bus], traced: Traced, far: bool
) -> None:
    near, there = (aio.wrap(pair[each]) for each in (0, far))
    got: list[int] = []

    async def main() -> None:
        async def echo(message: Incoming) -> Any:
            await asyncio.sleep(0)
            got.append(span_id())
            return message.payload

        await there.register("echo", echo)
        with traced.tracer.start_as_current_span("root"):
            assert [await near.call("echo", each) for each in PAYLOADS] == [*PAYLOADS]
            await near.command("echo")
        assert await near.call("echo", 1) == 1  # in no span

    run(main())

    count = len(PAYLOADS) + 1
    consumers, producers = traced.consumers(count), traced.spans(SpanKind.PRODUCER)
    names = [each.name for each in producers]
    assert names == ["call echo"] * (count - 1) + ["command echo"]
    assert [parent_of(each) for each in consumers] == [
        each.context.span_id for each in producers if each.context is not None
    ]
    assert got == [
        *(each.context.span_id for each in consumers if each.context is not None),
        0,
    ]


@clause("BUS-MSG-21")
def test_several_handlers_at_once_have_a_span_each_and_one_fails(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    async def main() -> None:
        face, go = aio.wrap(pair[0]), asyncio.Event()

        async def slow(message: Incoming) -> int:
            if message.payload:
                await go.wait()
                return span_id()
            go.set()
            raise ValueError("refused")

        await face.register("slow", slow, concurrency=2)
        with traced.tracer.start_as_current_span("root"):
            first = asyncio.create_task(face.call("slow", 1))
            await asyncio.sleep(0)
            with pytest.raises(RemoteError, match="refused"):
                await face.call("slow", 0)
            spans.append(await first)

    spans: list[int] = []
    run(main())

    failed, done = traced.consumers(2)
    assert done.context is not None
    assert [done.context.span_id] == spans
    assert failed.status.status_code is StatusCode.ERROR
    assert done.status.status_code is StatusCode.UNSET


@clause("BUS-MSG-21")
def test_a_receive_returns_the_payload_alone(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    async def main() -> None:
        near, far = map(aio.wrap, pair)
        box = await far.register("box")
        with traced.tracer.start_as_current_span("root"):
            await near.command("box", {"x": 1})

        assert (await box.receive()).payload == {"x": 1}

    run(main())
    assert not traced.spans(SpanKind.CONSUMER)


@clause("BUS-MSG-21")
def test_a_command_that_waits_for_room_has_one_span(
    pair: tuple[Bus, Bus], traced: Traced
) -> None:
    async def main() -> None:
        face = aio.wrap(pair[0])
        box = await face.register("box", overflow="block", capacity=1)
        with traced.tracer.start_as_current_span("root"):
            await face.command("box", 1)
            sending = asyncio.create_task(face.command("box", 2))
            await asyncio.sleep(0)
            with pytest.raises(BusFullError):  # the other one waits
                box.task.command("box", 0)
            assert (await box.receive()).payload == 1
            await sending

    run(main())
    names = [each.name for each in traced.spans(SpanKind.PRODUCER)]
    assert names == ["command box"] * 3
