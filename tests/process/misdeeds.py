"""Violations that a peer may commit on a correctly opened link.

`VIOLATIONS` end the link; each comes with part of the reason sent to the peer. Merely
`STRANGE` frames may refer to an object that has just ended, and change nothing.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from bus.features.memory.frames import CloseSlab, OfferSlab, Release, SlabAnswer
from bus.features.subscriptions.frames import Subscribe, Unexport, Unsubscribe
from bus.kernel import wire
from bus.kernel.wire import Reason
from bus.model.message import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bus.kernel.wire import Frame
    from tests.process.hostile import Hostile

__all__ = ["STRANGE", "VIOLATIONS"]


def _after(*said: Callable[[Hostile], Frame]) -> Callable[[Hostile], None]:
    """Return an act that announces the rogue's task, then sends given frames."""

    def act(rogue: Hostile) -> None:
        rogue.say(wire.AddRelay(task=rogue.task()))
        for each in said:
            rogue.say(each(rogue))

    return act


def _ack(rogue: Hostile, **fields: Any) -> wire.Ack:
    defaults = {
        "epoch": rogue.opened.epoch,
        "incarnation": rogue.welcome.identity.incarnation,
        "last": 0,
    }
    return wire.Ack(**(defaults | fields))


def _batch(
    rogue: Hostile, *, epoch: int | None = None, to: int | None = None
) -> wire.Batch:
    me = rogue.welcome.identity.incarnation
    return wire.Batch(epoch or rogue.epoch, to or me, 1, 1, [])


def _search(rogue: Hostile, **changes: Any) -> wire.Search:
    one = wire.Search(
        id=rogue.request(),
        machine="machine",
        name="echo",
        sender=rogue.task(),
        hops=3,
    )
    return replace(one, **changes)


def _another_body(rogue: Hostile) -> None:
    """Announce the body of a message, and send other bytes."""
    head, _ = wire.pieces(rogue.messages(body=bytes(wire.FOLLOWS_MIN)))
    rogue.say(head)
    rogue.say(b"!")


VIOLATIONS: Final[Mapping[str, tuple[Callable[[Hostile], None], str]]] = {
    "no frame": (lambda r: r.say(b""), "frame is empty"),
    "unknown type": (lambda r: r.say(b"\x60"), "unknown type"),
    "cut off": (lambda r: r.say(wire.encode(r.messages())[:-1]), "announced: 13"),
    "another body": (_another_body, "body has 1 bytes, announced: 131072"),
    "no map": (lambda r: r.say(b"\x05\xc1"), "EXPORT"),
    "greets again": (lambda r: r.say(r.hello()), "HELLO is not allowed"),
    "opens again": (lambda r: r.say(r.stream()), "OPEN_STREAM is not allowed"),
    "refuses": (
        lambda r: r.say(wire.Refused(reason=Reason.BUSY, versions=(1, 1))),
        "REFUSED is not allowed",
    ),
    "unknown epoch": (lambda r: r.say(_batch(r, epoch=1)), "MSG of epoch 1"),
    "another life": (lambda r: r.say(_batch(r, to=1)), "old incarnation"),
    "acknowledges messages": (
        lambda r: r.say(_ack(r, last=77)),
        "acknowledged up to 77, sent up to 0",
    ),
    "acknowledges frames": (
        lambda r: r.say(_ack(r, controls=77)),
        "ACK counts 77 control frames of 0 sent",
    ),
    "exports another's": (
        lambda r: r.say(
            wire.Export(id=r.id(process="other"), name="far", registered_ns=1)
        ),
        "refers to a task",
    ),
    "eliminates another's": (
        lambda r: r.say(wire.Eliminate(id=r.id(process="other"), name="far")),
        "refers to a task",
    ),
    "stands for another's": (
        lambda r: r.say(wire.AddRelay(task=r.task(id=r.id(process="other")))),
        "refers to a task",
    ),
    "searches for another": (
        lambda r: r.say(_search(r, id=replace(r.request(), process="other"))),
        "refers to a task",
    ),
    "searches for another's task": (
        lambda r: r.say(_search(r, sender=r.task(id=r.id(process="other")))),
        "refers to a task",
    ),
    "subscribes for another's task": (
        lambda r: r.say(
            Subscribe(
                id=r.request(),
                specification="echo",
                subscriber=r.task(id=r.id(process="other")),
                hops=3,
            )
        ),
        "refers to a task",
    ),
    "notifies one task": (
        _after(lambda r: r.messages(to=r.found("echo"), kind=Kind.NOTIFICATION)),
        "NOTIFICATION for relay",
    ),
    "no payload": (
        _after(lambda r: r.messages(to=r.found("echo"), body=b"\xc1")),
        "payload cannot be decoded",
    ),
    "no text": (
        _after(lambda r: r.messages(to=r.found("echo"), body=b"\xa1\xff")),
        "payload cannot be decoded",
    ),
    "too deep": (
        _after(lambda r: r.messages(to=r.found("echo"), body=b"\x91" * 5000 + b"\x01")),
        "payload",
    ),
    "too many messages": (
        lambda r: r.say(_count_of(wire.encode(r.messages()), 2**16 - 1)),
        "more than 4096 messages",
    ),
    "a run of none": (
        lambda r: r.say(_run_of(wire.encode(r.messages()), 0)),
        "a run of no messages",
    ),
    "more in its runs": (
        lambda r: r.say(_run_of(wire.encode(r.messages()), 2)),
        "runs of 2 messages, announced: 1",
    ),
    "bytes that went wrong": (
        lambda r: r.say(r.messages(flags=wire.RAW | wire.FAILED)),
        "flags that exclude one another",
    ),
    "an error that is elsewhere": (
        lambda r: r.say(r.messages(flags=wire.FAILED | wire.LEASED)),
        "flags that exclude one another",
    ),
    "bytes in memory that was not offered": (
        lambda r: r.say(r.messages(body=bytes(32), flags=wire.RAW | wire.LEASED)),
        "a body in shared memory, but offered none",
    ),
    "a body in memory that is too long": (
        lambda r: r.say(r.messages(body=b"\xff" * 32, flags=wire.LEASED)),
        "a body in shared memory of 18446744073709551615 bytes",
    ),
}


