"""The wire: any frame comes back as it was; any bytes are a frame or `WireError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.errors import WireError
from bus.features.memory.frames import (
    LEASES_MAX,
    CloseSlab,
    OfferSlab,
    Release,
    SlabAnswer,
)
from bus.features.subscriptions.frames import Subscribe, Unexport, Unsubscribe
from bus.kernel import wire
from bus.kernel.streams.incoming_stream import Acknowledgement, IncomingStream
from bus.kernel.streams.outgoing_stream import OutgoingStream
from bus.kernel.wire import FrameType, decode, encode
from bus.kernel.wire.frames import EXTRACTED_MAX, MISSING_MAX
from bus.model.message import Kind
from bus.model.registration import RegistrationId, Visibility
from specs.clauses import clause
from tests.depth import among
from tests.kernel.golden import VECTORS

if TYPE_CHECKING:
    from collections.abc import Callable

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
NUMBER = st.integers(1, 2**64 - 1)
MACHINE = st.text("aZ0", min_size=1, max_size=60).map("{}.b-".format)
SEGMENT = st.text("aZ0_", min_size=1, max_size=30).map("{}.b-".format)
MODULE = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join)
BUS = st.text("aZ0_", min_size=1, max_size=30).map("{}-".format)
TEXT = st.text(max_size=256)
ADDRESSES = st.lists(st.text(max_size=128), max_size=8).map(tuple)
VERSIONS = st.tuples(st.integers(0, 9), st.integers(9, 2**16 - 1))
REGISTRATION = st.builds(RegistrationId, MACHINE, MODULE, NUMBER)
NEW_ADDRESS = st.builds("ism://{}/{}".format, MACHINE, MODULE)
REQUEST = st.builds(wire.RequestId, machine=MACHINE, process=MODULE, number=NUMBER)
OVERFLOW = st.sampled_from(
    ["block", "drop-oldest", "drop-newest", "error", "disconnect"]
)
IDENTITY = st.builds(
    wire.Identity,
    bus=BUS,
    machine=MACHINE,
    machine_id=MACHINE,
    process=MODULE,
    process_id=U64,
    incarnation=U64,
    role=st.sampled_from(wire.Role),
)
TASK = st.builds(
    wire.Characteristics,
    relay=U32,
    id=REGISTRATION,
    name=MODULE,
    visibility=st.sampled_from(Visibility),
    incarnation=U64,
    overflow=OVERFLOW,
)
RANGES = st.lists(st.integers(1, 2**64 - 1), unique=True, max_size=2 * MISSING_MAX).map(
    lambda ends: tuple(zip(*[iter(sorted(ends))] * 2, strict=False))
)

HOPS = st.integers(0, 3)
KIND = st.sampled_from(wire.LinkKind)
REASON = st.sampled_from(wire.Reason)


def runs(
    flags: st.SearchStrategy[int], bodies: st.SearchStrategy[list[bytes]], most: int
) -> st.SearchStrategy[list[wire.Run]]:
    """Return runs, at most ``most`` of them."""
    run = st.builds(
        wire.Run,
        to=U32,
        source=U32,
        kind=st.sampled_from(Kind),
        flags=flags,
        id=U64,
        milliseconds_left=U32,
        hop=st.integers(0, 255),
        bodies=bodies,
    )
    return st.lists(run, min_size=min(1, 4 - most), max_size=most)


RUNS = runs(
    st.sampled_from([*range(4), wire.RAW, wire.RAW | wire.WANTS_REPLY]),
    st.lists(st.binary(max_size=80), min_size=1, max_size=4),
    4,
) | runs(
    st.sampled_from([wire.LEASED, wire.LEASED | wire.RAW | wire.WANTS_REPLY]),
    st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=1),
    1,
)

OF_EACH_TYPE: dict[type[Any], st.SearchStrategy[Any]] = {
    wire.Hello: st.builds(
        wire.Hello,
        versions=VERSIONS,
        identity=IDENTITY,
        kind=KIND,
        message_bytes_max=U32,
    ),
    wire.Welcome: st.builds(
        wire.Welcome,
        version=st.integers(0, 2**16 - 1),
        identity=IDENTITY,
        message_bytes_max=U32,
    ),
    wire.Refused: st.builds(wire.Refused, reason=REASON, text=TEXT, versions=VERSIONS),
    wire.OpenStream: st.builds(
        wire.OpenStream,
        epoch=U64,
        nonce=U64,
        incarnation=U64,
        first=NUMBER,
        window=st.integers(1, 2**32 - 1),
        known=U64,
        last=U64,
        controls=U64,
    ),
    wire.Export: st.builds(
        wire.Export, id=REGISTRATION, name=MODULE, registered_ns=U64
    ),
    Unexport: st.builds(Unexport, id=REGISTRATION),
    wire.Search: st.builds(
        wire.Search,
        id=REQUEST,
        machine=MACHINE,
        name=MODULE,
        sender=TASK,
        hops=HOPS,
        milliseconds_left=st.none() | U32,
        anywhere=st.booleans(),
    ),
    wire.Cancel: st.builds(wire.Cancel, id=REQUEST),
    wire.AddRelay: st.builds(
        wire.AddRelay,
        task=TASK,
        search=st.none() | REQUEST,
        addresses=ADDRESSES,
    ),
    wire.Unrelay: st.builds(
        wire.Unrelay,
        relay=U32,
        extracted=U64,
        final=st.booleans(),
        more=st.booleans(),
    ),
    wire.Dismiss: st.builds(wire.Dismiss, relay=U32),
    wire.Dismissed: st.builds(wire.Dismissed, relay=U32),
    wire.Gap: st.builds(wire.Gap, relay=U32, count=U64),
    wire.Eliminate: st.builds(
        wire.Eliminate,
        id=REGISTRATION,
        name=MODULE,
        final=st.booleans(),
        moved_to=st.just("") | NEW_ADDRESS,
    ),
    Subscribe: st.builds(
        Subscribe,
        id=REQUEST,
        specification=MODULE | st.just("**") | MACHINE.map("ism://{}/a/*".format),
        subscriber=TASK,
        overflow=OVERFLOW,
        presence=st.booleans(),
        hops=HOPS,
    ),
    Unsubscribe: st.builds(Unsubscribe, id=REQUEST),
    wire.Ack: st.builds(
        wire.Ack,
        epoch=U64,
        incarnation=U64,
        last=st.just(2**64 - 1),
        missing=RANGES,
        extracted=st.lists(st.tuples(U32, NUMBER), max_size=9).map(tuple),
        controls=U64,
    ),
    OfferSlab: st.builds(
        OfferSlab, slab=U64, descriptor=U32, token=st.text(max_size=64)
    ),
    SlabAnswer: st.builds(SlabAnswer, slab=U64, mapped=st.booleans()),
    CloseSlab: st.builds(CloseSlab, slab=U64),
    Release: st.builds(
        Release,
        leases=st.lists(st.tuples(U64, U64), min_size=1, max_size=256).map(tuple),
    ),
    wire.ConnectOffer: st.builds(
        wire.ConnectOffer,
        machine=MACHINE,
        process=MODULE,
        incarnation=U64,
        addresses=ADDRESSES,
    ),
    wire.Error: st.builds(
        wire.Error,
        reason=REASON.filter(lambda each: each is not wire.Reason.MOVED),
        text=TEXT,
        id=st.none() | REGISTRATION,
        request=st.none() | REQUEST,
    )
    | st.builds(
        wire.Error,
        reason=st.just(wire.Reason.MOVED),
        text=NEW_ADDRESS,
        id=st.none() | REGISTRATION,
        request=st.none() | REQUEST,
    ),
    wire.Ping: st.builds(wire.Ping, number=U64),
    wire.Pong: st.builds(wire.Pong, number=U64),
    wire.Bye: st.builds(wire.Bye, reason=REASON, text=TEXT),
    wire.Batch: st.builds(
        lambda first, above_floor, **rest: wire.Batch(
            floor=max(1, first - above_floor), first=first, **rest
        ),
        first=st.integers(1, 2**64 - 16),
        above_floor=U32,
        epoch=U64,
        incarnation=U64,
        runs=RUNS,
        acknowledged=U64,
        extracted=U64,
    ),
}


def test_every_type_is_drawn() -> None:
    assert sorted(each.type for each in OF_EACH_TYPE) == sorted(FrameType)


@pytest.mark.deep
@clause("BUS-WIRE-1")
@pytest.mark.parametrize("kind", OF_EACH_TYPE, ids=lambda kind: kind.__name__)
def test_a_frame_comes_back_as_it_was(kind: type) -> None:
    @given(OF_EACH_TYPE[kind])
    def comes_back(frame: Any) -> None:
        data = encode(frame)

        decoded = decode(data)

        assert decoded is not None
        assert type(decoded) is kind
        assert decoded == frame
        assert encode(decoded) == data

    comes_back()


ANY_BYTES = st.binary(max_size=300)
# Bytes that are valid beyond their type.
LIKELY = st.one_of(
    ANY_BYTES,
    st.builds(lambda kind, rest: bytes((kind,)) + rest, st.integers(0, 23), ANY_BYTES),
    st.builds(
        lambda frame, start, stop, other: frame[:start] + other + frame[stop:],
        st.sampled_from([*VECTORS.values()]),
        st.integers(0, 200),
        st.integers(0, 200),
        st.binary(max_size=9),
    ),
)


@pytest.mark.deep
@clause("BUS-WIRE-1")
@settings(max_examples=among(100, 2_000))
@given(LIKELY)
def test_any_bytes_are_a_frame_or_an_error(data: bytes) -> None:
    try:
        frame = decode(data)
    except WireError:
        return
    if frame is None:
        assert data[0] >= wire.OPTIONAL
    elif isinstance(frame, wire.Batch):
        assert encode(frame) == data
    else:
        assert decode(encode(frame)) == frame


@clause("AMO-23")
@pytest.mark.parametrize("gaps", [0, 1, MISSING_MAX, MISSING_MAX + 1, 500])
def test_an_acknowledgement_of_many_gaps_covers_only_received_messages(
    gaps: int,
) -> None:
    sent: OutgoingStream[int] = OutgoingStream(1, window=4096)
    incoming: IncomingStream[int] = IncomingStream(window=4096, ranges_max=1024)
    for _ in range(2 * gaps + 1):
        sent.send(sent.next)
    for number in range(1, 2 * gaps + 2, 2):
        incoming.accept(number, [number], 1)

    ack = wire.Ack.of(incoming.acknowledgement, epoch=1, incarnation=2)
    received = sent.acknowledge(_through_the_wire(ack).acknowledgement)

    covered = min(gaps, MISSING_MAX) + 1
    assert received == [2 * each + 1 for each in range(covered)]


def test_an_acknowledgement_of_all_numbers_is_decoded_unchanged() -> None:
    has = Acknowledgement(2**64, ((5, 2**64 - 1),))

    ack = wire.Ack.of(has, epoch=1, incarnation=2)

    assert _through_the_wire(ack).acknowledgement == has


def _through_the_wire(ack: wire.Ack) -> wire.Ack:
    decoded = decode(encode(ack))
    assert isinstance(decoded, wire.Ack)
    return decoded


@clause("BUS-WIRE-1")
def test_the_longest_frames_are_short_enough() -> None:
    name, far = "n" * 128, 2**64 - 1
    task = wire.Characteristics(
        relay=2**32 - 1,
        id=RegistrationId("m" * 63, name, far),
        name=name,
        incarnation=far,
    )
    wide = "\N{GRINNING FACE}" * 128
    gaps = tuple((far - 2 * each, far - 2 * each + 1) for each in range(MISSING_MAX))
    for frame in (
        wire.Ack(
            epoch=far,
            incarnation=far,
            last=far,
            missing=tuple(sorted(gaps))[: MISSING_MAX - 1],
            extracted=((2**32 - 1, far),) * EXTRACTED_MAX,
            controls=far,
        ),
        Release(leases=((far, far),) * LEASES_MAX),
        wire.AddRelay(task=task, addresses=(wide,) * 8),
    ):
        assert decode(encode(frame)) == frame


def test_a_control_frame_is_encoded_up_to_the_longest_length() -> None:
    head = len(encode(wire.Bye(text="x" * 999))) - 999
    text = "x" * (wire.CONTROL_BYTES_MAX - head)

    assert len(encode(wire.Bye(text=text))) == wire.CONTROL_BYTES_MAX
    with pytest.raises(ValueError, match="BYE must be <= 8192 bytes, got 8193"):
        encode(wire.Bye(text=text + "x"))


@pytest.mark.parametrize(
    ("fact", "make"),
    [
        ("PING cannot be encoded", lambda: wire.Ping(number=2**64)),
        ("BYE cannot be encoded", lambda: wire.Bye(text="\ud800")),
    ],
)
def test_a_frame_with_an_invalid_field_cannot_be_encoded(
    fact: str, make: Callable[[], wire.Frame]
) -> None:
    with pytest.raises(ValueError, match=fact):
        encode(make())
