"""QB-CHAN: the byte channel. Its disconnect rules are QB-DISC's own programs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import attrs

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import Style, enter, registered, scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage

CHANNELS = "factory().channels"
SIZED = (CHANNELS, "factory().channels(capacity)")


def _pair(stage: Stage, capacity: int | None = None) -> tuple[Any, Any]:
    """Return both ends of a channel between two brokers used for nothing else."""
    settings = {} if capacity is None else {"capacity": capacity}
    server = stage.world.channels(f"server {capacity}", **settings)
    client = stage.world.channels(f"client {capacity}")
    accept = stage.spawn(server.accept, 1)
    connect = stage.spawn(client.connect, f"server {capacity}", 1)
    return stage.value(accept), stage.value(connect)


def _read(channel: Any, size: int) -> bytes:
    buffer = bytearray(size)
    return bytes(buffer[: channel.read(buffer, 0, size)])


@scenario(*SIZED)
@clause("QB-CHAN-1")
def a_write_takes_what_fits(stage: Stage) -> None:
    """write returns how many bytes it took, and waits only while it can take none."""
    left, right = _pair(stage, 4)

    expect(stage.at_once(left.write, b"abcdef", 0, 6), 4, "bytes taken of 6, 4 free")
    full = stage.spawn(left.write, b"abcdef", 4, 2)
    stage.waits(full)
    expect(_read(right, 1), b"a", "read")
    expect(stage.value(full), 1, "bytes taken with one place free")
    expect(_read(right, 9), b"bcde", "read")
    expect(stage.at_once(left.write, b"abcdef", 1, 2), 2, "bytes taken of a range")
    expect(_read(right, 9), b"bc", "read")


@scenario(CHANNELS)
@clause("QB-CHAN-2")
def a_read_fills_its_range_only(stage: Stage) -> None:
    """read waits for a byte, puts what is there into its range, touches no other."""
    left, right = _pair(stage)
    buffer = bytearray(b"........")
    read = stage.spawn(right.read, buffer, 2, 4)
    stage.waits(read)

    stage.at_once(left.write, b"ab", 0, 2)

    expect(stage.value(read), 2, "bytes read")
    expect(bytes(buffer), b"..ab....", "the buffer, outside the range included")
    stage.at_once(left.write, b"cdefgh", 0, 6)
    expect(stage.at_once(right.read, buffer, 2, 4), 4, "bytes read of 6")
    expect(bytes(buffer), b"..cdef..", "the buffer, outside the range included")


@scenario(*SIZED)
@clause("QB-CHAN-3")
def cuts_do_not_show(stage: Stage) -> None:
    """However the writes and the reads are cut, the same bytes come out in order."""
    rng = random.Random(3)  # noqa: S311 - fixed sizes, not a secret
    for capacity in (1, 5):
        left, right = _pair(stage, capacity)
        data = bytes(rng.randrange(256) for _ in range(40))

        def write(left: Any = left, data: bytes = data) -> None:
            offset = 0
            while offset < len(data):
                size = min(rng.randrange(1, 8), len(data) - offset)
                offset += left.write(data, offset, size)
            left.disconnect()

        writer = stage.spawn(write)
        read = b""
        while len(read) < len(data):
            read += _read(right, 1 + len(read) % 7)
        stage.value(writer)
        expect(read, data, f"bytes read through a buffer of {capacity}")


@scenario(CHANNELS, style=Style.RACE)
@clause("QB-CHAN-5")
def a_read_that_finds_a_byte_returns_it(stage: Stage) -> None:
    """Bytes written before the goodbye are read, then the error comes."""
    left, right = _pair(stage)

    def write_and_hang_up() -> None:
        left.write(b"ab", 0, 2)
        left.disconnect()

    writer = stage.spawn(write_and_hang_up)

    read = _read(right, 1) + _read(right, 5)
    expect(read, b"ab", "read before the error")
    stage.value(writer)
    stage.raises(_disconnected(stage), stage.spawn(_read, right, 1))


@scenario(*SIZED)
@clause("QB-CHAN-5")
def a_write_that_waits_is_released_by_a_goodbye(stage: Stage) -> None:
    """A write on a full buffer raises when either end hangs up."""
    for hangs_up in (0, 1):
        ends = _pair(stage, 1 + hangs_up)
        ends[0].write(b"ab", 0, 1 + hangs_up)
        waiting = stage.spawn(ends[0].write, b"c", 0, 1)
        stage.waits(waiting)

        ends[hangs_up].disconnect()

        stage.raises(_disconnected(stage), waiting)


def _disconnected(stage: Stage) -> type[Exception]:
    kind: type[Exception] = getattr(
        stage.world, "disconnected_channel_error", stage.disconnected_error
    )
    return kind


@scenario(CHANNELS)
@clause("QB-CHAN-6")
def nothing_takes_no_time(stage: Stage) -> None:
    """Reading or writing no bytes on a connected end returns 0 at once."""
    left, right = _pair(stage)
    buffer = bytearray(4)

    expect(stage.at_once(left.write, b"abc", 3, 0), 0, "bytes written of none")
    expect(stage.at_once(right.read, buffer, 0, 0), 0, "bytes read of none")
    expect(bytes(buffer), bytes(4), "the buffer")


@scenario(*SIZED, "channel.write_all", "channel.read_exactly")
@clause("QB-CHAN-7")
def the_loops_go_on_until_all_is_done(stage: Stage) -> None:
    """write_all and read_exactly move everything through a buffer of any size."""
    data = bytes(range(60))
    for capacity in (1, 7, 64):
        left, right = _pair(stage, capacity)
        writer = stage.spawn(left.write_all, data)
        read = [right.read_exactly(size) for size in (1, 13, 0, 46)]
        stage.value(writer)
        expect(b"".join(read), data, f"read exactly through a buffer of {capacity}")


@scenario(CHANNELS, "channel.write_all", "channel.read_exactly")
@clause("QB-CHAN-7")
def a_stream_that_ends_early_hands_over_what_came(stage: Stage) -> None:
    """read_exactly raises at the end of the stream, with the bytes it had."""
    left, right = _pair(stage)
    left.write_all(b"abc")
    left.disconnect()

    call = stage.spawn(right.read_exactly, 5)

    stage.raises(_disconnected(stage), call)
    partial = getattr(call.error, "partial", None)
    require(partial == b"abc", f"{call.told()}, with partial={partial!r}")


@clause("QB-CHAN-4")
def register_twins() -> None:
    """Each program of QB-DISC, over byte channels, with one byte for a message."""
    for entry in registered():
        if entry.clauses[0].startswith("QB-DISC-"):
            needs = [_NEEDS_OVER_BYTES.get(need, need) for need in entry.needs]
            needs = [need.replace("queue.", "channel.") for need in needs]
            enter(
                attrs.evolve(
                    entry,
                    name=f"channels.{entry.name.partition('.')[2]}",
                    clauses=("QB-CHAN-4",),
                    needs=(CHANNELS, *needs),
                    channels=True,
                )
            )


_NEEDS_OVER_BYTES = {"bounded": "factory().channels(capacity)"}
