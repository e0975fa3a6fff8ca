"""`Load`: the tasks of one process of the bus, and their traffic.

Each message has a number, and the notebook records its outcome. A client has one
private task, which only sends. Other processes also have receiving tasks. ``fast`` and
``slow`` together always have unread messages. ``ghost`` comes and goes, and so does
``mover`` in the process that hosts it.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bus import BusFullError, NameTakenError, Specification, Visibility
from tests.kills.ledger import Wish
from tests.kills.notes import Note
from tests.kills.strike import CALLBACK

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from bus import Bus, Incoming, Response, Task, Undelivered
    from tests.kills.notes import Notebook
    from tests.kills.strike import Strike

__all__ = ["MOVER", "PUBLIC", "TICK_S", "Load"]

PUBLIC: Final = ("fast", "slow", "ghost")
MOVER: Final = "mover"

TICK_S: Final = 0.005
_SLOW_S: Final = 0.003  # duration of a callback of the slow task
_BRIEF_S: Final = 0.02
_UNANSWERED_MAX: Final = 32
_TOLD_MAX: Final = 4  # messages in a tick; TOLD ones never count as unanswered
_LENGTHS: Final = (0, *[10] * 20, *[2000] * 10, 70_000, 300_000)
_WISHES: Final = (*[Wish.ASKED] * 3, Wish.TOLD, Wish.TOLD, Wish.BRIEF)


class Load:
    """The traffic of one life of a process.

    Args:
        life: its name and number, as ``a.3``.
        client: True if it has no public task.
        chance: the source of its draws.

    Attributes:
        names: the addressees.
        tick_s: the time between two sends of a few messages.
    """

    def __init__(
        self,
        bus: Bus,
        life: str,
        book: Notebook,
        strike: Strike,
        chance: random.Random,
        *,
        client: bool,
    ) -> None:
        self._bus: Final = bus
        self._life: Final = life
        self._name: Final = life.partition(".")[0]
        self._book: Final = book
        self._strike: Final = strike
        self._chance: Final = chance
        self._client: Final = client
        self.names: Sequence[str] = ()
        self.tick_s: float = TICK_S
        # Guards sending, so that numbers are in order, and the counters.
        self._lock: Final = threading.Lock()
        self._sent: int = 0
        self._open: set[str] = set()
        self._asked: dict[str, str] = {}
        self._going: bool = False
        self._churns: bool = True
        self._over: Final = threading.Event()
        self._tasks: Final[dict[str, Task]] = {}
        self.sender: Final = bus.register(
            f"from/{self._name}",
            visibility=Visibility.PRIVATE if client else Visibility.PUBLIC,
            on_undelivered=self._undelivered,
        )
        self.subscribe("from/*")
        self._thread: Final = threading.Thread(target=self._run, daemon=True)

    def subscribe(self, specification: str) -> None:
        """Subscribe to some tasks, and note their notifications."""
        self.sender.subscribe(Specification.parse(specification), self._heard)

    # Start and end.

    def start(self) -> None:
        """Register the tasks; send as soon as `go` is called."""
        if not self._client:
            slow = self._bus.thread("slow")
            for name in PUBLIC:
                self.register(
                    f"{name}/{self._name}", thread=slow if name == "slow" else None
                )
        self._thread.start()

    def go(self, names: Sequence[str]) -> None:
        """Send to these names from now on; to none is a pause."""
        with self._lock:
            self.names, self._going = names, True

    def hold(self) -> None:
        """Stop sending; ask each name once, behind all TOLD messages."""
        with self._lock:
            self._going = False
            ghost = f"ghost/{self._name}"
            if not self._client and ghost not in self._tasks:
                self._come(ghost)
            for name in self.names:
                self._send_locked(name, Wish.ASKED, 0)

    def unanswered(self) -> list[str]:
        """Return the numbers of the messages without an outcome."""
        with self._lock:
            return sorted(self._open)

    def end(self) -> None:
        """Stop the thread; closing the bus ends the tasks."""
        self._over.set()
        self._thread.join()

    # Tasks.

    def register(self, name: str, **options: Any) -> None:
        """Register a task that notes its messages.

        Raises:
            NameTakenError: another task holds the name.
        """
        self._tasks[name] = self._bus.register(
            name, on_command=partial(self._got, name), **options
        )

    def deregister(self, name: str) -> Task:
        """Deregister a task."""
        task = self._tasks.pop(name)
        task.deregister()
        return task

    def churn(self, *, on: bool) -> None:
        """Let the ghost come and go, or keep its present state."""
        with self._lock:
            self._churns = on

    def _come(self, name: str) -> None:
        try:
            self.register(name)
        except NameTakenError:
            return  # a killed process still holds it, as far as this process knows

    # Sending, in a thread of its own.

    def _run(self) -> None:
        ticks = 0
        while not self._over.wait(self.tick_s):
            ticks += 1
            with self._lock:
                if not (self._going and self.names):
                    continue
                self._send_some_locked()
                if ticks % 16 == 0:
                    self.sender.notify(self._number_locked())
                    if self._churns and not self._client:
                        self._toggle(f"ghost/{self._name}")

    def _toggle(self, name: str) -> None:
        if name in self._tasks:
            self.deregister(name)
        else:
            self._come(name)

    def _send_some_locked(self) -> None:
        for _ in range(_TOLD_MAX):
            if len(self._open) >= _UNANSWERED_MAX:
                return
            name, wish = self._chance.choice(self.names), self._chance.choice(_WISHES)
            self._send_locked(name, wish, self._chance.choice(_LENGTHS))

    def ask(self, name: str) -> str:
        """Send one message now; return its number for `outcome`."""
        with self._lock:
            number = self._send_locked(name, Wish.ASKED, 0)
            self._asked[number] = ""
            return number

    def outcome(self, number: str) -> str:
        """Return the outcome of a question; "" if there is none yet."""
        return self._asked[number]

    def forget(self, number: str) -> str:
        """Return the outcome of a question, and forget the question."""
        return self._asked.pop(number)

    def _number_locked(self) -> str:
        self._sent += 1
        return f"{self._life}/{self._sent}"

    def _send_locked(self, name: str, wish: Wish, length: int) -> str:
        number = self._number_locked()
        self._book.note(Note.SENT, number, name, wish)
        payload = [number, _filling(number, length)]
        try:
            if wish is Wish.TOLD:
                self.sender.command(name, payload, timeout=None)
            else:
                self._open.add(number)
                self.sender.command(
                    name,
                    payload,
                    on_response=self._answered,
                    ref=number,
                    timeout=_BRIEF_S if wish is Wish.BRIEF else None,
                )
        except BusFullError as error:
            self._open.discard(number)
            self._book.note(Note.OUTCOME, number, type(error).__name__)
        return number

    # Receiving.

    def _answered(self, response: Response) -> None:
        number = str(response.reference)
        self._strike.at("response before", CALLBACK)
        right = response.error is not None or response.payload == number
        outcome = type(response.error).__name__ if response.error else "ok"
        self._book.note(Note.OUTCOME, number, outcome if right else "another's")
        self._strike.at("response after", CALLBACK)
        with self._lock:
            self._open.discard(number)
            if number in self._asked:
                self._asked[number] = outcome

    def _undelivered(self, undelivered: Undelivered) -> None:
        payload: Any = undelivered.payload
        self._book.note(Note.OUTCOME, payload[0], type(undelivered.error).__name__)

    def _got(self, task: str, message: Incoming) -> str:
        number, filling = message.payload
        self._strike.at(
            "callback before", CALLBACK, lambda: self._book.note(Note.TAKEN, number)
        )
        whole = filling == _filling(number, len(filling))
        self._book.note(Note.GOT if whole else Note.BROKEN, number, task)
        self._strike.at("callback after", CALLBACK)
        if task.startswith("slow"):
            self._over.wait(_SLOW_S)
        return str(number)

    def _heard(self, message: Incoming) -> None:
        self._book.note(Note.HEARD, message.payload, self.sender.address.module)


def _filling(number: str, length: int) -> bytes:
    """Return bytes that are unique to a message."""
    text = number.encode()
    return (text * (length // len(text) + 1))[:length]
