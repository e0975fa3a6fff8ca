"""Processes to be killed, made quickly: ``python -m tests.sockets.victims``.

A line on standard input, ``VICTIM ADDRESS NUMBER CUT``, starts one of `VICTIMS`.
Standard output gets its pid, then ``ready`` once it is at the point where it is to be
killed, or on the way to it; ``gone`` once it has exited.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from queuebroker.sockets import SocketQueueBroker, frames
from queuebroker.sockets.frames import Credit, Hello
from tests.kit.raw_peer import raw
from tests.sockets.support import PORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import MessageQueue

__all__ = ["VICTIMS", "payload"]

HELLO: Final = frames.encode(Hello("victim", PORT, 1 << 20))


def payload(number: int) -> bytes:
    """Return the message of a number, from 0; some are longer than others."""
    return b"%d" % number + bytes(number % 7 * 3000)


def say(line: str) -> None:
    """Write an answer in one piece: two processes share the pipe."""
    os.write(sys.stdout.fileno(), line.encode() + b"\n")


def stay() -> None:
    """Stay at the point where the process is to be killed."""
    say("ready")
    while True:
        signal.pause()


def connected(address: str) -> MessageQueue:
    """Connect with the whole handshake."""
    return SocketQueueBroker("victim").connect(address, PORT, required=True)


def in_handshake(address: str, _number: int, cut: int) -> None:
    """Send the beginning of a hello, perhaps all of it."""
    with raw(address) as made:
        made.sendall(HELLO[: cut % (len(HELLO) + 1)])
        stay()


def in_mid_frame(address: str, number: int, cut: int) -> None:
    """Send that many messages, and the beginning of one more frame."""
    with raw(address) as made:
        made.sendall(HELLO)
        made.recv(1 << 16)  # the welcome
        for one in range(number):
            made.sendall(frames.encode_message(one + 1, payload(one)))
        begun = (
            frames.encode_message(number + 1, bytes(70_000)),
            frames.encode_run(number + 1, [b"1", bytes(2000), b"3"]),
            frames.encode(Credit(1)),
        )[cut % 3]
        made.sendall(begun[: cut % (len(begun) - 1) + 1])
        stay()


def in_bulk(address: str, number: int, _cut: int) -> None:
    """Send messages in a loop, single ones or several at once."""
    queue = connected(address)
    say("ready")
    batch = 1 + number % 5
    for first in itertools.count(0, batch):
        queue.send_many([payload(first + one) for one in range(batch)])


def in_receive(address: str, number: int, _cut: int) -> None:
    """Receive that many and send them back, then wait for one that does not come."""
    queue = connected(address)
    say("ready")
    for _ in range(number):
        queue.send(queue.receive())
    queue.receive()


def in_wait_for_credit(address: str, _number: int, _cut: int) -> None:
    """Send to a peer that does not receive."""
    queue = connected(address)
    say("ready")
    for number in itertools.count():
        queue.send(payload(number))


def without_receiving(address: str, _number: int, _cut: int) -> None:
    """Let the peer wait for credit."""
    with connected(address):
        stay()


VICTIMS: Final[dict[str, Callable[[str, int, int], None]]] = {
    made.__name__: made
    for made in (
        in_handshake,
        in_mid_frame,
        in_bulk,
        in_receive,
        in_wait_for_credit,
        without_receiving,
    )
}


def main() -> None:
    """Start victims until the input ends."""
    for line in sys.stdin:
        name, address, number, cut = line.split()
        process = os.fork()
        if not process:
            say(str(os.getpid()))
            try:
                VICTIMS[name](address, int(number), int(cut))
            finally:
                os._exit(1)  # a victim that gets here was not killed
        os.waitpid(process, 0)
        say("gone")


if __name__ == "__main__":
    main()
