"""`Threads`: threads of one process that the schedule explorer drives.

They are no stand-ins; only the API and the comm thread of a whole bus are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.process.thread_manager import ThreadManager
from queuebroker import _sync
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run, Spawned

__all__ = ["Done", "Threads"]


class Done:
    """An event that one thread sets and another waits for."""

    def __init__(self) -> None:
        self._parker = taken_lock()
        self._told: list[bool] = []

    def set(self) -> None:
        self._told.append(True)
        self._parker.release()

    def wait(self) -> None:
        _sync.park(self._parker, lambda: bool(self._told), None)


class Threads:
    """Bus threads under the explorer, which serve until `end`."""

    def __init__(self, run: Run, *names: str) -> None:
        self.managers = [ThreadManager(name) for name in names]
        self._spawned: list[Spawned[Any]] = []
        for manager in self.managers:
            self._spawned.append(run.spawn(self._serving(manager)))

    @staticmethod
    def _serving(manager: ThreadManager) -> Callable[[], None]:
        def serve() -> None:
            manager.adopt()
            manager.run()

        return serve

    def end(self) -> None:
        """Let each thread serve its inbox and the consequences, and return.

        Twice, since the last step of one thread may post to another.
        """
        for _ in range(2):
            for manager in self.managers:
                served = Done()
                manager.ask(served.set)
                served.wait()
        for manager in self.managers:
            manager.stop(_sync.monotonic() + 100)
        for spawned in self._spawned:
            spawned.join()
