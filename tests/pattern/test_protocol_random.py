"""`Protocol` on 20,000 random inputs, against a decoder that reads all at once."""

from __future__ import annotations

import random

import pytest

from bus.errors import WireError
from bus.pattern.protocol import Protocol, ProtocolState
from bus.pattern.wire import MAGIC, EndpointType, frame_head
from specs.clauses import clause

SEEDS = 20
INPUTS = 1_000  # of each seed
LIMIT = 40
HANDSHAKE = MAGIC + EndpointType.BUS.to_bytes(2) + bytes(2)


def decoded(data: bytes, *, is_ipc: bool) -> tuple[list[bytes], bool]:
    """Return the messages in front of the first fault, and if there is a fault."""
    start = data[:8]
    if start != HANDSHAKE[: len(start)]:
        # Only whole fields are judged behind the magic number.
        judged = start if len(start) == 8 else start[:4]
        if judged != HANDSHAKE[: len(judged)]:
            return [], True
    if len(start) < 8:
        return [], False
    messages: list[bytes] = []
    at, head = 8, 9 if is_ipc else 8
    while at + head <= len(data):
        length = int.from_bytes(data[at + head - 8 : at + head])
        if length > LIMIT or (is_ipc and data[at] != 1):
            return messages, True
        if at + head + length > len(data):
            break
        messages.append(data[at + head : at + head + length])
        at += head + length
    return messages, False


def drawn(rng: random.Random, *, is_ipc: bool) -> bytes:
    """Return the bytes of a correct peer, mostly with some changes."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(40))
    data = bytearray(HANDSHAKE)
    for _ in range(rng.randrange(5)):
        body = rng.randbytes(rng.randrange(LIMIT + 2))
        data += frame_head(len(body), is_ipc=is_ipc) + body
    for _ in range(rng.choice((0, 0, 1, 3))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)


@pytest.mark.deep
@clause("BP-4")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_bytes_are_read_or_refused(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    for number in range(INPUTS):
        is_ipc = rng.random() < 0.5
        data = drawn(rng, is_ipc=is_ipc)
        expected, faulty = decoded(data, is_ipc=is_ipc)
        protocol = Protocol(
            EndpointType.BUS, dials=False, is_ipc=is_ipc, bytes_max=LIMIT
        )
        received: list[bytes] = []
        refused = False
        at = 0
        while at < len(data):
            size = rng.choice((1, 2, 7, 30, 1000))
            try:
                received += protocol.receive_data(data[at : at + size])
            except WireError:
                refused = True
            at += size
        context = f"seed {seed}, input {number}: {data.hex()}"
        assert refused == faulty == (protocol.state is ProtocolState.FAILED), context
        if faulty:
            assert received == expected[: len(received)], context
        else:
            assert received == expected, context
