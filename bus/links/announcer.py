"""`Announcer`: the sockets and the timer of discovery (BUS-DISC-2, BUS-DISC-3)."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from queuebroker import _net, _sync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.core.discovery.discovery import Discovery, Event
    from bus.core.discovery.machine_table import Machine
    from queuebroker.sockets import Driver

__all__ = ["Announcer", "AnnouncerHost"]

# Datagrams read before the links are served again.
_DATAGRAMS_MAX: Final = 64
# Failures to send, one after another, after which the sockets are opened anew: those of
# an interface that was removed never work again.
_FAILURES_MAX: Final = 3
# When to try again to open the sockets, in seconds.
_AGAIN_S: Final = 5.0


class AnnouncerHost(Protocol):
    """The owner of an `Announcer`."""

    def open_group(self) -> _net.Datagrams:
        """Open the sockets; called at first, and after failures.

        Raises:
            OSError, ModuleNotFoundError: see `AnnouncementGroup`.
        """

    def group_keys(self) -> Sequence[bytes]:
        """Return the group keys, which may be replaced; called for each announcement.

        The newest is first; empty without keys.
        """

    def on_event(self, event: Event) -> None:
        """Handle a change of the known machines."""

    def report(self, text: str) -> None:
        """Log a line as soon as this thread holds no lock."""


class Announcer:
    """The sockets and the timer of one master's discovery.

    It is a `Handler` of the driver of the links, and all its methods are for the thread
    that runs the driver, unless their docstrings say otherwise.

    Lock: only the driver's thread changes the discovery, and under ``_lock``; other
    threads read it under ``_lock``. The host is never called under it.

    Args:
        discovery: the decisions.
        host: opens the sockets, and handles the changes.
        driver: calls this for datagrams, and in time.

    Raises:
        OSError, ModuleNotFoundError: see `AnnouncementGroup`.
    """

    __slots__ = (
        "_datagrams",
        "_discovery",
        "_driver",
        "_ended",
        "_failure",
        "_failures",
        "_host",
        "_is_behind",
        "_lock",
        "_timer_at",
    )

    def __init__(
        self,
        discovery: Discovery,
        host: AnnouncerHost,
        driver: Driver,
    ) -> None:
        self._discovery: Final = discovery
        self._host: Final = host
        self._driver: Final = driver
        self._lock: Final = _sync.Lock()
        self._datagrams: _net.Datagrams | None = host.open_group()
        self._ended: bool = False
        # The last failure, which is logged once until it ends; how many there were.
        self._failure: str = ""
        self._failures: int = 0
        # True if datagrams that have arrived may be unread: no lease expires then.
        self._is_behind: bool = False
        self._timer_at: float | None = None

    def start(self) -> None:
        """Announce the machine from now on, and listen for others; for any thread."""
        self._driver.call(self._begin, self)

    def machines(self) -> list[Machine]:
        """Return the known machines; any thread may call this."""
        with self._lock:
            return [attrs.evolve(each) for each in self._discovery.machines]

    def rejected(self) -> dict[str, int]:
        """Return the number of ignored datagrams, by reason; any thread may call it."""
        with self._lock:
            counted = self._discovery.reader.rejected
            return {reason.value: count for reason, count in counted.items()}

    def stop(self) -> None:
        """Announce that this master shuts down, and close the sockets."""
        if self._datagrams is not None and not self._ended:
            with suppress(OSError):  # else they notice it by the link, or the lease
                self._datagrams.send(self._discovery.leave_datagram())
        self._ended = True
        self._close()

    # For the driver.

    def ready(self, mask: int) -> None:
        """Read the datagrams that have arrived."""
        del mask
        datagrams = self._datagrams
        for _ in range(_DATAGRAMS_MAX):
            found = None if datagrams is None else datagrams.receive()
            if found is None:
                self._is_behind = False
                break
            data, host = found
            with self._lock:
                event = self._discovery.on_datagram(data, host, _sync.monotonic())
            if event is not None:
                self._host.on_event(event)
        else:
            self._is_behind = True
        self._set_timer()

    def fail(self, error: BaseException) -> None:
        """Close the sockets for a while; the links stay."""
        self._note_failure(f"{type(error).__name__}: {error}")
        self._close()
        self._set_timer()

    def abort(self, error: BaseException) -> None:
        """Do nothing: nothing waits for discovery."""

    def abandon_after_fork(self) -> None:
        """Close the sockets and send nothing: the parent process is still master."""
        self._ended = True
        datagrams, self._datagrams = self._datagrams, None
        if datagrams is not None:
            datagrams.close()

    def _begin(self) -> None:
        if self._datagrams is not None and not self._ended:
            self._driver.register(self._datagrams.fileno(), self, _net.READ)
        self._set_timer()

    def _close(self) -> None:
        datagrams, self._datagrams = self._datagrams, None
        if datagrams is not None:
            self._driver.unregister(datagrams.fileno())
            datagrams.close()

    def _open_again(self) -> None:
        """Open the sockets after a failure, perhaps at an interface that is new."""
        try:
            self._datagrams = self._host.open_group()
        except OSError as error:
            self._note_failure(str(error))
        else:
            self._failures = 0
            self._begin()

    def _on_time(self, moment: float) -> None:
        """Announce the machine, and forget the silent ones, if it is time.

        moment: the time for which this call was scheduled; an earlier call may have
          taken its place.
        """
        if self._ended or moment != self._timer_at:
            return
        self._timer_at = None
        if self._datagrams is None:
            self._open_again()
        now = _sync.monotonic()
        discovery, data = self._discovery, b""
        keys = self._host.group_keys() if discovery.due_at <= now else None
        with self._lock:
            if keys is not None:
                discovery.set_keys(keys)
                data = discovery.announce(now)
            silent = [] if self._is_behind else discovery.expire(now)
        if data and self._datagrams is not None:
            self._send(self._datagrams, data)
        for event in silent:
            self._host.on_event(event)
        self._set_timer()

    def _send(self, datagrams: _net.Datagrams, data: bytes) -> None:
        try:
            datagrams.send(data)
        except OSError as error:  # such as an interface that is down for a moment
            self._note_failure(str(error))
            self._failures += 1
            if self._failures >= _FAILURES_MAX:
                self._close()
        else:
            self._failure, self._failures = "", 0

    def _note_failure(self, failure: str) -> None:
        if failure != self._failure:
            self._host.report(f"cannot announce this machine: {failure}")
        self._failure = failure

    def _set_timer(self) -> None:
        """Call `_on_time` at the next deadline, unless an earlier call is scheduled."""
        if self._ended:
            return
        # No lease ends while datagrams are unread: a deadline in the past would come
        # again at once.
        discovery = self._discovery
        at = discovery.due_at if self._is_behind else discovery.next_deadline()
        if self._datagrams is None:
            at = max(at, _sync.monotonic() + _AGAIN_S)
        if self._timer_at is None or at < self._timer_at:
            self._timer_at = at
            self._driver.at(at, partial(self._on_time, at), self)
