"""`LoopLinks`: the links that an event loop reads in place of the comm thread.

Without them, each message of another process takes two wake-ups: of the comm thread,
and of the loop. A link belongs to the loop while its coroutines call and answer over
it. The comm thread takes it back if the loop reads nothing for a moment, as when one of
its callbacks blocks (`queuebroker.sockets.read_owner.LENT_S`).

The loop watches a poller, which contains the sockets, and no socket itself: the comm
thread may close these at any time. Only epoll has a descriptor to watch. Elsewhere the
comm thread reads all links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from queuebroker._net import Poller

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from bus.process.thread_manager import ThreadManager
    from queuebroker.sockets.read_lease import WatchedLease

__all__ = ["LoopLinks"]


class LendableLink(Protocol):
    """A link as an event loop uses it; see `bus.process.fast_path_driver`."""

    def lend(self, poller: Poller) -> WatchedLease | None:
        """Lend the read lease; None if another thread has it.

        poller: contains the link until the lease ends.
        """

    def read(self, lease: WatchedLease, host: ThreadManager) -> None:
        """Take the messages that have arrived, without a wait."""


class LoopLinks:
    """The links that one event loop reads, for one bus.

    Only the thread of the loop calls the methods; `leave_all` any thread, once the loop
    does not run.

    manager: that of the loop's tasks. on_ready: called when `read` has work to do.
    """

    __slots__ = ("_leases", "_loop", "_manager", "_poller")

    def __init__(
        self,
        manager: ThreadManager,
        loop: AbstractEventLoop,
        on_ready: Callable[[], object],
    ) -> None:
        self._manager: Final = manager
        self._loop: Final = loop
        self._leases: Final[dict[LendableLink, WatchedLease]] = {}
        self._poller: Poller | None = None
        poller = Poller()
        try:
            descriptor = poller.fileno()
        except NotImplementedError:
            poller.close()
            return
        loop.add_reader(descriptor, on_ready)
        self._poller = poller

    def take_last(self) -> None:
        """Take the link that the calling coroutine has just sent a message on, if any.

        Unless another thread reads it.
        """
        manager, poller = self._manager, self._poller
        link: LendableLink | None = manager.link_wait  # type: ignore[assignment]
        manager.link_wait = None
        if link is None or poller is None:
            return
        lease = self._leases.get(link)
        if lease is None or not lease.held:
            self._forget_ended()
            lease = link.lend(poller)
            if lease is not None:
                self._leases[link] = lease

    def _forget_ended(self) -> None:
        """Forget the leases that the comm thread has taken back, as with lost links."""
        for link, lease in [*self._leases.items()]:
            if not lease.held:
                del self._leases[link]

    def read(self) -> None:
        """Take the messages that have arrived; each is then in a mailbox or an inbox.

        Some may be left to the comm thread.
        """
        ready: set[int] | None = None
        if len(self._leases) > 1 and self._poller is not None:
            ready = {descriptor for descriptor, _ in self._poller.poll(0)}
        for link, lease in [*self._leases.items()]:
            if ready is None or lease.descriptor in ready:
                link.read(lease, self._manager)

    def leave_all(self) -> None:
        """Return all links to the comm thread."""
        for lease in [*self._leases.values()]:
            lease.leave()
        self._leases.clear()
        if self._loop.is_closed():
            self._close()

    def close(self) -> None:
        """Return all links, and let the loop watch nothing any more."""
        self.leave_all()
        if self._poller is not None:
            self._loop.remove_reader(self._poller.fileno())
            self._close()

    def _close(self) -> None:
        poller, self._poller = self._poller, None
        if poller is not None:
            poller.close()
