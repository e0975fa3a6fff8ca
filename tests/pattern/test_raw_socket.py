"""`RawBusSocket`: the tag of a message, and the peers that it is sent to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus.pattern import BusSocket, RawBusSocket, RawMessage
from specs.clauses import clause
from tests.pattern.inproc_pairs import connect
from tests.pattern.nodes import LIMIT_S, all_of, attach, fresh_url

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


@clause("BP-7", "BP-9", "BP-10")
def test_a_raw_socket_tags_a_message_with_the_pipe_that_it_came_by(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    raw = stack.enter_context(RawBusSocket(native=native))
    first, second = (stack.enter_context(BusSocket(native=native)) for _ in range(2))
    attach(raw, (first, second), fresh_url(transport, tmp_path))
    first.send(b"one")
    one = raw.receive(LIMIT_S)
    second.send(b"two")
    two = raw.receive(LIMIT_S)

    assert (one.body, two.body) == (b"one", b"two")
    assert {one.pipe, two.pipe} == {peer.pipe for peer in raw.stats.peers}
    assert 0 not in {one.pipe, two.pipe}
    assert one.header == one.pipe.to_bytes(4)
    own = {peer.pipe for each in (first, second) for peer in each.stats.peers}
    assert not own & {one.pipe, two.pipe}


@clause("BP-8")
def test_a_raw_socket_sends_to_all_but_the_pipe_of_the_tag(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    raw = stack.enter_context(RawBusSocket(native=native))
    nodes = [stack.enter_context(BusSocket(native=native)) for _ in range(3)]
    attach(raw, nodes, fresh_url(transport, tmp_path))
    nodes[0].send(b"to others")
    raw.send(raw.receive(LIMIT_S))
    raw.send(b"to all")
    raw.send(RawMessage(b"to all, too"))

    assert all_of(nodes[0], 2) == [b"to all", b"to all, too"]
    for each in nodes[1:]:
        assert all_of(each, 3) == [b"to others", b"to all", b"to all, too"]


def test_a_raw_message_of_other_types_is_refused() -> None:
    wrong: list[dict[str, Any]] = [
        {"body": "text"},
        {"body": b"", "origin": -1},
        {"body": b"", "origin": 1 << 64},
        {"body": b"", "origin": 1, "number": 0},
        {"body": b"", "origin": 1, "number": 1 << 64},
    ]
    with RawBusSocket() as node, BusSocket() as peer:
        connect(node, peer)
        for each in wrong:
            with pytest.raises((TypeError, ValueError)):
                node.send(RawMessage(**each))
        assert node.drain(0)
        assert node.stats.sent == 0


@pytest.mark.parametrize(
    ("pipe", "kind", "text"),
    [
        (-1, ValueError, "or 0 for none, got pipe -1"),
        (1 << 31, ValueError, "or 0 for none, got pipe 2147483648"),
        ("1", TypeError, "pipe must be an int, got str"),
    ],
)
def test_a_tag_that_no_connection_has_is_refused(
    pipe: Any, kind: type[Exception], text: str
) -> None:
    with RawBusSocket() as socket, pytest.raises(kind, match=text):
        socket.send(RawMessage(b"x", pipe))


@pytest.mark.parametrize("native", [0, 1, None, "no"])
def test_native_must_be_a_bool(native: Any) -> None:
    with pytest.raises(TypeError, match="native must be a bool, got"):
        RawBusSocket(native=native)
