"""`Lister`: hands out files by command, a few at a time to each known worker.

It knows no worker beforehand: it watches a pattern of names, on each machine. A worker
that appears gets files; the unfinished files of a worker that left go to another one. A
worker that was out of reach gets files again when it is back.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

from bus.demo.messages import Give, Leave, Rescued
from bus.errors import (
    AddresseeGoneError,
    BusFullError,
    InDoubtError,
    PeerLostError,
    RemoteError,
    UnreachableError,
    UnresolvedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.api.bus import Bus
    from bus.api.sender import CommandHandle
    from bus.model.address import Address
    from bus.model.message import Presence, Response

__all__ = ["LISTER", "WORKERS", "Lister", "WorkList"]

LISTER: Final = "lister"
WORKERS: Final = "worker/*"
# The outcomes that the bus reports for a command to a lost process, in words.
_TOLD: Final[dict[type[object], str]] = {
    InDoubtError: "in doubt",
    PeerLostError: "peer lost",
}
# Those for a command that its worker certainly did not get.
_RETURNED: Final = (AddresseeGoneError, UnreachableError, UnresolvedError)

Item = tuple[int, int]  # the pass, from 1, and the index of the file


@attrs.define(slots=True)
class _Given:
    """A file that a worker was commanded to read.

    told: the outcome that the bus reported, once that worker's process was lost.
    """

    worker: str
    handle: CommandHandle
    told: str = ""


class Lister:
    """The task that assigns the work; it needs no lock.

    Everything here happens in callbacks of its task, which run one at a time.

    unanswered: the number of commands that were not answered, by the outcome that the
      bus reported: "in doubt", "peer lost" or "returned".

    Args:
        ahead: the largest number of files that a worker may hold.
        awaited: no file is handed out before all of these have appeared; then each has
            its turn in the order of their names.
        machines: other machines, whose workers get files, too.
    """

    def __init__(
        self,
        bus: Bus,
        work_list: WorkList,
        *,
        ahead: int = 1,
        awaited: Iterable[str] = (),
        machines: Iterable[str] = (),
    ) -> None:
        self._work_list: Final = work_list
        self._ahead: Final = ahead
        self._awaited: Final = set(awaited)
        self._out: Final[dict[Item, _Given]] = {}
        # Items that were taken back and are not done yet, with their former worker.
        self._astray: Final[dict[Item, _Given]] = {}
        # The free places of all workers, the longest free one first. A worker has as
        # many places as it may hold files.
        self._idle: deque[str] = deque()
        self._addresses: Final[dict[str, Address]] = {}
        self.unanswered: Final[Counter[str]] = Counter()
        self._task: Final = bus.register(LISTER)
        self._task.watch(WORKERS, self._seen)
        for machine in machines:
            self._task.watch(f"ism://{machine}/{WORKERS}", self._seen)

    def _seen(self, presence: Presence) -> None:
        worker = presence.address.module
        self._addresses[worker] = presence.address
        if presence.here:
            self._idle.extend([worker] * self._ahead)
        else:
            self._take_back(worker)
        if worker in self._awaited:
            self._awaited.discard(worker)
            if not self._awaited:
                self._idle = deque(sorted(set(self._idle)) * self._ahead)
        self._hand_out()

    def _answered(self, response: Response) -> None:
        worker, item = response.reference
        given = self._out.get(item)
        holds = given is not None and given.worker == worker
        told = _TOLD.get(type(response.error))
        if told is not None or isinstance(response.error, _RETURNED):
            self.unanswered[told or "returned"] += 1
        if told is not None:
            # Otherwise it was taken back before; by now the worker may be back, too.
            if holds:
                self._take_back(worker)
            astray = self._astray.get(item)
            # Unless it is done, or another worker has lost it, meanwhile.
            if astray is not None and astray.worker == worker:
                astray.told = told
        elif response.error is not None:
            if holds:
                # It left, or failed and would fail again: give it nothing more.
                self._take_back(worker)
                if isinstance(response.error, RemoteError):
                    self._task.command(self._addresses[worker], Leave())
        elif holds:
            self._cross_off(item, worker)
            self._idle.append(worker)
        self._hand_out()

    def _cross_off(self, item: Item, worker: str) -> None:
        """Note that a worker has done a file, perhaps in place of another."""
        del self._out[item]
        self._work_list.done(item)
        before = self._astray.pop(item, None)
        if before is None:
            return
        before.handle.cancel()
        if before.told:
            # Without a listener the work continues.
            with suppress(BusFullError):
                _, index = item
                self._task.notify(Rescued(before.worker, index, before.told, worker))

    def _take_back(self, worker: str) -> None:
        """Return a worker's files to the work list, and give it nothing more."""
        self._idle = deque(each for each in self._idle if each != worker)
        # In reverse, so that the first of them is the first again.
        for item, given in reversed(list(self._out.items())):
            if given.worker == worker:
                del self._out[item]
                self._work_list.give_back(item)
                before = self._astray.get(item)
                if before is not None:
                    before.handle.cancel()
                # Its command stays open: the bus may still report its outcome.
                self._astray[item] = given

    def _hand_out(self) -> None:
        """Give a file to each worker with a free place, or let the worker leave."""
        while self._idle and not self._awaited:
            item = self._work_list.take()
            if item is not None:
                worker = self._idle.popleft()
                handle = self._task.command(
                    self._addresses[worker],
                    Give(*item),
                    on_response=self._answered,
                    ref=(worker, item),
                    timeout=None,  # a slow disk takes as long as it does
                )
                self._out[item] = _Given(worker, handle)
            elif self._work_list.over:
                for worker in dict.fromkeys(self._idle):
                    self._task.command(self._addresses[worker], Leave())
                self._idle.clear()
            else:
                break


class WorkList:
    """The files of one pass after another: those still to be done, and those out.

    If a worker leaves with a file, another worker gets that file. So there may be
    nothing to hand out now and something later, and no pass begins before the previous
    one is complete. This class never waits and has no lock: it belongs to the lister.

    passes: the number of passes begun.
    over: True if every file of every pass is done.

    Invariant: an item is in ``_left``, in ``_out`` or done, and in one of them only.

    Args:
        files: the number of files in a pass, at least 1.
        again: called when a pass is complete; returns True for another one.
    """

    def __init__(self, files: int, again: Callable[[], bool]) -> None:
        self._files = files
        self._again = again
        self._out: set[Item] = set()
        self._left: deque[Item] = deque()
        self.passes = 0
        self.over = False
        self._begin()

    def take(self) -> Item | None:
        """Return an item to hand out; None if there is none now."""
        if not self._left:
            return None
        item = self._left.popleft()
        self._out.add(item)
        return item

    def done(self, item: Item) -> None:
        """Remove an item; the last one of a pass begins another pass or ends all."""
        self._out.remove(item)
        if not (self._left or self._out):
            if self._again():
                self._begin()
            else:
                self.over = True

    def give_back(self, item: Item) -> None:
        """Return an item that another worker is to do."""
        self._out.remove(item)
        self._left.appendleft(item)

    def _begin(self) -> None:
        self.passes += 1
        self._left.extend((self.passes, index) for index in range(self._files))
