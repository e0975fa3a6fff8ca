"""`Shutdown`: the end of the comm thread, and the work that it finishes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.remote.remote_manager import RemoteManager
    from bus.links.link_pool import LinkPool
    from bus.links.rounds import Rounds
    from bus.threads.exchange import Exchange

__all__ = ["Shutdown"]


class Shutdown:
    """The end of one comm thread; for that thread alone.

    The thread ends once no task is left and nothing is pending, or at a time limit.

    Args:
        exchange, remote, link_pool, rounds: the instances of this process.

    Attributes:
        until: the time limit; None before `begin`.
        then: called at the end.
    """

    __slots__ = ("_exchange", "_link_pool", "_remote", "_rounds", "then", "until")

    def __init__(
        self,
        exchange: Exchange,
        remote: RemoteManager,
        link_pool: LinkPool,
        rounds: Rounds,
    ) -> None:
        self._exchange: Final = exchange
        self._remote: Final = remote
        self._link_pool: Final = link_pool
        self._rounds: Final = rounds
        self.until: float | None = None
        self.then: Callable[[], object] = list

    def begin(self, until: float, then: Callable[[], object]) -> None:
        """Set the time limit, and acknowledge all messages taken so far."""
        self.until, self.then = until, then
        self._exchange.decide(lambda: self._remote.acknowledge(_sync.monotonic()))

    def may_end(self) -> bool:
        """Return True if the thread may end; then close the rounds to other threads."""
        if self.until is None:
            return False
        with self._rounds.hold:
            self._rounds.closed = finished = self._is_finished()
            return finished

    def _is_finished(self) -> bool:
        if self.until is None or self._rounds.is_due():
            return False
        if self.until <= _sync.monotonic():
            return True  # though a full link may still hold frames (BUS-DEREG-12)
        return not self._link_pool.sending and self._exchange.query(self._is_quiet)

    def _is_quiet(self) -> bool:
        """Return True if no task is left and all messages are acknowledged."""
        if any(not entry.remote for entry in self._exchange.manager.table):
            return False
        return not any(
            peer.session.ack_at is not None
            or any(relay.queue or relay.unacked for relay in peer.all_relays())
            for peer in self._remote.topology.peers.values()
        )
