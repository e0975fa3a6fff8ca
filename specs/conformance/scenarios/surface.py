"""QB-PY: the Python interface, as far as calls on it show it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from specs.clauses import clause
from specs.conformance.expectation import expect
from specs.conformance.scenario import Style, scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage


@scenario("queue.__iter__")
@clause("QB-PY-2")
def iteration_ends_with_the_goodbye(stage: Stage) -> None:
    """for message in queue: every message, then the end, without an exception."""
    left, right = stage.pair(capacity=3)
    for message in (b"1", b"", b"3"):
        left.send(message)
    left.disconnect()

    expect(stage.at_once(list, right), [b"1", b"", b"3"], "messages iterated over")


@scenario("queue.__iter__", "queue.disconnect(error)")
@clause("QB-PY-2")
def iteration_raises_an_abnormal_goodbye(stage: Stage) -> None:
    """for message in queue: an abnormal disconnect is raised, after the messages."""
    left, right = stage.pair()
    left.send(b"1")
    left.disconnect(error=RuntimeError("broken"))
    seen: list[bytes] = []

    stage.raises(None, stage.spawn(seen.extend, right))

    expect(seen, [b"1"], "messages iterated over before the error")


@scenario("queue.__iter__", style=Style.RACE)
@clause("QB-PY-2")
def iterators_share_the_messages(stage: Stage) -> None:
    """Two threads iterate over one end: each message goes to one of them."""
    left, right = stage.pair(capacity=1)
    iterators = [stage.spawn(list, right) for _ in range(2)]

    for message in (b"1", b"2"):
        left.send(message)
    left.disconnect()

    seen = [*chain(*stage.values(*iterators))]
    expect(sorted(seen), [b"1", b"2"], "messages seen by the two together")


@scenario("queue.close", "queue.closed")
@clause("QB-PY-3")
def close_is_disconnect(stage: Stage) -> None:
    """close() does what disconnect() does; closed says what disconnected() says."""
    left, right = stage.pair()
    left.send(b"u")

    def same(what: str) -> None:
        for end in (left, right):
            expect(end.closed, end.disconnected(), f"closed, {what}")

    same("both connected")
    stage.at_once(left.close)
    expect(left.disconnected(), True, "disconnected() after close()")
    same("one closed, the other half")
    right.receive()
    same("both disconnected")
    stage.at_once(right.close)
    stage.refuses(None, right.receive)


@scenario(
    "queue.local_name",
    "queue.remote_name",
    "queue.port",
    "queue.capacity",
    "queue.pending",
)
@clause("QB-PY-5")
def ends_mirror_each_other(stage: Stage) -> None:
    """Names, port and capacity agree; pending counts what is unread at that end."""
    left, right = stage.pair(7)

    expect((left.local_name, left.remote_name), ("b", "a"), "names, acceptor's end")
    expect((right.local_name, right.remote_name), ("a", "b"), "names, other end")
    expect((left.port, right.port), (7, 7), "port")
    expect(left.capacity, right.capacity, "capacity, acceptor's against the other's")
    left.send(b"1")
    expect((left.pending, right.pending), (0, 1), "pending after one send")
    for name in ("local_name", "remote_name", "port", "capacity", "pending"):
        stage.refuses(AttributeError, setattr, left, name, 1)


@scenario("broker.accept_iter", "broker.close")
@clause("QB-PY-9")
def accept_iter_ends_with_the_broker(stage: Stage) -> None:
    """accept_iter gives connection after connection and ends at close, quietly."""
    b, a = stage.brokers("b", "a")
    accepted: list[Any] = []
    server = stage.spawn(accepted.extend, b.accept_iter(1))

    rights = [stage.value(stage.spawn(a.connect, "b", 1)) for _ in range(2)]
    stage.waits(server)
    b.close()

    stage.value(server)
    for left, right in zip(accepted, rights, strict=True):
        stage.talk(left, right)
        left.disconnect()


@scenario("queue.send_nowait", "queue.receive_nowait")
@clause("QB-PY-10")
def nowait_is_a_timeout_of_zero(stage: Stage) -> None:
    """The nowait forms do what can be done at once and else raise the timeout error."""
    left, right = stage.pair(capacity=1)
    late = stage.error("timeout_error")

    stage.refuses(late, right.receive_nowait)
    expect(stage.at_once(left.send_nowait, b"m"), None, "send_nowait() returned")
    expect(stage.at_once(right.receive_nowait), b"m", "received without waiting")
    left.disconnect()
    stage.refuses(None, right.receive_nowait)
    stage.refuses(None, right.send_nowait, b"m")
