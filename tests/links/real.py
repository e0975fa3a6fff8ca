"""Real processes on a bus, driven line by line.

Each process runs this file as a program. It reads Python expressions, one per line,
evaluates them with ``bus`` and a few helpers in scope, and replies with one line of
JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Self

from tests.processes import import_path
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, Incoming

__all__ = ["Far"]


class Far:
    """A process on a bus; a context manager that kills the process at the end.

    journal: the folder of its journal; None to record nothing.
    """

    def __init__(
        self,
        name: str,
        *,
        role: str = "auto",
        bus: str = "bus1",
        journal: Path | None = None,
    ) -> None:
        folder = () if journal is None else (str(journal),)
        self.name: Final = name
        self._process: Final = subprocess.Popen(
            [sys.executable, "-m", "tests.links.real", name, role, bus, *folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": import_path()},
        )
        self._lines: Final[SimpleQueue[str]] = SimpleQueue()
        self._reader: Final = Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def answer(self) -> Any:
        """Wait for the next reply."""
        try:
            line = self._lines.get(timeout=LIMIT_S)
        except Empty:
            raise AssertionError(f"{self.name} does not answer") from None
        kind, value = json.loads(line)
        assert kind == "ok", f"{self.name}: {value}"
        return value

    def tell(self, expression: str) -> None:
        """Send an expression, and do not wait for the reply."""
        assert self._process.stdin is not None
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()

    def __call__(self, expression: str) -> Any:
        """Send an expression; return the reply."""
        self.tell(expression)
        return self.answer()

    def started(self) -> Self:
        """Wait until the process has joined the bus."""
        assert self.answer() == "joined"
        return self

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the process; if it is SIGSTOP, wait until it has stopped.

        A process on another processor runs on for a moment, and may still reply.
        """
        self._process.send_signal(number)
        if number == signal.SIGSTOP:
            until(self._stands_still, "it stands still")

    def _stands_still(self) -> bool:
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/stat")
        states = [each.read_text().rpartition(")")[2].split()[0] for each in tasks]
        return set(states) == {"T"}


class Counter:
    """A task that records the messages it receives, and replies with the payload."""

    def __init__(self, bus: Bus, name: str, **options: Any) -> None:
        self.got: list[Any] = []
        self.task = bus.register(name, on_command=self._got, **options)

    def _got(self, message: Incoming) -> Any:
        self.got.append(message.payload)
        return message.payload

    def wait(self, count: int) -> list[Any]:
        """Wait until the task has received `count` messages."""
        until(lambda: len(self.got) >= count, f"{count} messages come")
        return self.got


def _lines() -> Iterator[str]:
    yield from iter(sys.stdin.readline, "")


def _main(name: str, role: str, bus_name: str, folder: str | None = None) -> None:
    from bus import Role, open_bus  # noqa: PLC0415 # not for importers of `Far`
    from bus.journal.writer import Journal  # noqa: PLC0415 # as above

    made: dict[str, Any] = {}

    def tell(kind: str, value: Any) -> None:
        print(json.dumps([kind, value], default=repr), flush=True)

    def counter(task: str, **options: Any) -> None:
        made[task] = Counter(bus, task, **options)

    journal = (
        None
        if folder is None
        else Journal(folder, machine="machine", segment_bytes=16 << 10)
    )
    with open_bus(
        bus_name, process=name, machine="machine", role=Role(role), journal=journal
    ) as bus:
        tell("ok", "joined")
        around = {"bus": bus, "made": made, "counter": counter, "journal": journal}
        for line in _lines():
            try:
                tell("ok", eval(line, around))  # from our own tests only
            except Exception as error:  # noqa: BLE001 # reported to the parent
                tell("error", f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
