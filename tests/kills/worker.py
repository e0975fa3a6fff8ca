"""One life of a process of the bus: ``python -m tests.kills.worker LIFE FOLDER SEED``.

It reads orders line by line, in JSON, as ``[VERB, ARGUMENT, ...]``, and answers each
with a line, ``["ok", VALUE]`` or ``["error", WORDS]``. A life whose name begins with
``x`` is a client: it cannot be master, and has no public task.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bus import Bus, BusConfig, NameTakenError, Role, open_bus
from bus.journal.writer import Journal
from queuebroker._files import resource
from tests.kills.load import Load
from tests.kills.notes import Notebook
from tests.kills.strike import MOVING, SEARCH, Strike
from tests.kit.constants import set_constants
from tests.leaks import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["JOURNALS", "Worker", "is_client", "serve"]

JOURNALS: Final = "TESTS_KILLS_JOURNALS"  # the variable with the folder for journals
_SEGMENT_BYTES: Final = 4 << 20

_CONFIG: Final = BusConfig(resolve_timeout_s=1.0)
_LOOK_S: Final = 0.001
_LIMIT_S: Final = 10.0


def is_client(name: str) -> bool:
    """Whether a process of that name is a client."""
    return name.startswith("x")


class Worker:
    """The orders, as methods; each returns the answer."""

    def __init__(self, life: str, folder: Path, seed: str) -> None:
        set_constants(LINK_LINGER_S=60.0)
        self._life: Final = life
        self._name: Final = life.partition(".")[0]
        self._book: Final = Notebook(folder / life)
        self._strike: Final = Strike(self._book)
        self._chance: Final = random.Random(f"{seed}/{life}")
        self._before: Final = Snapshot.take()
        self._armed: Callable[[], object] = list
        self._journal: Journal | None = None
        self._bus: Bus
        self._load: Load

    # Joining and leaving.

    def join(self) -> int:
        """Join the bus; return the incarnation."""
        client = is_client(self._name)
        self._bus = self.open(client=client)
        self._load = Load(
            self._bus,
            self._life,
            self._book,
            self._strike,
            self._chance,
            client=client,
        )
        self._load.start()
        return self._bus._node.incarnation

    def open(self, *, client: bool) -> Bus:
        """Return the bus that this process joins."""
        return open_bus(
            process=self._name,
            machine="machine",
            role=Role.SLAVE if client else Role.AUTO,
            config=_CONFIG,
            journal=self._recorded("machine"),
        )

    def _recorded(self, machine: str) -> Journal | None:
        """Return the journal of this process, None if nothing is to be recorded."""
        if folder := os.environ.get(JOURNALS):
            self._journal = Journal(
                folder, machine=machine, segment_bytes=_SEGMENT_BYTES
            )
        return self._journal

    def leave(self) -> list[str]:
        """Shut down in order; return the leaks of this process."""
        self._load.end()
        self._bus.close()
        if self._journal is not None:
            self._journal.close()
        return self._before.leaks()

    # Load.

    def go(self, names: list[str]) -> None:
        """Send to these names."""
        self._load.go(names)

    def hold(self) -> None:
        """Stop sending."""
        self._load.hold()

    def unanswered(self) -> list[str]:
        """Return the numbers of the messages without an outcome."""
        return self._load.unanswered()

    # Queries.

    def is_master(self) -> bool:
        """Return True if this process is master."""
        return bool(self._comm.remote.topology.is_master)

    def call(self, name: str) -> str:
        """Send a new command; return its outcome."""
        number = self._load.ask(name)
        _until(lambda: bool(self._load.outcome(number)), f"{name} answers")
        return self._load.forget(number)

    def memory(self) -> list[int]:
        """Return the blocks of memory in use, and the resident memory in KiB."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return [sys.getallocatedblocks(), pages * resource.getpagesize() // 1024]

    def counters(self) -> list[str]:
        """Return the accounts that do not balance, and the parts not at rest."""
        return list(_imbalances(self._bus))

    def knows(self) -> list[list[Any]]:
        """Return the lives of other processes that its tables list."""
        peers = self._comm.remote.topology.peers.copy()
        return [[key[1], peer.session.incarnation] for key, peer in peers.items()]

    def holds(self) -> list[int]:
        """Return the numbers of threads and descriptors."""
        return [threading.active_count(), len(os.listdir("/proc/self/fd"))]

    @property
    def _comm(self) -> Any:
        return self._bus._node.comm

    # Blows.

    def arm(self, host: str, number: int, by: int) -> None:
        """Strike this process at a place, once the order is answered."""
        self._armed = partial(self._strike.arm, host, number, by)

    def answered(self) -> None:
        """Arm the strike after the answer to its order."""
        armed, self._armed = self._armed, list
        armed()

    def search(self, name: str) -> None:
        """Search for a name; strike while the search is open, if that is armed."""
        self._load.ask(name)
        _until(
            lambda: name in self._comm.remote.resolver.own.by_name,
            f"a search for {name} is open",
        )
        self._strike.at("open", SEARCH)

    def register(self, name: str, host: str, number: int, by: int) -> None:
        """Register a task of that name; strike meanwhile, if there is a place."""

        def taken() -> bool:
            try:
                self._load.register(name)
            except NameTakenError:
                return False  # this process does not know yet that the holder is dead
            return True

        self._load.churn(on=False)
        self._strike.arm(host, number, by)
        _until(taken, f"{name} is free")
        self._load.churn(on=True)

    def deregister(self, name: str, host: str, number: int, by: int) -> None:
        """Deregister a task; strike meanwhile or afterwards, if there is a place."""
        self._load.churn(on=False)
        self._strike.arm(host, number, by)
        task = self._load.deregister(name)
        _until(lambda: task._entry.host is None, f"{name} has left")
        self._strike.at("between", MOVING)
        self._load.churn(on=True)


def _until(condition: Any, what: str) -> None:
    """Wait for another thread; imports nothing that only tests need."""
    pause = threading.Event()
    for _ in range(int(_LIMIT_S / _LOOK_S)):
        if condition():
            return
        pause.wait(_LOOK_S)
    raise TimeoutError(f"not so after {_LIMIT_S:g} s: {what}")


def _imbalances(bus: Bus) -> Iterator[str]:
    snapshot = bus.inspect()
    for task in snapshot.tasks:
        for counters in (
            task.commands,
            *(each.notifications for each in task.subscriptions),
        ):
            over = (
                counters.delivered
                + counters.dropped
                + counters.expired
                + counters.returned
            )
            if counters.accepted != over + counters.unread:
                yield f"{task.address.module} has books that do not balance: {counters}"
            if counters.unread or counters.unread_bytes:
                yield f"{task.address.module} has unread messages: {counters}"
        if task.questions or task.failures:
            yield f"{task.address.module} is not at rest: {task}"
    if snapshot.parked:
        yield f"messages wait for {dict(snapshot.parked)}"


def serve(worker: Worker) -> None:
    """Execute the orders on the standard input, until it ends."""
    for line in iter(sys.stdin.readline, ""):
        verb, *arguments = json.loads(line)
        try:
            answer = ["ok", getattr(worker, verb)(*arguments)]
        except Exception as error:  # noqa: BLE001 # reported to the caller
            answer = ["error", f"{type(error).__name__}: {error}"]
        print(json.dumps(answer), flush=True)
        worker.answered()


if __name__ == "__main__":
    serve(Worker(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
