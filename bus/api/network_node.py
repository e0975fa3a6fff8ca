"""`NetworkNode`: this process among the other processes of a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.api.arguments import wrong_type
from bus.features import FEATURES
from bus.kernel import constants
from bus.kernel.tasks.process_manager import ProcessManager
from bus.kernel.trace import Journal
from bus.process.exchange import Exchange
from queuebroker import _sync
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.features import NewBus
    from bus.kernel.hooks import JoinHooks
    from bus.model.config import BusConfig
    from bus.process.comm_thread import CommThread, ProcessNetwork

__all__ = ["NetworkNode", "new_exchange"]


def new_exchange(new: NewBus, journal: Journal | None) -> tuple[Exchange, int]:
    """Return the exchange of a process, and the incarnation of this life of it.

    It is that of the network, or a higher one: a durable process takes one above those
    of its earlier lives (AMO-17).

    Raises:
        TypeError, ValueError: the journal is none, or closed.
        BusError, OSError: a feature cannot begin.
    """
    if journal is not None:
        if not isinstance(journal, Journal):
            # `Journal` is a protocol; users make the class that has it.
            raise wrong_type("journal", "a bus.journal.writer.Journal", journal)
        if journal.closed:
            msg = f"journal must be open until the bus is closed, got {journal!r}"
            raise ValueError(msg)
    hooks = [each.on_open(new) for each in FEATURES if each.on_open]
    incarnation = max([new.incarnation, *(each.incarnation for each in hooks)])
    trace_sink = None
    if journal is not None:
        trace_sink = journal._trace_sink()
        trace_sink.on_registered(incarnation, "")
    manager = ProcessManager(
        new.machine,
        new.process,
        parked_per_name=constants.PARKED_PER_NAME,
        parked_in_all=constants.PARKED_PER_PROCESS,
        resolve_timeout_s=new.config.resolve_timeout_s,
        incarnation=incarnation,
    )
    remote_features = [each.on_begin for each in FEATURES if each.on_begin]
    return Exchange(manager, trace_sink, hooks, remote_features), incarnation


_LOOK_S: Final = 0.002  # interval between two checks of the parked list in `drain`


class NetworkNode:
    """A process as a node of the network of a bus.

    Args:
        exchange, config: those of the bus.
        hooks: returns the hooks that the features give when the process joins.

    Attributes:
        network: the network; None if the process stays alone on the bus.
        incarnation: the number of this life of the process; 0 without a network.
        comm: the comm thread; None while this process is alone on the bus.
    """

    def __init__(
        self,
        network: ProcessNetwork | None,
        incarnation: int,
        exchange: Exchange,
        config: BusConfig,
        hooks: Callable[[], tuple[JoinHooks, ...]],
    ) -> None:
        self.network: Final = network
        self.incarnation: Final = incarnation
        self._exchange: Final = exchange
        self._config: Final = config
        self.comm: CommThread | None = None
        self._new_hooks: Final = hooks
        self._hooks: tuple[JoinHooks, ...] = ()  # none before `join`

    def start_comm(self) -> None:
        """Start the comm thread, unless it runs."""
        assert self.network is not None
        if self.comm is None:
            for feature in FEATURES:
                if feature.on_connect is not None:
                    feature.on_connect(self._exchange)
            manager = self._exchange.manager
            self.comm = self.network.join(
                manager.machine,
                manager.process,
                self.incarnation,
                self._exchange,
                self._config,
            )

    def join(self) -> None:
        """Join the network, and wait for the outcome; see `open_bus`."""
        self.start_comm()
        assert self.comm is not None
        self.comm.join_state.verdict.wait(
            _sync.monotonic() + self._config.connect_timeout_s
        )
        self._hooks = self._new_hooks()
        for each in self._hooks:
            each.begin()

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
        """End the features and the comm thread.

        drain_s: the seconds for which the comm thread may still send.
        waits: True to return only when the comm thread has ended.
        """
        for each in reversed(self._hooks):
            each.end()
        comm, network = self.comm, self.network
        if comm is None or network is None:
            self._on_left()
            return
        manager = self._exchange.manager

        def leave_network() -> None:
            network.leave(manager.machine, manager.process, comm)
            self._on_left()

        comm.stop(_sync.monotonic() + drain_s, then=leave_network)
        if waits:
            comm.join()
            self._on_left()  # if the thread had ended before

    def _on_left(self) -> None:
        for each in self._exchange.hooks:
            each.on_left()
