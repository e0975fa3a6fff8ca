"""`Announcer`: discovery with real datagrams, on the loopback interface."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from bus import BusConfig
from bus.features.machines import announcer
from bus.features.machines.announcer import AnnouncementGroup, Announcer
from bus.features.machines.discovery import Discovery, Event, Rejection
from bus.features.machines.machine_table import Change
from bus.features.machines.network import DiscoveryScope
from queuebroker import _net, _sync
from queuebroker.sockets import Driver
from specs.clauses import clause
from tests.kit.discovery import discovery_settings
from tests.kit.identities import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PORT = 17_399


class Party:
    """One master: its announcer, and the changes reported to it."""

    def __init__(self, driver: Driver, machine: str, lease_s: float = 60.0) -> None:
        me = identity(machine, machine_id="id")
        settings = discovery_settings(
            "127.0.0.1", scheme="tcp", keys=(), interval_s=0.05, lease_s=lease_s
        )
        self.discovery = Discovery(me, 1 + len(machine), settings, Random(1).random)
        self.changes: list[tuple[Change, str]] = []
        self.log: list[str] = []
        self.opened = 0
        self.keys: tuple[bytes, ...] = ()
        self.announcer = Announcer(self.discovery, self, driver)

    def open_group(self) -> _net.Datagrams:
        self.opened += 1
        return AnnouncementGroup.of(
            "127.0.0.1", PORT, DiscoveryScope.HOST, BusConfig()
        ).open()

    def group_keys(self) -> tuple[bytes, ...]:
        return self.keys

    def report(self, text: str) -> None:
        self.log.append(text)

    def on_event(self, event: Event) -> None:
        self.changes.append((event.change, event.machine.name))


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


def run(driver: Driver, until: Callable[[], bool]) -> None:
    """Run the driver until a condition holds."""
    end = _sync.monotonic() + 20
    while not until():
        assert _sync.monotonic() < end
        driver.poll(0.1)


@clause("BUS-DISC-12")
def test_a_silent_machine_expires(driver: Driver) -> None:
    """Even if no datagram arrives: a timer fires at the end of the lease."""
    first, second = Party(driver, "a", lease_s=0.3), Party(driver, "bb")
    first.announcer.start()
    second.announcer.start()
    run(driver, lambda: bool(first.changes))
    second.announcer.abandon_after_fork()
    run(driver, lambda: len(first.changes) == 2)
    assert first.changes == [(Change.FOUND, "bb"), (Change.SILENT, "bb")]
    first.announcer.stop()


@clause("BUS-DISC-3")
def test_timers_do_not_add_up(driver: Driver) -> None:
    """Each early announcement sets a timer, and leaves the later one without effect."""
    parties = [Party(driver, "m" * number) for number in range(1, 9)]
    for each in parties:
        each.announcer.start()
    run(driver, lambda: all(len(each.changes) == 7 for each in parties))
    before = parties[0].discovery.reader.read
    run(driver, lambda: parties[0].discovery.reader.read >= before + 100)
    assert len(driver._timers) <= len(parties)
    for each in parties:
        each.announcer.stop()


def test_a_failure_to_send_is_logged_once_and_reopens_the_sockets(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sockets of a removed interface never work again."""
    sent = 0

    def send(_: _net.Datagrams, data: bytes) -> None:
        nonlocal sent
        sent += len(data) > 0
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(_net.Datagrams, "send", send)
    monkeypatch.setattr(announcer, "_REOPEN_S", 0.02)
    first = Party(driver, "a")
    first.announcer.start()
    run(driver, lambda: sent >= 7)
    first.announcer.stop()
    assert first.log == [
        "cannot announce this machine: [Errno 101] Network is unreachable"
    ]
    assert first.opened >= 3


