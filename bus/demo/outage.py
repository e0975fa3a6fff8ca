"""`Outage`: cuts the cable between two machines once, and heals it again.

It notifies of each step, and it goes by what the bus reports: the cable stays cut until
all workers of the other machine are reported lost, and the run goes on until all of
them are reported again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

from bus.demo.messages import Linked
from bus.errors import BusFullError
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.api.bus import Bus
    from bus.demo.cable import Cable
    from bus.model.message import Presence

__all__ = ["BEFORE_S", "CABLE", "Outage", "OutageTimes"]

CABLE: Final = "cable"  # the task that notifies
BEFORE_S: Final = 1.0  # from the start of the work to the cut
AFTER_S: Final = 1.0  # from the loss of the last worker until the cable is healed
LOOK_S: Final = 0.1  # between two looks at a request to stop
STUCK_S: Final = 60.0  # until a change that the bus does not report counts as a failure


@attrs.frozen(slots=True)
class OutageTimes:
    """The durations of an outage, in seconds.

    cut: from the cut until the cable was healed. lost: from the cut until the last
    worker was reported lost. restored: from the healing until all were reported again.
    """

    cut: float
    lost: float
    restored: float


class _StoppedError(Exception):
    """The run ends early."""


class Outage:
    """One outage, in a thread of its own.

    has_ended: True if nothing is to happen any more.
    times: None until the outage is over.
    failure: the reason, if the bus did not report an expected change; "" otherwise.

    Lock: none. Its thread alone writes; the flag to stop is written by others.

    Args:
        where: the specification of the workers on the other machine.
        count: their number.
        before_s: how long after `start` the cable is cut.
        give_up: called if the workers are not lost or not found again, so that the run
            ends.
    """

    def __init__(
        self,
        bus: Bus,
        cable: Cable,
        where: str,
        count: int,
        *,
        before_s: float,
        give_up: Callable[[], object],
    ) -> None:
        self._bus: Final = bus
        self._cable: Final = cable
        self._where: Final = where
        self._count: Final = count
        self._before_s: Final = before_s
        self._give_up: Final = give_up
        self._present: Final[set[str]] = set()
        self._is_stopped = False
        self._thread: Final = _sync.Thread(target=self._run, name=CABLE)
        self.has_ended = False
        self.times: OutageTimes | None = None
        self.failure = ""

    def start(self) -> None:
        """Begin to wait for the cut."""
        self._thread.start()

    def stop(self) -> None:
        """End now, in any state, with a whole cable; do nothing before `start`."""
        self._is_stopped = True
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with suppress(_StoppedError):
                self._cut_and_heal()
        finally:
            self._cable.heal()
            self.has_ended = True
            if self.failure:
                self._give_up()

    def _cut_and_heal(self) -> None:
        self._here = self._bus.here(CABLE)
        self._task = self._bus.register(CABLE, thread=self._here)
        self._task.watch(self._where, self._seen)
        self._await_workers(self._count)
        self._pause(self._before_s)
        cut = _sync.monotonic()
        self._cable.cut()
        self._tell("cut", 0.0)
        self._await_workers(0)
        lost = _sync.monotonic()
        self._tell("lost", lost - cut)
        self._pause(AFTER_S)
        self._cable.heal()
        healed = _sync.monotonic()
        self._tell("healed", healed - cut)
        self._await_workers(self._count)
        restored = _sync.monotonic()
        self._tell("restored", restored - healed)
        self.times = OutageTimes(healed - cut, lost - cut, restored - healed)
        self._task.deregister(final=True)

    def _seen(self, presence: Presence) -> None:
        change = self._present.add if presence.here else self._present.discard
        change(presence.address.module)

    def _await_workers(self, count: int) -> None:
        until = _sync.monotonic() + STUCK_S
        while len(self._present) != count:
            self._poll()
            if _sync.monotonic() > until:
                self.failure = (
                    f"{len(self._present)} workers are at {self._where}, expected"
                    f" {count}: the bus has reported no change for {STUCK_S:g} s"
                )
                raise _StoppedError

    def _pause(self, seconds: float) -> None:
        until = _sync.monotonic() + seconds
        while _sync.monotonic() < until:
            self._poll()

    def _poll(self) -> None:
        if self._is_stopped:
            raise _StoppedError
        self._here.poll(LOOK_S)

    def _tell(self, event: str, seconds: float) -> None:
        with suppress(BusFullError):  # without a listener the outage goes on
            self._task.notify(Linked(event, seconds))
