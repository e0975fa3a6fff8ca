"""`Announcer`: the sockets and the timer of discovery (BUS-DISC-2, BUS-DISC-3)."""

from __future__ import annotations

import errno
import ipaddress
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs
from msgspec.structs import replace

from bus.features.machines.discovery import Rejection
from bus.features.machines.network import DiscoveryScope
from queuebroker import _net, _sync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.features.machines.discovery import Discovery, Event
    from bus.features.machines.machine_table import Machine
    from bus.model.config import BusConfig
    from queuebroker.sockets import Driver

__all__ = ["AnnouncementGroup", "Announcer", "AnnouncerHost"]

# A multicast group of link-local scope; the project has chosen its other bits.
_LINK_GROUP: Final = "ff02::49:534d"
# Hops of an announcement on a LAN: no router forwards it (BUS-DISC-2).
_LAN_HOPS: Final = 1
# The prefix length of the IPv4 loopback network, and the index of its interface.
_LOOPBACK: Final = (8, 1)


@attrs.frozen
class AnnouncementGroup:
    """A subnet or a multicast group, reached through one interface of this host.

    source: the address of this host in it.
    to: the broadcast address of the subnet, or the multicast group.
    port: the UDP port.
    hops: the TTL, or the hop limit of IPv6; with 1 no router forwards a datagram.
    interface: the index of the interface.
    """

    source: str
    to: str
    port: int
    hops: int
    interface: int

    @classmethod
    def of(
        cls, host: str, port: int, scope: DiscoveryScope, config: BusConfig
    ) -> AnnouncementGroup:
        """Return the group for the address at which a master listens (BUS-DISC-2).

        Raises:
            OSError: the host has no such address, its subnet has no broadcast address,
              or the multicast group is of the other version of IP.
            ModuleNotFoundError: the package `ifaddr` is not installed.
        """
        prefix, interface = _interface(host)
        address = ipaddress.ip_interface(f"{host}/{prefix}")
        if scope is DiscoveryScope.WAN:
            group, hops = config.multicast_group, config.ttl_wan
            if ipaddress.ip_address(group).version != address.version:
                fact = f"multicast_group {group} is not of the IP version of {host}"
                raise OSError(errno.EAFNOSUPPORT, f"{fact}: give another group")
        elif address.version == 4:
            group, hops = str(address.network.broadcast_address), _LAN_HOPS
            if group == host:
                fact = f"the subnet {address.network} has no broadcast address"
                raise OSError(errno.EADDRNOTAVAIL, f"{fact}: use discovery 'wan'")
        else:
            group, hops = _LINK_GROUP, _LAN_HOPS
        return cls(host, group, port, hops, interface)

    def open(self) -> _net.Datagrams:
        """Open the sockets of the group.

        Raises:
            OSError: the system refuses a socket.
        """
        return _net.Datagrams(
            self.source, self.to, self.port, self.hops, self.interface
        )


def _interface(host: str) -> tuple[int, int]:
    """Return the prefix length and the interface index of an address.

    Raises:
        OSError: no interface of this host has the address.
        ModuleNotFoundError: the package `ifaddr` is not installed.
    """
    try:
        import ifaddr  # noqa: PLC0415 # only discovery needs it
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "discovery needs the package ifaddr: pip install ifaddr"
        ) from None
    wanted = ipaddress.ip_address(host)
    for adapter in ifaddr.get_adapters():
        for each in adapter.ips:
            text = each.ip if isinstance(each.ip, str) else each.ip[0]
            if ipaddress.ip_address(text) == wanted:
                return each.network_prefix, adapter.index or 0
    if wanted.is_loopback and wanted.version == 4:
        return _LOOPBACK  # all its addresses are usable, but `ifaddr` lists only one
    raise OSError(errno.EADDRNOTAVAIL, f"no interface of this host has address {host}")


# Maximum number of datagrams read before the driver serves the links again.
_DATAGRAMS_MAX: Final = 64
# Consecutive failures to send after which the sockets are re-opened: the sockets of a
# removed interface never work again.
_FAILURES_MAX: Final = 3
# Delay before the next attempt to open the sockets, in seconds.
_REOPEN_S: Final = 5.0


