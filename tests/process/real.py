"""Real processes on a bus, driven by Python expressions: see `real_process`.

A server that has imported the bus forks them: an interpreter that imports it anew takes
ten times as long to start. Where there is no fork, each one is a new interpreter.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from multiprocessing import forkserver, get_context
from multiprocessing.reduction import send_handle
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from bus import Network, Role
from queuebroker import _net
from tests.kit.systems import require_unix_sockets
from tests.process import real_process
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MACHINE", "Far"]

MACHINE: Final = "machine"

_STDERR: Final = 2

_CONTEXT: Final[Any] = get_context("forkserver" if _net.HAS_UNIX else "spawn")
if _net.HAS_UNIX:
    # The server starts here, not with the first process: its descriptors are no leak of
    # that process's test.
    preloaded = [real_process.__name__, "bus.process.socket_network"]
    _CONTEXT.set_forkserver_preload(preloaded)
    forkserver.ensure_running()


class Far:
    """A process on a bus; a context manager that kills the process at the end.

    journal: the folder of its journal; None to record nothing.
    machine: its machine; each has a run directory of its own.
    network: its links with other machines. Without UNIX sockets a process is a machine
      of its own; a test of one without a network is skipped there.
    settings: for `configured`; the others have their defaults.
    """

    def __init__(
        self,
        name: str,
        *,
        role: str = "auto",
        bus: str = "bus1",
        journal: Path | None = None,
        machine: str = MACHINE,
        network: Network | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        if network is None:
            require_unix_sockets()
        self.name: Final = name
        environment = dict(os.environ)
        if machine != MACHINE:
            environment["BUS_RUN_DIR"] += f"-{machine}"
        self._connection, its_connection = _CONTEXT.Pipe()
        self._process: Final = _CONTEXT.Process(
            target=real_process.evaluate,
            args=(
                its_connection,
                environment,
                {
                    "name": bus,
                    "role": Role(role),
                    "process": name,
                    "machine": machine,
                    "network": network,
                    "settings": dict(settings),
                },
                journal,
            ),
            daemon=True,
        )
        self._process.start()
        if _net.HAS_UNIX:
            # The server has the standard error of its own start, which pytest cannot
            # read.
            send_handle(self._connection, _STDERR, self._process.pid)
        its_connection.close()
        self._lines: Final[SimpleQueue[bytes]] = SimpleQueue()
        self._reader: Final = Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._reader.join()
        self._connection.close()
        self._process.close()

    @property
    def pid(self) -> int:
        pid: int = self._process.pid
        return pid

    def _read(self) -> None:
        with suppress(EOFError, ConnectionError):
            while True:
                self._lines.put(self._connection.recv_bytes())

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
        self._connection.send(expression)

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
        self._process.kill()
        self._process.join()

    def signal(self, number: int) -> None:
        """Send a signal to the process; if it is SIGSTOP, wait until it has stopped.

        A process on another processor runs on for a moment, and may still reply.
        """
        os.kill(self.pid, number)
        if number == signal.SIGSTOP:
            until(self._stands_still, "it stands still")

    def _stands_still(self) -> bool:
        tasks = Path(f"/proc/{self.pid}/task").glob("*/stat")
        states = [each.read_text().rpartition(")")[2].split()[0] for each in tasks]
        return set(states) == {"T"}