def _count_of(frame: bytes, count: int) -> bytes:
    """Return the frame with its count of messages replaced."""
    at = struct.calcsize("!BQQIQQQH")
    return frame[:at] + count.to_bytes(2) + frame[at + 2 :]


def _run_of(frame: bytes, count: int) -> bytes:
    """Return the frame with the count of its first run replaced."""
    at = struct.calcsize("!BQQIQQQHHIIBBQIB")
    return frame[:at] + count.to_bytes(2) + frame[at + 2 :]


STRANGE: Final[Mapping[str, Callable[[Hostile], None]]] = {
    "a type that may be skipped": lambda r: r.say(b"\xe0abc"),
    "a pong to nothing": lambda r: r.say(wire.Pong(number=7)),
    "an error about nothing": lambda r: r.say(wire.Error(reason=Reason.WIRE)),
    "a search that is not": lambda r: r.say(wire.Cancel(id=r.request(9))),
    "a subscription that is not": lambda r: r.say(Unsubscribe(id=r.request(9))),
    "a task that is not": lambda r: r.say(Unexport(id=r.id(9))),
    "a relay that is not": lambda r: r.say(wire.Unrelay(relay=77, extracted=3)),
    "another epoch": lambda r: r.say(_ack(r, epoch=1, last=77)),
    "tasks that took nothing": lambda r: r.say(_ack(r, extracted=((1, 9), (77, 5)))),
    "an answer to nothing": _after(
        lambda r: r.messages(to=r.found("echo"), kind=Kind.COMMAND_RESPONSE)
    ),
    "memory that is not there": lambda r: r.say(
        OfferSlab(slab=1, descriptor=2, token="bus-0")
    ),
    "an answer to no offer": lambda r: r.say(SlabAnswer(slab=1, mapped=True)),
    "the end of memory that is not there": lambda r: r.say(CloseSlab(slab=1)),
    "the end of leases that are not there": lambda r: r.say(
        Release(leases=((1, 2), (3, 4)))
    ),
    "a place to dial": lambda r: r.say(
        wire.ConnectOffer(
            machine="machine", process="other", incarnation=3, addresses=("ipc:///x",)
        )
    ),
    "the same twice": _after(lambda r: wire.AddRelay(task=r.task())),
}
