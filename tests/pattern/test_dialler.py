"""`Dialler` and `Listener`: how they go on after failures, and the reasons shown."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NoReturn

import pytest

from bus.errors import WireError
from bus.pattern import BusSocket, PairSocket, SocketConfig
from queuebroker.sockets.driver import default_driver
from specs.clauses import clause
from tests.kit.self_connect import self_connecting_port
from tests.pattern.nodes import LIMIT_S, fresh_url
from tests.pattern.raw_end import HANDSHAKE, RawListener
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus.pattern.dialler import Dialler
    from queuebroker.sockets.driver import Driver

OFTEN = SocketConfig(redial_min_s=1e-3, redial_max_s=1e-3)


def _fail() -> NoReturn:
    raise ArithmeticError("planted")


def _failed_driver() -> Driver:
    """Return the driver of this process, after an error has ended it."""
    driver = default_driver()
    driver.call(driver.release)
    driver.call(_fail)
    until(lambda: driver.failed, "the driver has failed")
    return driver


def _driver_of(dialler: Dialler) -> Driver:
    return dialler._attempts._driver


@clause("BP-17")
def test_a_dialler_goes_on_with_another_driver(tmp_path: Path) -> None:
    with RawListener(fresh_url("local", tmp_path)) as other, BusSocket(OFTEN) as ours:
        dialler = ours.dial(other.url)
        with other.accept() as end:
            end.handshake()
            former = _failed_driver()
            assert end.read_to_end() == b""
        with other.accept() as end:
            end.handshake()
            assert ours.wait_for_peers(1, LIMIT_S)
            assert _driver_of(dialler) is not former
    until(lambda: former._ended, "the thread of the former driver has ended")
    until(lambda: _driver_of(dialler)._ended, "that of its own driver, too")


@clause("BP-17")
def test_a_dialler_that_connects_while_its_driver_fails_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver refuses the connection, and no error reaches the dialler."""
    url = fresh_url("local", tmp_path)
    with BusSocket(OFTEN) as ours:
        dialler = ours.dial(url)
        former = _driver_of(dialler)
        until(lambda: dialler.error is not None, "nobody listens yet")

        def refuse() -> bool:
            if not former.failed:
                former.call(_fail)
            return False

        monkeypatch.setattr(former, "hold", refuse)  # the first that connects meets it
        with RawListener(url) as other:
            refused = 0
            end = other.accept()
            while not (begun := end.read(4)):
                end.close()
                refused += 1  # again if its timers, which it calls early, dial
                end = other.accept()
            assert refused
            with end:
                end.send(HANDSHAKE)
                assert begun + end.read(4) == HANDSHAKE
                assert ours.wait_for_peers(1, LIMIT_S)
                assert isinstance(dialler.error, ConnectionAbortedError)
                assert "driver of the sockets has failed" in str(dialler.error)
    until(lambda: former._ended, "the thread of the former driver has ended")


class _Spare:
    """The next driver that a module gets; ``close`` is called just before."""

    def __init__(
        self, close: Callable[[], None], patch: pytest.MonkeyPatch, module: str
    ) -> None:
        self._close = close
        self._patch = patch
        self._threads: list[int] = []  # the driver's own, and that of the release
        self._driver: Driver | None = None
        patch.setattr(f"{module}.default_driver", self._get)

    def _get(self) -> Driver:
        self._close()
        self._driver = driver = default_driver()
        release = driver.release

        def note() -> None:
            self._threads.append(threading.get_ident())

        def noted_release() -> None:
            note()
            release()

        driver.call(note)
        self._patch.setattr(driver, "release", noted_release)
        return driver

    def check(self) -> None:
        """Check that it was released once, in its own thread, and has ended."""
        driver = self._driver
        assert driver is not None
        until(lambda: driver._ended, "the thread of the spare driver has ended")
        assert len(self._threads) == 2
        assert len({*self._threads}) == 1


@clause("BP-17")
def test_a_dialler_that_is_closed_while_it_changes_its_driver_holds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BusSocket(OFTEN) as ours:
        dialler = ours.dial(fresh_url("local", tmp_path))
        spare = _Spare(dialler.close, monkeypatch, "bus.pattern.dialler")
        former = _driver_of(dialler)
        _failed_driver()
        until(lambda: former._ended, "the thread of the former driver has ended")
        spare.check()


@clause("BP-17")
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_a_listener_goes_on_with_another_driver(transport: str, tmp_path: Path) -> None:
    with BusSocket() as ours, BusSocket(OFTEN) as other:
        url = ours.listen(fresh_url(transport, tmp_path)).url
        former = _failed_driver()
        other.dial(url)
        assert ours.wait_for_peers(1, LIMIT_S)
        until(lambda: former._ended, "the thread of the former driver has ended")
        driver = default_driver()
        driver.call(driver.release)
    until(lambda: driver._ended, "the thread of the other one has ended")


@clause("BP-17")
def test_a_listener_that_is_closed_while_it_changes_its_driver_holds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BusSocket() as ours:
        listener = ours.listen(fresh_url("local", tmp_path))
        spare = _Spare(listener.close, monkeypatch, "bus.pattern.listener")
        former = _failed_driver()
        until(lambda: former._ended, "the thread of the former driver has ended")
        spare.check()


@clause("BP-17")
@pytest.mark.parametrize("transport", ["inproc", "local"])
def test_a_listener_of_another_protocol_is_stated_as_the_reason(
    transport: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bus.pattern")
    with BusSocket(OFTEN) as bus, PairSocket() as pair:
        url = pair.listen(fresh_url(transport, tmp_path)).url
        dialler = bus.dial(url)
        wanted = "endpoint type 0x10 (PAIR0), not 0x70 (BUS)"
        until(lambda: wanted in str(dialler.error), "the dialler states the reason")
        assert isinstance(dialler.error, WireError)
        assert not dialler.is_connected
        warning = f"{url}: the listener does not match: {dialler.error}"
        until(lambda: warning in caplog.messages, "the dialler has logged it")
        if transport == "inproc":  # else the dialler goes before it states its type
            rejected = f"{url}: a peer was rejected: inproc peer has endpoint type 0x70"
            assert any(each.startswith(rejected) for each in caplog.messages)
        error = dialler.error
        until(lambda: dialler.error is not error, "it goes on to dial")
    assert caplog.messages.count(warning) == 1


@clause("BP-17")
def test_a_dialler_that_connects_to_itself_has_found_no_listener(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would be its own peer, and keep the port from the listener."""
    url = f"tcp://127.0.0.1:{self_connecting_port(monkeypatch)}"
    with PairSocket(SocketConfig(redial_min_s=3600.0, redial_max_s=3600.0)) as pair:
        dialler = pair.dial(url)
        until(
            lambda: dialler.is_connected or dialler.error is not None,
            "the first attempt has an outcome",
        )
        assert isinstance(dialler.error, ConnectionRefusedError)
