"""QB-ERR: arguments, and the state after a failed call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage

RANGES = ("queue.send(offset)", "queue.send(length)")


@scenario("queue.receive(timeout)")
@clause("QB-ERR-2")
def a_goodbye_is_no_timeout(stage: Stage) -> None:
    """What a disconnected end raises is no timeout, and a timeout no disconnect."""
    left, right = stage.pair()
    expired = stage.spawn(left.receive, timeout=0.1)
    stage.raises(stage.error("timeout_error"), expired)
    right.disconnect()
    refused = stage.spawn(left.receive)
    stage.raises(None, refused)

    require(
        not isinstance(expired.error, stage.disconnected_error),
        f"{expired.told()}, which counts as a disconnect",
    )
    require(
        not isinstance(refused.error, stage.error("timeout_error")),
        f"{refused.told()}, which counts as a timeout",
    )


@scenario(*RANGES)
@clause("QB-ERR-3")
def a_range_must_lie_within_the_data(stage: Stage) -> None:
    """Every offset and length around the edges: sent if inside, else a ValueError."""
    left, right = stage.pair()
    data = b"abc"
    edges = range(-2, len(data) + 3)
    for offset in edges:
        for length in edges:
            if offset >= 0 <= length and offset + length <= len(data):
                left.send(data, offset=offset, length=length)
                wanted = data[offset : offset + length]
                expect(right.receive(), wanted, f"bytes {offset} + {length} of 3")
            else:
                _refused(ValueError, left, data, offset, length)


@scenario(*RANGES)
@clause("QB-ERR-4")
def a_range_is_made_of_integers(stage: Stage) -> None:
    """An object with __index__ is a number here; a bool, a float and a str are not."""
    left, right = stage.pair()
    for wrong in (True, 1.0, "1", b"1"):
        _refused(TypeError, left, b"abc", wrong, 1)
        _refused(TypeError, left, b"abc", 1, wrong)

    left.send(b"abc", offset=_Two(), length=1)
    expect(right.receive(), b"c", "received from offset two")


class _Two:
    def __index__(self) -> int:
        return 2


def _refused(kind: type[Exception], end: Any, data: bytes, *bounds: Any) -> None:
    offset, length = bounds
    try:
        end.send(data, offset=offset, length=length)
    except kind:
        return
    raise AssertionError(
        f"send({data!r}, {offset!r}, {length!r}) returned, it must raise "
        f"{kind.__name__}"
    )


@scenario("broker.accept(capacity)", *RANGES)
@clause("QB-ERR-5")
def a_failed_send_changes_nothing(stage: Stage) -> None:
    """After many refused sends everything that fitted before still fits."""
    left, right = stage.pair(capacity=2)
    for _ in range(5):
        stage.refuses(TypeError, left.send, "text")
        stage.refuses(ValueError, left.send, b"abc", offset=4)

    for message in (b"1", b"2"):
        stage.at_once(left.send, message)
    extra = stage.spawn(left.send, b"3")
    stage.waits(extra)
    expect([right.receive() for _ in range(3)], [b"1", b"2", b"3"], "received")
    stage.value(extra)


@scenario()
@clause("QB-ERR-5")
def a_failed_accept_leaves_the_port_alone(stage: Stage) -> None:
    """A refused port number changes nothing for those who wait on good ones."""
    b, a = stage.brokers("b", "a")
    waiting = stage.spawn(b.accept, 1)
    stage.waits(waiting)

    for port in ("1", -1):
        kind = TypeError if isinstance(port, str) else ValueError
        stage.refuses(kind, b.accept, port)
        stage.refuses(kind, a.connect, "b", port)

    stage.waits(waiting)
    right = stage.soon(a.connect, "b", 1)
    stage.talk(stage.value(waiting), right)
