"""Messages that share a run are removed from it one by one, or in parts."""

from __future__ import annotations

from typing import Any

import pytest

from bus.kernel.tasks.runs import OutboundRun, pack_payload
from bus.kernel.wire import RAW
from bus.model.message import Incoming, Kind
from bus.model.payload import decode
from specs.clauses import clause
from tests.kernel.sessions import outbound_run

SOURCE: Any = "d"
BODIES = [b"a", b"", b"ccc"]


def run_of(bodies: list[bytes], **of: Any) -> OutboundRun:
    about: dict[str, Any] = {"relay": 3, "turn": 1, "deadline": 7.5, **of}
    return outbound_run(bodies, **about)


@clause("BUS-MSG-15", "BUS-RELAY-9")
@pytest.mark.parametrize("start", range(3))
@pytest.mark.parametrize("stop", [1, 2, 3, None])
def test_a_part_has_its_own_bodies_and_size_and_else_all_of_the_whole(
    start: int, stop: int | None
) -> None:
    whole = run_of(BODIES)

    part = whole.part(start, stop)

    assert part.bodies == BODIES[start:stop]
    assert part.size == sum(map(len, BODIES[start:stop]))
    for name in OutboundRun.__struct_fields__:
        if name not in {"bodies", "size"}:
            assert getattr(part, name) is getattr(whole, name)
    assert (part is whole) == (part.bodies == BODIES)


@clause("BUS-MSG-15", "BUS-MSG-17")
def test_commands_come_out_in_order_and_as_they_were_given() -> None:
    """With the same bytes object each, and the fields that all of them share."""
    commands = run_of(BODIES).part(1).commands()

    assert len(commands) == 2
    for command, body in zip(commands, BODIES[1:], strict=True):
        assert command.payload is body
        assert (command.kind, command._source, command._name) == (
            Kind.COMMAND,
            SOURCE,
            "f",
        )
        assert (command._id, command._deadline) == (0, 7.5)
        assert not command.wants_reply


def test_a_command_that_was_posted_by_itself_comes_out_as_it_is() -> None:
    message = Incoming(Kind.COMMAND, b"a", _source=SOURCE)

    assert run_of([b"a"], message=message, name=None).commands() == [message]


def test_only_commands_of_an_outbound_run_are_sent_elsewhere() -> None:
    """An answer or a notification is never sent elsewhere."""
    for kind in Kind:
        one = OutboundRun(kind, SOURCE, 3, 0, RAW, 1, None, (b"",), 0)
        assert one.commands() == []
        assert one.is_command == (kind is Kind.COMMAND)


@clause("BUS-MSG-16")
def test_bytes_go_as_they_stand_and_all_else_is_encoded() -> None:
    body = b"\xc1"
    assert pack_payload(body) == (RAW, body)
    assert pack_payload(body)[1] is body
    for payload in (None, True, 7, "x", (1, b"y"), {"a": 1}):
        flags, encoded = pack_payload(payload)
        assert (flags, decode(encoded)) == (0, payload)
