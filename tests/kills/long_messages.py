"""Long messages with a hash, their sender, and a receiver that holds some of them.

A payload is the SHA-256 of its rest, then the rest: the number of the message, and
bytes that no other message has at the same place.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from bus import BusFullError, NameTakenError, Specification

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from bus import Bus, Incoming, Task

__all__ = ["LongReceiver", "LongSender", "is_whole", "number_of", "payload"]

SENDER: Final = "sender"
_KIB: Final = 2**10
_LENGTHS: Final = (128 * _KIB, 1024 * _KIB)
_HASH_BYTES: Final = 32
_NUMBER_BYTES: Final = 32
_TICK_S: Final = 0.005
_NOTIFICATIONS: Final = 0.5  # fraction of all messages
_HELD_MAX: Final = 6
# A process that joins gets its first messages while links are still exchanged for
# others, so those outlive the link that carried them.
_PINNED_AT_FIRST: Final = 4
_ROUND_S: Final = 10.0


def payload(number: str, length: int) -> bytes:
    """Return a message; number: at most 32 characters. length: in bytes, 64 or more."""
    pattern = hashlib.sha512(number.encode()).digest()
    rest = number.encode().ljust(_NUMBER_BYTES)
    missing = length - _HASH_BYTES - len(rest)
    rest += (pattern * (missing // len(pattern) + 1))[:missing]
    return hashlib.sha256(rest).digest() + rest


def number_of(message: bytes | memoryview) -> str:
    """Return the number of a message."""
    number = bytes(message[_HASH_BYTES : _HASH_BYTES + _NUMBER_BYTES])
    return number.decode(errors="replace").rstrip()


def is_lent(message: bytes | memoryview) -> bool:
    """Return True if a message lies in shared memory."""
    return type(message) is memoryview and type(message.obj) is not bytes


def is_whole(message: bytes | memoryview) -> bool:
    """Return True if a message has the bytes that it was sent with."""
    digest = hashlib.sha256(message[_HASH_BYTES:]).digest()
    return digest == message[:_HASH_BYTES]


class LongSender:
    """The task that sends, with a thread of its own.

    Args:
        life: of its process, as ``o.3``.
        chance: the source of its draws.

    Attributes:
        sent: the messages so far.
    """

    def __init__(self, bus: Bus, life: str, chance: random.Random) -> None:
        self._life: Final = life
        self._chance: Final = chance
        self._task: Final = _registered(bus, SENDER)
        self._lock: Final = threading.Lock()  # held while a message is sent
        self._names: Sequence[str] = ()
        self._over: Final = threading.Event()
        self.sent: int = 0
        self._thread: Final = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go(self, names: Sequence[str]) -> None:
        """Send commands to these tasks, and notifications, from now on."""
        with self._lock:
            self._names = names

    def hold(self) -> None:
        """Stop sending."""
        self.go(())

    def end(self) -> None:
        """Stop the thread."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_TICK_S):
            with self._lock:
                if self._names:
                    self._send_locked()

    def _send_locked(self) -> None:
        self.sent += 1
        message = payload(f"{self._life}/{self.sent}", self._chance.randint(*_LENGTHS))
        if self._chance.random() < _NOTIFICATIONS:
            self._task.notify(message)
            return
        # Full: the receiver is dead, or has not kept up.
        with suppress(BusFullError):
            self._task.command(self._chance.choice(self._names), message, timeout=None)


class LongReceiver:
    """The task that receives; it checks each message on receipt and at its end.

    It holds the first few and the pinned ones until `drop`, and of the others a few.

    Args:
        name: of the task.
        chance: the source of its draws.

    Attributes:
        faults: of the messages received so far; a sentence each.
        received, lent: the messages so far; those among them in shared memory.
    """

    def __init__(self, bus: Bus, name: str, chance: random.Random) -> None:
        self._chance: Final = chance
        # Guards all below: the thread of the task receives, another one checks.
        self._lock: Final = threading.Lock()
        self._held: Final[list[tuple[str, Any]]] = []
        self._pinned: Final[list[tuple[str, Any]]] = []
        self._holds: bool = True
        self.faults: Final[list[str]] = []
        self.received: int = 0
        self.lent: int = 0
        task = _registered(bus, name, on_command=self._got, thread=bus.thread("ear"))
        task.subscribe(Specification.parse(SENDER), self._got)

    def _got(self, message: Incoming) -> None:
        body: Any = message.payload
        number = number_of(body)
        with self._lock:
            self.received += 1
            self.lent += is_lent(body)
            self._check_locked(number, body, "on receipt")
            if not self._holds:
                return
            if len(self._pinned) < _PINNED_AT_FIRST and is_lent(body):
                self._pinned.append((number, body))
                return
            self._held.append((number, body))
            while len(self._held) > self._chance.randint(1, _HELD_MAX):
                at = self._chance.randrange(len(self._held))
                self._check_locked(*self._held.pop(at), "before its end")

    def _check_locked(self, number: str, body: Any, when: str) -> None:
        if not is_whole(body) or number_of(body) != number:
            self.faults.append(f"{number} is not whole {when}")

    def hold(self) -> None:
        """Hold messages again, after `drop`."""
        with self._lock:
            self._holds = True

    def pin(self) -> int:
        """Hold the present messages until `drop`; return how many lie in memory."""
        with self._lock:
            self._pinned.extend(self._held)
            self._held.clear()
            return sum(is_lent(body) for _, body in self._pinned)

    def check(self) -> int:
        """Check all held messages; return how many lie in shared memory."""
        with self._lock:
            both = [*self._held, *self._pinned]
            for number, body in both:
                self._check_locked(number, body, "while it is held")
            return sum(is_lent(body) for _, body in both)

    def drop(self) -> None:
        """Check and drop all held messages, and hold none from now on."""
        self.check()
        with self._lock:
            self._holds = False
            self._held.clear()
            self._pinned.clear()


def _registered(bus: Bus, name: str, **options: Any) -> Task:
    """Register a task whose name a killed process may still hold."""
    pause = threading.Event()
    for _ in range(int(_ROUND_S / _TICK_S)):
        try:
            return bus.register(name, **options)
        except NameTakenError:
            pause.wait(_TICK_S)
    raise TimeoutError(f"{name} is not free after {_ROUND_S:g} s")
