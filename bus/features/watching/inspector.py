"""`Inspector`: the task by which a process reports its identity and its state.

Each process of a bus has one, named ``_bus/`` plus the process name. It runs in a
thread of its own, so it answers while all tasks of the user are busy. It answers any
command with one map of plain values: see `bus.features.watching.inspection`.

A command ``{"frames": ...}`` requests the frames that cross the links of the process;
see `MonitorLeases`. The answer to ``{"unanswered": name}`` is the reason why the task
of that name does not answer; see `bus.api.outcome`. For frequent questions there are
two smaller maps: the answer to ``{"report": "brief"}`` is the part whose cost does not
grow with the tasks, and that to ``{"report": "busy"}`` leaves out sums, names and
idle relays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from bus.api.arguments import new_account_limits
from bus.api.questions import why_unanswered
from bus.api.receiver import Receiver
from bus.model.address import SYSTEM, check_module_name
from bus.model.registration import Visibility
from bus.process.account import Account
from bus.process.thread_manager import ThreadManager
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.features.watching.frame_monitor import MonitorLeases
    from bus.kernel.tasks.routing_table import Entry
    from bus.model.config import BusConfig
    from bus.model.message import Incoming
    from bus.process.exchange import Exchange
    from bus.process.router import Router

__all__ = ["Inspector", "inspector_of", "own_inspector"]


def inspector_of(process: str) -> str:
    """Return the name of the inspector of a process."""
    return f"{SYSTEM}/{process}"


def own_inspector(exchange: Exchange) -> Inspector | None:
    """Return the inspector of this process; None if it has none."""
    entry = exchange.find(inspector_of(exchange.manager.process))
    found: Inspector | None = None if entry is None else entry.mailbox.client._reference
    return found


class Inspector:
    """Reports the state of one process; started once, closed once or more.

    Args:
        router, config: those of the bus.
        bus: the name of the bus.
        managers: returns the managers of the threads of the bus.

    Attributes:
        closed: True if no frames are reported, since this process listens to others:
            most of its own frames only carry those reports.
    """

    __slots__ = (
        "_bus",
        "_config",
        "_entry",
        "_exchange",
        "_manager",
        "_managers",
        "_monitor_leases",
        "_router",
        "_since",
        "_thread",
        "closed",
    )

    def __init__(
        self,
        router: Router,
        config: BusConfig,
        bus: str,
        managers: Callable[[], Sequence[ThreadManager]],
    ) -> None:
        self._bus: Final = bus
        self._config: Final = config
        self._router: Final = router
        self._exchange: Final = router.exchange
        self._managers: Final = managers
        self._since: Final = _sync.monotonic()
        self._manager: Final = ThreadManager("inspector")
        self._entry: Entry | None = None
        self._thread: _sync.Thread | None = None
        self._monitor_leases: MonitorLeases | None = None  # made for the first listener
        self.closed: bool = False

    # Life cycle.

    def begin(self) -> None:
        """Answer commands from now on, until `close`.

        If the process name leaves no room for the prefix of the inspector's name, the
        process has no inspector.
        """
        name = inspector_of(self._exchange.manager.process)
        try:
            check_module_name(name)
        except ValueError:
            return
        account = Account(**new_account_limits(self._config, "error", None))
        receiver = Receiver(
            self._router, self._config, account, self._answer, self, None
        )
        self._entry = self._exchange.register(
            name, Visibility.PUBLIC, self._bus, self._manager, receiver
        )
        self._thread = _sync.Thread(
            target=self._serve, name=f"{self._bus} inspector", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:  # the system has no thread left
            self._thread = None
            # Deregister the task here: otherwise a close waits for it for ever.
            self._manager.stop(_sync.monotonic())
            self._serve()
            raise

    def close(self) -> None:
        """Leave the bus; return after the thread has ended."""
        if self._thread is not None:
            self._manager.stop(_sync.monotonic())
            self._thread.join()

    def _serve(self) -> None:
        manager, entry = self._manager, self._entry
        assert entry is not None
        with manager.driving:
            manager.adopt()
            manager.run()
            self._exchange.deregister(entry, final=True)
            # The entry may still be on its way here, and has to be opened first.
            while entry.host is not None or not manager.end():
                manager.poll(None)

    # Reports. The modules that make them are loaded for the first one.

    def _answer(self, message: Incoming) -> Any:
        """Return the requested frames or reason, or the state of the process."""
        asked = message.payload
        if isinstance(asked, Mapping) and "frames" in asked:
            return self._frames(message, asked["frames"])
        if isinstance(asked, Mapping) and "unanswered" in asked:
            named, name = self._exchange.manager.table.named, str(asked["unanswered"])
            return why_unanswered(self._exchange.query(lambda: named(name)))
        from bus.features.watching import inspection  # noqa: PLC0415 - see above

        part = asked.get("report") if isinstance(asked, Mapping) else None
        known = self._exchange, self._bus, self._managers(), self._since
        if part == "brief":
            return inspection.brief(*known)
        return inspection.report(*known, whole=part != "busy")

    def _frames(self, message: Incoming, types: object) -> Any:
        if self._monitor_leases is None:
            from bus.features.watching.frame_monitor import MonitorLeases  # noqa: PLC0415

            self._monitor_leases = MonitorLeases(self._exchange, self._manager)
        return self._monitor_leases.answer(message, types, closed=self.closed)
