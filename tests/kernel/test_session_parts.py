"""The traffic to another process when messages share runs: frame by frame, and again.

After the loss of a link, each message not known to have arrived is sent again with its
old number, and control frames in between keep their places.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.kernel.peer.session import Session
from bus.kernel.streams.incoming_stream import Acknowledgement, MissingTable
from bus.kernel.wire import (
    MESSAGES_MAX,
    NO_DEADLINE,
    Ack,
    Batch,
    Frame,
    Run,
    Unrelay,
    decode,
    encode,
)
from bus.model.config import BusConfig
from specs.clauses import clause
from tests.kernel.sessions import link_up, new_alarm, outbound_run
from tests.kit.constants import set_constants

NOW = 100.0
STREAM_WINDOW = 20_000
CONFIG = BusConfig()
FRAME_BYTES: Final = 512 * 2**10
SOURCE: Any = "d"


def opened() -> Session:
    set_constants(STREAM_WINDOW=STREAM_WINDOW)
    one = Session(
        5, own=1, incarnation=2, nonce=0, config=CONFIG, ack_alarm=new_alarm()
    )
    link_up(one, known=5)
    return one


def bodies_of(count: int, start: int = 0) -> list[bytes]:
    return [number.to_bytes(4) for number in range(start, start + count)]


@attrs.frozen
class Said:
    """One message or control frame of a link, with its sender and its addressee."""

    number: int  # of a message; 0 for a control frame
    what: bytes | int
    ends: tuple[int, int] = (0, 0)


def said(frames: list[Frame]) -> list[Said]:
    """Decode frames as the peer would, and split them."""
    words = []
    for each in frames:
        frame = decode(encode(each))
        if isinstance(frame, Unrelay):
            words.append(Said(0, frame.relay))
        elif isinstance(frame, Batch):
            number = frame.first
            for run in frame.runs:
                for body in run.bodies:
                    words.append(Said(number, bytes(body), (run.source, run.to)))
                    number += 1
    return words


plans = st.lists(
    st.one_of(
        # Several messages of sender 1 or 2 for relay 3 or 4; or a control frame.
        st.tuples(st.integers(1, 2), st.integers(3, 4), st.integers(1, 6)),
        st.none(),
    ),
    max_size=8,
)


@clause("BUS-RELAY-10", "AMO-23", "BUS-MSG-15")
@given(plan=plans, data=st.data())
def test_a_new_link_carries_again_the_messages_that_did_not_come(
    plan: list[tuple[int, int, int] | None], data: st.DataObject
) -> None:
    """No other messages of their runs; twice, if that link is lost as well."""
    one, expected = opened(), list[Said]()
    for at, step in enumerate(plan, 1):
        if step is None:
            one.send_control(Unrelay(relay=at, extracted=0))
            expected.append(Said(0, at))
            continue
        sender, relay, count = step
        first = one.outgoing.next
        bodies = bodies_of(count, first)
        assert one.send(relay, [outbound_run(bodies, relay=sender)]) == [first]
        expected += [
            Said(number, body, (sender, relay))
            for number, body in enumerate(bodies, first)
        ]
    assert said(one.flush(NOW)) == expected

    for link in (2, 3):
        arrived = data.draw(st.sets(st.integers(1, max(1, one.outgoing.next - 1))))
        next_ = min(max(arrived) + 1 if arrived else 1, one.outgoing.next)
        missing = MissingTable()
        for number in range(1, next_):
            if number not in arrived:
                missing.append(number, number + 1)
        one.on_ack(
            Ack.of(
                Acknowledgement(next_, tuple(missing)),
                epoch=5,
                incarnation=2,
                extracted=(),
                controls=0,
            )
        )
        expected = [each for each in expected if each.number not in arrived]
        one.detach()
        link_up(one, link, known=5)
        frames = one.flush(NOW)

        assert said(frames) == expected
        floor = min([each.number for each in expected if each.number], default=None)
        floors = {frame.floor for frame in frames if isinstance(frame, Batch)}
        assert floors <= {floor}


@clause("BUS-CHAN-6")
def test_outbound_runs_that_wait_together_are_one_frame_of_a_run_each() -> None:
    """Their numbers are consecutive; a control frame in between ends the frame."""
    one = opened()
    numbers = one.send(
        3, [outbound_run(bodies_of(2)), outbound_run(bodies_of(3), relay=2)]
    )
    numbers += one.send(4, [outbound_run(bodies_of(1))])
    one.send_control(Unrelay(relay=9, extracted=0))
    numbers += one.send(3, [outbound_run(bodies_of(2))])

    first, farewell, second = one.flush(NOW)

    assert numbers == [1, 3, 6, 7]
    assert isinstance(first, Batch)
    assert isinstance(farewell, Unrelay)
    assert isinstance(second, Batch)
    assert (first.first, second.first) == (1, 7)
    assert [(each.source, each.to, len(each.bodies)) for each in first.runs] == [
        (1, 3, 2),
        (2, 3, 3),
        (1, 4, 1),
    ]


@clause("BUS-CHAN-6", "BUS-WIRE-2")
@pytest.mark.parametrize(
    ("count", "length", "frames_max"),
    [
        (MESSAGES_MAX, 4, 1),
        (MESSAGES_MAX + 1, 4, 2),
        (3 * MESSAGES_MAX + 5, 4, 4),
        (512, 1024, 1),
        (513, 1024, 2),
        (1024, 1024, 2),
        (4000, 1024, 8),
        (3, FRAME_BYTES + 1, 3),
    ],
)
def test_a_frame_holds_so_much_and_no_more(
    count: int, length: int, frames_max: int
) -> None:
    """In messages, and in bytes except for the last; all arrive, in order."""
    one = opened()
    bodies = [number.to_bytes(4).ljust(length) for number in range(count)]
    one.send(3, [outbound_run(bodies)])

    frames = one.flush(NOW)

    assert len(frames) <= frames_max
    number = 1
    for frame in frames:
        assert isinstance(frame, Batch)
        assert (frame.first, frame.count <= MESSAGES_MAX) == (number, True)
        lengths = [len(body) for run in frame.runs for body in run.bodies]
        assert sum(lengths[:-1]) <= FRAME_BYTES
        assert len(frame.runs) == 1  # one head for all of its messages
        number += frame.count
    assert [each.what for each in said(frames)] == bodies


@clause("BUS-CHAN-6")
def test_outbound_runs_that_are_too_much_together_are_several_frames() -> None:
    one = opened()
    half = MESSAGES_MAX // 2 + 1
    for start in range(3):
        one.send(3, [outbound_run(bodies_of(half, start * half))])

    frames = one.flush(NOW)

    assert [each.count for each in frames if isinstance(each, Batch)] == [half] * 3
    assert [each.what for each in said(frames)] == bodies_of(3 * half)


def test_time_that_is_left_is_the_same_for_all_of_an_outbound_run() -> None:
    """Computed when the frame is sent, and again on a new link."""
    one = opened()
    one.send(
        3, [outbound_run(bodies_of(3), deadline=NOW + 2), outbound_run(bodies_of(1))]
    )
    one.flush(NOW)
    one.detach()
    link_up(one, 2, known=5, last=1)

    (batch,) = one.flush(NOW + 0.5)

    assert isinstance(batch, Batch)
    left = [(each.milliseconds_left, len(each.bodies)) for each in batch.runs]
    assert left == [(1500, 2), (NO_DEADLINE, 1)]
    assert all(isinstance(each, Run) for each in batch.runs)
