"""`NetworkNode`: this process among the other processes of a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.api.inspector import Inspector
from queuebroker import _sync
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.api.snapshot import BusSnapshot
    from bus.config import BusConfig
    from bus.links.comm_thread import CommThread
    from bus.links.network import Network
    from bus.threads.router import Router
    from bus.threads.thread_manager import ThreadManager

__all__ = ["NetworkNode"]

_LOOK_S: Final = 0.002  # interval between two checks of the parked list in `drain`


class NetworkNode:
    """A process as a node of the network of a bus.

    Args:
        router, config: those of the bus.

    Attributes:
        network: the network; None if the process stays alone on the bus.
        incarnation: the number of this life of the process; 0 without a network.
        comm: the comm thread; None while this process is alone on the bus.
        inspector: answers inspection requests of other processes; None before `join`.
    """

    def __init__(
        self,
        network: Network | None,
        incarnation: int,
        router: Router,
        config: BusConfig,
    ) -> None:
        self.network: Final = network
        self.incarnation: Final = incarnation
        self._router: Final = router
        self._exchange: Final = router.exchange
        self._config: Final = config
        self.comm: CommThread | None = None
        self.inspector: Inspector | None = None

    def start_comm(self) -> None:
        """Start the comm thread, unless it runs."""
        assert self.network is not None
        if self.comm is None:
            manager = self._exchange.manager
            self.comm = self.network.join(
                manager.machine,
                manager.process,
                self.incarnation,
                self._exchange,
                self._config,
            )

    def join(
        self,
        bus: str,
        look: Callable[[], tuple[BusSnapshot, Sequence[ThreadManager]]],
    ) -> None:
        """Join the network, and wait for the outcome; see `open_bus`.

        bus, look: as for `Inspector`.
        """
        self.start_comm()
        assert self.comm is not None
        self.comm.join_state.verdict.wait(
            _sync.monotonic() + self._config.connect_timeout_s
        )
        self.inspector = Inspector(bus, self._router, look)
        self.inspector.begin(self._config)

    def drain(self, until: float) -> None:
        """Wait until the parked list is empty, or until a time.

        When the sender deregisters, the search for the name ends (BUS-DEREG-11). A
        process that is alone does not wait: no other one can register the name.
        """
        if self.comm is None:
            return
        parked, never = self._exchange.manager.parked, taken_lock()
        while len(parked) and _sync.monotonic() < until:
            # Poll: the parked list wakes no waiter, as only this rare call would wait.
            soon = min(until, _sync.monotonic() + _LOOK_S)
            _sync.park(never, lambda: not len(parked), soon)

    def leave(self, drain_s: float, *, waits: bool) -> None:
        """End the inspector and the comm thread.

        drain_s: the seconds for which the comm thread may still send.
        waits: True to return only when the comm thread has ended.
        """
        if self.inspector is not None:
            self.inspector.close()
        comm, network = self.comm, self.network
        if comm is None or network is None:
            self._end_features()
            return
        manager = self._exchange.manager

        def leave_network() -> None:
            network.leave(manager.machine, manager.process, comm)
            self._end_features()

        comm.stop(_sync.monotonic() + drain_s, then=leave_network)
        if waits:
            comm.join()
            self._end_features()  # if the thread had ended before

    def _end_features(self) -> None:
        for each in self._exchange.hooks:
            each.end()
