"""What two ends share: the buffers, and what a hang-up does to them."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["CONNECTIONS"]

_LIFO = (
    Edit(
        "circular_buffer.py",
        "        message = self._messages[0]\n        del self._messages[0]\n",
        "        message = self._messages[-1]\n        del self._messages[-1]\n",
    ),
    Edit(
        "lane.py",
        "iter(self._messages.popleft, SHUT)",
        "iter(self._messages.pop, SHUT)",
    ),
)

CONNECTIONS = (
    Mutant(
        "O18",
        "last in, first out",
        ("QB-RECV-1", "QB-FIFO-1", "QB-FIFO-2", "QB-CONC-7"),
        _LIFO,
    ),
    Mutant(
        "O24",
        "a message comes back to the end that sent it",
        ("QB-RECV-8",),
        (
            Edit(
                "queue_connection.py",
                "        peer = self.peer_of(side)\n",
                "        peer = side\n",
            ),
        ),
    ),
    Mutant(
        "O26",
        "who has unread messages cannot send",
        ("QB-FIFO-4",),
        (
            Edit(
                "connection.py",
                "        room = not self.flows[1 - side].buffer.full()\n",
                "        room = not any(flow.buffer.full() for flow in self.flows)\n",
            ),
        ),
    ),
    Mutant(
        "O27",
        "connections share their messages",
        ("QB-FIFO-5",),
        (
            Edit(
                "circular_buffer.py",
                "        self._messages: deque[M] = deque()\n",
                "        self._messages = _shared\n",
            ),
            Edit(
                "circular_buffer.py",
                'M = TypeVar("M")\n',
                'M = TypeVar("M")\n_shared = deque()\n',
            ),
        ),
    ),
    Mutant(
        "O28",
        "a hang-up swallows the first message that is unread",
        ("QB-FIFO-6",),
        (
            Edit(
                "connection.py",
                "        self.flows[side].buffer.discard_locked()\n",
                "        self.flows[side].buffer.discard_locked()\n"
                "        if len(self.flows[1 - side].buffer):\n"
                "            self.flows[1 - side].buffer.pull_locked()\n",
            ),
        ),
    ),
    Mutant(
        "O33",
        "a second disconnect is refused",
        ("QB-DISC-10",),
        (
            Edit(
                "connection.py",
                "        if self.hung_up[side]:\n            return\n",
                "        if self.hung_up[side]:\n            raise RuntimeError\n",
            ),
        ),
    ),
    Mutant(
        "O34",
        "what was unread is kept after the hang-up",
        ("QB-DISC-11",),
        (
            Edit(
                "connection.py",
                "        self.flows[side].buffer.discard_locked()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "O48",
        "a finalizer waits for the lock, perhaps for itself",
        ("QB-CONC-9",),
        (
            Edit(
                "connection.py",
                "                taken.extend(map(self.lock.acquire, (False,)))\n",
                "                taken.extend(map(self.lock.acquire, (True,)))\n",
            ),
        ),
    ),
)
