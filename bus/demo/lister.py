"""`Lister`: hands out files by command, one at a time to each worker there is.

It knows no worker beforehand: it watches a pattern of names. Whoever appears is given
something to do; what somebody had in hand who is gone is given to another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.demo.messages import Give, Leave

if TYPE_CHECKING:
    from bus.api.bus import Bus
    from bus.api.task import CommandHandle
    from bus.demo.agenda import Agenda, Item
    from bus.message import Presence, Response

__all__ = ["LISTER", "WORKERS", "Lister"]

LISTER: Final = "lister"
WORKERS: Final = "worker/*"


class Lister:
    """The task that knows what is to be done; it takes no lock, see below.

    Everything here happens in callbacks of its task, which run one at a time.
    """

    def __init__(self, bus: Bus, agenda: Agenda) -> None:
        self._agenda: Final = agenda
        self._busy: Final[dict[str, tuple[Item, CommandHandle]]] = {}
        # In the order in which they came to have nothing to do.
        self._idle: Final[dict[str, None]] = {}
        self._task: Final = bus.register(LISTER)
        self._task.watch(WORKERS, self._seen)

    def _seen(self, presence: Presence) -> None:
        worker = presence.address.module
        if presence.here:
            self._idle[worker] = None
        else:
            self._idle.pop(worker, None)
            self._take_back(worker)
        self._hand_out()

    def _answered(self, response: Response) -> None:
        worker = response.reference
        if response.error is not None:
            # It broke down, and would do so again: it is given nothing more.
            self._take_back(worker)
            self._task.command(worker, Leave())
        elif worker in self._busy:
            item, _ = self._busy.pop(worker)
            self._agenda.done(item)
            self._idle[worker] = None
        self._hand_out()

    def _take_back(self, worker: str) -> None:
        if worker in self._busy:
            item, handle = self._busy.pop(worker)
            handle.cancel()
            self._agenda.give_back(item)

    def _hand_out(self) -> None:
        """Give each worker that has nothing to do a file, or let it go."""
        for worker in list(self._idle):
            item = self._agenda.take()
            if item is not None:
                handle = self._task.command(
                    worker,
                    Give(*item),
                    on_response=self._answered,
                    ref=worker,
                    timeout=None,  # a slow disk takes as long as it does
                )
                self._busy[worker] = item, handle
            elif self._agenda.over:
                self._task.command(worker, Leave())
            else:
                break
            del self._idle[worker]