class AnnouncerHost(Protocol):
    """The owner of an `Announcer`."""

    def open_group(self) -> _net.Datagrams:
        """Open the sockets; called at the start, and again after failures.

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

    It is a `Handler` of the driver of the links. Only the thread that runs the driver
    calls its methods, except those whose docstring permits any thread.

    Lock: only the driver's thread changes the discovery, and it holds ``_lock``; other
    threads read the discovery under ``_lock``. The host is never called under it.

    Args:
        discovery: decides when to announce, and which machines are known.
        host: opens the sockets, and handles the changes of the known machines.
        driver: calls this object when datagrams arrive, and at its deadlines.

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
        "_has_reported_unsigned",
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
        # The last failure, logged once until a send succeeds, and the number of
        # consecutive failures to send.
        self._failure: str = ""
        self._failures: int = 0
        # True if the sockets may hold unread datagrams: then no lease expires.
        self._is_behind: bool = False
        self._timer_at: float | None = None
        self._has_reported_unsigned: bool = False

    def start(self) -> None:
        """Start to announce the machine and to listen; any thread may call this."""
        self._driver.call(self._begin, self)

    def machines(self) -> list[Machine]:
        """Return the known machines; any thread may call this."""
        with self._lock:
            return [replace(each) for each in self._discovery.machines]

    def rejected(self) -> dict[str, int]:
        """Return the number of ignored datagrams, by reason; any thread may call it."""
        with self._lock:
            counted = self._discovery.reader.rejected
            return {reason.value: count for reason, count in counted.items()}

    def stop(self) -> None:
        """Announce that this master shuts down, and close the sockets."""
        if self._datagrams is not None and not self._ended:
            with suppress(OSError):  # others detect the lost link, or the expired lease
                self._datagrams.send(self._discovery.leave_datagram())
        self._ended = True
        self._close()

    # Methods of a `Handler`.

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
            elif not self._has_reported_unsigned:
                self._report_unsigned()
        else:
            self._is_behind = True
        self._set_timer()

    def fail(self, error: BaseException) -> None:
        """Close the sockets, and re-open them later; the links stay open."""
        self._close()
        self._set_timer()  # before the report, which may fail for the same reason
        self._note_failure(f"{type(error).__name__}: {error}")

    def abort(self, error: BaseException) -> None:
        """Do nothing: no caller blocks on discovery."""

    @property
    def is_ending(self) -> bool:
        """True once it is closed."""
        return self._ended

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
        self._is_behind = False  # unread datagrams are lost with the sockets
        if datagrams is not None:
            self._driver.unregister(datagrams.fileno())
            datagrams.close()

    def _reopen(self) -> None:
        """Open the sockets after a failure; the host may have another interface now."""
        try:
            self._datagrams = self._host.open_group()
        except OSError as error:
            self._note_failure(str(error))
        else:
            self._failures = 0
            self._begin()

    def _on_timer(self, moment: float) -> None:
        """Announce the machine if that is due, and expire silent machines.

        moment: the time for which this call was scheduled. If another call has been
          scheduled for an earlier time, this call does nothing.
        """
        if self._ended or moment != self._timer_at:
            return
        self._timer_at = None
        if self._datagrams is None:
            self._reopen()
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
        except OSError as error:  # such as an interface that is down temporarily
            self._note_failure(str(error))
            self._failures += 1
            if self._failures >= _FAILURES_MAX:
                self._close()
        else:
            self._failure, self._failures = "", 0

    def _report_unsigned(self) -> None:
        """Log once that machines with other keys, or without, announce themselves."""
        rejected = self._discovery.reader.rejected
        if rejected[Rejection.UNAUTHENTICATED]:
            self._has_reported_unsigned = True
            self._host.report(
                "announcements of other machines are ignored, since they are not signed"
                " with the group key: 'bus doctor --network FILE' names the remedy"
            )

    def _note_failure(self, failure: str) -> None:
        if failure != self._failure:
            self._host.report(f"cannot announce this machine: {failure}")
        self._failure = failure

    def _set_timer(self) -> None:
        """Call `_on_timer` at the next deadline, unless it is called earlier anyway."""
        if self._ended:
            return
        # No lease expires while datagrams are unread, so the deadline of an overdue
        # lease is ignored: the timer would fire again at once.
        discovery = self._discovery
        at = discovery.due_at if self._is_behind else discovery.next_deadline()
        if self._datagrams is None:
            at = max(at, _sync.monotonic() + _REOPEN_S)
        if self._timer_at is None or at < self._timer_at:
            self._timer_at = at
            self._driver.at(at, partial(self._on_timer, at), self)
