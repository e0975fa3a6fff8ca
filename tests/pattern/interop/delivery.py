"""Waits until messages are delivered, and checks of the messages that arrive."""

from __future__ import annotations

import itertools
from time import monotonic
from typing import TYPE_CHECKING, Final

from tests.watchdog import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.pattern.interop.peer import Peer

__all__ = [
    "expect",
    "expect_in_order",
    "expect_nothing_before",
    "wait_for_delivery",
    "wait_for_mesh",
]

# How long to wait for the message of a peer that may not be connected yet.
_PROBE_S: Final = 0.02
_numbers: Final = itertools.count(1)


def wait_for_mesh(peers: Sequence[Peer]) -> None:
    """Wait until the messages of each peer arrive at all others."""
    wait_for_delivery(
        {each: [other for other in peers if other is not each] for each in peers}
    )


def wait_for_delivery(receivers_of: Mapping[Peer, Sequence[Peer]]) -> None:
    """Wait until the messages of each sender arrive at all its receivers.

    Afterwards no message is in flight among these sockets.

    Raises:
        AssertionError: they do not in time.
    """
    deadline = monotonic() + LIMIT_S
    for sender, receivers in receivers_of.items():
        missing = list(receivers)
        while missing:
            assert monotonic() < deadline, (
                f"{sender.library} does not reach all its receivers"
            )
            probe = b"probe %d" % next(_numbers)
            sender.send(probe)
            for each in receivers:
                # The receivers that are connected take each probe, so none is full.
                arrived = each.receive(_PROBE_S)
                if arrived is not None and each in missing:
                    missing.remove(each)
        last = b"probed %d" % next(_numbers)
        sender.send(last)
        for each in receivers:
            skip_to(each, last)


def skip_to(peer: Peer, last: bytes) -> None:
    """Receive up to a certain message."""
    while (arrived := peer.receive(LIMIT_S)) != last:
        assert arrived is not None, f"{peer.library} has not received {last!r}"


def expect(peer: Peer, messages: Iterable[bytes]) -> None:
    """Receive messages, in any order, and no other between them."""
    wanted = sorted(messages)
    arrived = [peer.receive(LIMIT_S) for _ in wanted]
    assert None not in arrived, f"{peer.library}: {arrived} instead of {wanted}"
    assert sorted(each for each in arrived if each is not None) == wanted


def expect_in_order(peer: Peer, messages: Sequence[bytes]) -> None:
    """Receive messages in this order."""
    for wanted in messages:
        arrived = peer.receive(LIMIT_S)
        # Long messages make no readable difference.
        assert (arrived is None, (arrived or b"")[:40], len(arrived or b"")) == (
            False,
            wanted[:40],
            len(wanted),
        ), peer.library
        assert arrived == wanted


def expect_nothing_before(sender: Peer, receivers: Sequence[Peer]) -> None:
    """Send a message, and check that it is the next one that the receivers get.

    Order is kept on each connection, so the sender has forwarded no other message.
    """
    last = b"last %d" % next(_numbers)
    sender.send(last)
    for each in receivers:
        arrived = each.receive(LIMIT_S)
        assert arrived == last, f"{each.library}: {arrived!r} instead of {last!r}"
