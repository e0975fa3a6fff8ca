"""The wire: runs of messages in a batch, their bodies, and malformed batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus.kernel import wire
from bus.kernel.wire import MESSAGES_MAX, decode, encode
from bus.model.message import Kind
from specs.clauses import clause
from tests.kernel.golden import VECTORS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _run(*, flags: int = 0, bodies: Sequence[bytes] = (b"",)) -> wire.Run:
    return wire.Run(1, 2, Kind.COMMAND, flags, 3, wire.NO_DEADLINE, 0, bodies)


def _batch(**changes: Any) -> wire.Batch:
    fields: dict[str, Any] = {
        "epoch": 1,
        "incarnation": 2,
        "floor": 5,
        "first": 5,
        "runs": [_run()],
    }
    return wire.Batch(**fields | changes)


def _decoded(data: bytes | memoryview) -> wire.Batch:
    batch = decode(data)
    assert isinstance(batch, wire.Batch)
    return batch


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("whole", [bytes, memoryview])
def test_a_body_is_where_it_lay_in_the_frame(
    whole: Callable[[bytes], bytes | memoryview],
) -> None:
    data = VECTORS["MSG two runs"]

    bodies = [body for run in _decoded(whole(data)).runs for body in run.bodies]

    assert len(bodies) == 4
    assert all(isinstance(body, memoryview) and body.obj is data for body in bodies)
    assert b"".join(bodies) == data[-10:]


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("whole", [bytes, memoryview])
def test_a_payload_of_bytes_keeps_no_frame_alive(
    whole: Callable[[bytes], bytes | memoryview],
) -> None:
    (run,) = _decoded(whole(VECTORS["MSG raw"])).runs

    assert run.flags == wire.RAW | wire.WANTS_REPLY
    assert [type(body) for body in run.bodies] == [bytes] * 3
    assert run.bodies == [b"\xc1 as it stands", b"", b"\x00"]


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("count", [1, 64, 65, MESSAGES_MAX])
@pytest.mark.parametrize("each", [1, 3, MESSAGES_MAX])
@pytest.mark.parametrize("whole", [bytes, memoryview])
def test_any_number_of_runs_is_decoded_unchanged(
    count: int, each: int, whole: Callable[[bytes], bytes | memoryview]
) -> None:
    """The frame keeps parts of some bodies, and none of others."""
    bodies = [str(number).encode() for number in range(count)]
    runs = [
        _run(flags=wire.RAW * (at % 2), bodies=bodies[at : at + each])
        for at in range(0, count, each)
    ]
    batch = _batch(runs=runs)

    found = _decoded(whole(encode(batch)))

    assert (found.count, len(found.runs)) == (count, len(runs))
    assert [*found.runs] == runs
    assert found == batch
    assert batch.count == count


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("length", [0, 1, 64])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("whole", [bytes, memoryview])
def test_payloads_of_one_length_are_decoded_unchanged(
    count: int, length: int, last: int, whole: Callable[[bytes], bytes | memoryview]
) -> None:
    """Any number of them: some are extracted together; also if one is longer."""
    bodies = [bytes([number]) * length for number in range(count)]
    bodies[-1] += b"x" * last
    runs = [_run(flags=wire.RAW, bodies=bodies)] * 2

    found = _decoded(whole(encode(_batch(runs=runs)))).runs

    assert [*found] == runs
    assert {type(body) for run in found for body in run.bodies} == {bytes}


def test_runs_of_a_long_frame_are_a_sequence_and_made_once() -> None:
    runs = [_run(bodies=[b"a"] * 100), _run(bodies=[b"b"])]

    found = _decoded(encode(_batch(runs=runs))).runs

    assert len(found) == 2
    assert found[1] is found[-1] is [*found][1]
    assert found[1] == runs[1]
    for same in (runs, (*runs,), found[:]):
        assert found == same
    assert found != [runs[0]]
    assert found != object()
    assert runs[0] in found
    with pytest.raises(IndexError):
        _ = found[2]
    with pytest.raises(TypeError):
        hash(found)


@clause("AMO-15", "BUS-WIRE-1")
@pytest.mark.parametrize("count", [1, 2, MESSAGES_MAX])
def test_a_batch_may_end_with_the_last_number_of_a_stream(count: int) -> None:
    run = _run(bodies=[b""] * count)
    batch = _batch(floor=2**64 - count, first=2**64 - count, runs=[run])

    assert _decoded(encode(batch)) == batch


def test_a_floor_alone_has_no_runs() -> None:
    batch = _decoded(encode(_batch(runs=[])))

    assert (batch.count, [*batch.runs]) == (0, [])


@pytest.mark.parametrize(
    ("fact", "changes"),
    [
        ("<= 4096 messages", {"runs": [_run(bodies=[b""] * 4097)]}),
        ("<= 4096 messages", {"runs": [_run()] * 2**16}),
        ("<= 4096 messages", {"runs": [_run(bodies=[b""] * 2**16)]}),
        ("no run without", {"runs": [_run(bodies=[])]}),
        ("no run without", {"runs": [_run(), _run(bodies=[]), _run()]}),
        ("floor <= first", {"floor": 6}),
        ("1 <= floor", {"floor": 0}),
        ("64 bits", {"first": 2**64 - 1, "runs": [_run()] * 2}),
        ("64 bits", {"first": 2**64 - 1, "runs": [_run(bodies=[b""] * 2)]}),
        ("64 bits", {"first": 2**64, "runs": []}),
        ("cannot be packed", {"epoch": 2**64}),
        ("cannot be packed", {"first": 2**40}),
        ("cannot be packed", {"runs": [_run(flags=256)]}),
    ],
)
def test_an_invalid_batch_cannot_be_encoded(fact: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=fact):
        encode(_batch(**changes))