@pytest.mark.parametrize(
    ("host", "scope", "text"),
    [
        ("203.0.113.77", "lan", "no interface of this host has address 203.0.113.77"),
        ("::1", "wan", "multicast_group 239.255.73.77 is not of the IP version of ::1"),
    ],
)
def test_an_impossible_group_is_named(host: str, scope: str, text: str) -> None:
    with pytest.raises(OSError, match=text):
        AnnouncementGroup.of(host, PORT, DiscoveryScope(scope), BusConfig())


def test_sockets_that_the_system_refuses_are_named() -> None:
    with pytest.raises(OSError, match=r"192\.0\.2\.250 to 127\.255\.255\.255, UDP"):
        _net.Datagrams("192.0.2.250", "127.255.255.255", PORT, 1, 1)


@clause("BUS-DISC-2")
def test_a_multicast_group_reaches_each_member() -> None:
    """Each member receives the datagram once, and so does the sender."""
    groups = [
        _net.Datagrams("127.0.0.1", "239.255.73.77", PORT, 8, 1) for _ in range(3)
    ]
    groups[0].send(b"hello")
    for each in groups:
        _net.wait_to_read(each.fileno(), 10.0)
        assert each.receive() == (b"hello", "127.0.0.1")
        assert each.receive() is None
        each.close()


def test_every_address_of_the_loopback_interface_has_its_group() -> None:
    group = AnnouncementGroup.of("127.0.0.2", PORT, DiscoveryScope.HOST, BusConfig())
    assert (group.to, group.interface) == ("127.255.255.255", 1)


@clause("BUS-SEC-6")
def test_unsigned_announcements_are_logged_once(driver: Driver) -> None:
    """A machine with other keys would otherwise be missing without a reason."""
    first, second = Party(driver, "a"), Party(driver, "bb")
    second.keys = (b"other".ljust(32),)
    first.announcer.start()
    second.announcer.start()
    reader = first.discovery.reader

    run(driver, lambda: reader.rejected[Rejection.UNAUTHENTICATED] > 3)

    [line] = first.log
    assert line.startswith("announcements of other machines are ignored")
    first.announcer.stop()
    second.announcer.stop()


@clause("BUS-DISC-12")
def test_leases_expire_although_the_sockets_fail_with_datagrams_unread(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unread datagrams are lost with the sockets, and postpone no lease any more."""

    def no_group() -> _net.Datagrams:
        raise OSError(19, "No such device")

    monkeypatch.setattr(announcer, "_DATAGRAMS_MAX", 1)  # one is read; more may follow
    monkeypatch.setattr(announcer, "_REOPEN_S", 0.02)
    first, second = Party(driver, "a", lease_s=0.3), Party(driver, "bb")
    first.announcer.start()
    second.announcer.start()
    run(driver, lambda: bool(first.changes) and first.announcer._is_behind)
    second.announcer.abandon_after_fork()
    monkeypatch.setattr(first, "open_group", no_group)

    first.announcer.fail(OSError("the interface is gone"))

    run(driver, lambda: len(first.changes) == 2)
    assert first.changes[1] == (Change.SILENT, "bb")
    first.announcer.stop()


@clause("BUS-DISC-12")
def test_no_machine_expires_while_datagrams_are_unread(driver: Driver) -> None:
    """After a pause of the process, the socket holds the datagrams of that time."""
    first, second = Party(driver, "a", lease_s=0.4), Party(driver, "bb")
    first.announcer.start()
    second.announcer.start()
    run(driver, lambda: bool(first.changes))
    noise = _net.Datagrams("127.0.0.1", "127.255.255.255", PORT, 1, 1)
    for _ in range(150):
        noise.send(b"noise")
    noise.close()
    second.announcer._on_timer(second.announcer._timer_at or 0.0)  # behind the noise
    until = _sync.monotonic() + 0.5
    while _sync.monotonic() < until:
        pass  # this process is paused: it does not run the driver
    run(driver, lambda: first.discovery.reader.read > 3)
    assert first.changes == [(Change.FOUND, "bb")]
    first.announcer.stop()
    second.announcer.stop()
