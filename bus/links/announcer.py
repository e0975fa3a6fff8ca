"""`Announcer`: the sockets and the timer of discovery (BUS-DISC-2, BUS-DISC-3)."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from queuebroker import _net, _sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.discovery.discovery import Discovery, Event
    from bus.core.discovery.machine_table import Machine
    from queuebroker.sockets import Driver

__all__ = ["Announcer"]

_log: Final = logging.getLogger("bus")

# Datagrams read before the links are served again.
_DATAGRAMS_MAX: Final = 64


class Announcer:
    """The sockets and the timer of one master's discovery.

    It is a `Handler` of the driver of the links, and all its methods are for the thread
    that runs the driver, unless their docstrings say otherwise.

    Lock: only the driver's thread changes the discovery, and under ``_lock``; other
    threads read it under ``_lock``. ``on_event`` is never called under it.

    Args:
        discovery: the decisions.
        datagrams: the sockets.
        driver: calls this for datagrams, and in time.
        on_event: is called for each change.
    """

    __slots__ = (
        "_datagrams",
        "_discovery",
        "_driver",
        "_failure",
        "_lock",
        "_on_event",
        "_timer_at",
    )

    def __init__(
        self,
        discovery: Discovery,
        datagrams: _net.Datagrams,
        driver: Driver,
        on_event: Callable[[Event], object],
    ) -> None:
        self._discovery: Final = discovery
        self._datagrams: _net.Datagrams | None = datagrams
        self._driver: Final = driver
        self._on_event: Final = on_event
        self._lock: Final = _sync.Lock()
        # The last failure to send, which is logged once until it ends.
        self._failure: str = ""
        self._timer_at: float | None = None

    def start(self) -> None:
        """Announce the machine from now on, and listen for others; for any thread.

        Raises:
            OSError: the system can watch no more descriptors.
        """
        assert self._datagrams is not None
        self._driver.register(self._datagrams.fileno(), self, _net.READ)
        self._driver.call(self._set_timer, self)

    def machines(self) -> list[Machine]:
        """Return the known machines; any thread may call this."""
        with self._lock:
            return list(self._discovery.machines)

    def rejected(self) -> dict[str, int]:
        """Return the number of ignored datagrams, by reason; any thread may call it."""
        with self._lock:
            counted = self._discovery.reader.rejected
            return {reason.value: count for reason, count in counted.items()}

    def stop(self) -> None:
        """Announce that this master shuts down, and close the sockets."""
        datagrams = self._datagrams
        if datagrams is None:
            return
        self._datagrams = None
        self._driver.unregister(datagrams.fileno())
        with suppress(OSError):  # else they detect it by the lost link, or the lease
            datagrams.send(self._discovery.farewell())
        datagrams.close()

    # For the driver.

    def ready(self, mask: int) -> None:
        """Read the datagrams that have arrived."""
        del mask
        datagrams = self._datagrams
        for _ in range(_DATAGRAMS_MAX):
            found = None if datagrams is None else datagrams.receive()
            if found is None:
                break
            data, host = found
            with self._lock:
                event = self._discovery.on_datagram(data, host, _sync.monotonic())
            if event is not None:
                self._on_event(event)
        self._set_timer()

    def fail(self, error: BaseException) -> None:
        """End discovery; the links stay."""
        _log.error("discovery of machines ends: %s", error)
        self.stop()

    def abort(self, error: BaseException) -> None:
        """Do nothing: nothing waits for discovery."""

    def abandon_after_fork(self) -> None:
        """Close the sockets and send nothing: the parent process is still master."""
        datagrams, self._datagrams = self._datagrams, None
        if datagrams is not None:
            datagrams.close()

    def _on_time(self, moment: float) -> None:
        """Announce the machine, and forget the silent ones, if it is time.

        moment: the time for which this call was scheduled; an earlier call may have
          taken its place.
        """
        if self._datagrams is None or moment != self._timer_at:
            return
        self._timer_at = None
        now = _sync.monotonic()
        with self._lock:
            data = (
                self._discovery.announce(now) if self._discovery.due_at <= now else b""
            )
            silent = self._discovery.expire(now)
        if data:
            self._send(data)
        for event in silent:
            self._on_event(event)
        self._set_timer()

    def _send(self, data: bytes) -> None:
        assert self._datagrams is not None
        failure = ""
        try:
            self._datagrams.send(data)
        except OSError as error:  # such as an interface that is down for a moment
            failure = str(error)
        if failure and failure != self._failure:
            _log.warning("cannot announce this machine: %s", failure)
        self._failure = failure

    def _set_timer(self) -> None:
        """Call `_on_time` at the next deadline, unless an earlier call is scheduled."""
        if self._datagrams is None:
            return
        at = self._discovery.next_deadline()
        if self._timer_at is None or at < self._timer_at:
            self._timer_at = at
            self._driver.at(at, partial(self._on_time, at), self)
