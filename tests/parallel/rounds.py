"""One drawn round: threads meet, send and receive, and every message is accounted for.

Each message has the number of its sender and its own number. So the receivers notice a
message that was lost, that came twice, or that overtook another one of its sender.
"""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from queuebroker import (
    BrokerManager,
    DisconnectedQueueError,
    QueueBroker,
    QueueBrokerTimeoutError,
    receive_any,
)
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuebroker import MessageQueue

__all__ = ["Round"]

_PORTS = 3
# Short, so that a wait often ends while its wake-up is on the way.
_TIMEOUTS_S = (None, 0.0, 1e-5, 1e-3)


class Round:
    """The drawn threads of one round; `run` returns the number of messages.

    Raises:
        AssertionError: a message was lost, came twice or was overtaken.
    """

    def __init__(self, seed: int, messages: int) -> None:
        self._random = random.Random(seed)
        self._messages = messages
        self._senders = self._random.randint(1, 4)
        self._received: list[list[tuple[int, int]]] = []

    def run(self) -> int:
        """Run the round to its end."""
        draw = self._random
        sent = 0
        with BrokerManager() as manager, Threads() as threads:
            capacity = draw.choice((1, 2, 7, 64))
            host = QueueBroker("host", manager=manager, capacity=capacity)
            guest = QueueBroker("guest", manager=manager)
            accepting = [threads.start(host.accept, port) for port in range(_PORTS)]
            near = [
                guest.connect("host", port, required=True) for port in range(_PORTS)
            ]
            far = [each.result() for each in accepting]
            sending = []
            for port, end in enumerate(near):
                for sender in range(self._senders):
                    number = port * self._senders + sender
                    job = _Sender(end, number, self._messages, draw.random())
                    sending.append(threads.start(job.run))
                    sent += self._messages
            receiving = [
                threads.start(self._receive, receive)
                for receive in self._receivers(far)
            ]
            for each in sending:
                each.result()
            for end in near:
                end.disconnect()
            for each in receiving:
                each.result()
        self._check(sent)
        return sent

    def _receivers(
        self, far: list[MessageQueue]
    ) -> Iterator[Callable[[], list[bytes]]]:
        """Yield the calls that the receiving threads repeat until a disconnect."""
        draw = self._random
        for _ in range(draw.randint(0, 2)):
            yield lambda: [receive_any(far)[1]]
        for end in far:
            for _ in range(draw.randint(1, 2)):
                timeout = draw.choice(_TIMEOUTS_S)
                limit = draw.choice((None, 1, 3))
                yield draw.choice(
                    (
                        lambda end=end, timeout=timeout: [end.receive(timeout=timeout)],
                        lambda end=end, timeout=timeout, limit=limit: end.receive_many(
                            limit, timeout=timeout
                        ),
                    )
                )

    def _receive(self, receive: Callable[[], list[bytes]]) -> None:
        received: list[tuple[int, int]] = []
        self._received.append(received)
        with suppress(DisconnectedQueueError):
            while True:
                with suppress(QueueBrokerTimeoutError):
                    for message in receive():
                        sender, number = message.split()
                        received.append((int(sender), int(number)))

    def _check(self, sent: int) -> None:
        for received in self._received:
            latest: dict[int, int] = defaultdict(lambda: -1)
            for sender, number in received:
                assert number > latest[sender], f"{number} of {sender} was overtaken"
                latest[sender] = number
        every = [message for received in self._received for message in received]
        assert len(set(every)) == len(every), "a message came twice"
        assert len(every) == sent, f"{sent} messages were sent, {len(every)} came"


class _Sender:
    """Sends its messages in order, one by one or several at a time."""

    def __init__(
        self, end: MessageQueue, number: int, messages: int, seed: float
    ) -> None:
        self._end = end
        self._unsent = [b"%d %d" % (number, each) for each in range(messages)]
        self._random = random.Random(seed)

    def run(self) -> None:
        """Send until all is sent; a send that timed out is repeated."""
        draw, sent = self._random, 0
        while sent < len(self._unsent):
            timeout = draw.choice(_TIMEOUTS_S)
            with suppress(QueueBrokerTimeoutError):
                if draw.random() < 0.1:
                    run = self._unsent[sent : sent + draw.randint(1, 20)]
                    sent += self._end.send_many(run, timeout=timeout)
                else:
                    self._end.send(self._unsent[sent], timeout=timeout)
                    sent += 1
