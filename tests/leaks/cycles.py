"""The cycles: a process joins a bus and leaves it, a task registers and deregisters.

Both processes of a bus are in this one, joined by real sockets, so the leaks of either
show. In each cycle a message is sent to the newcomer, so there are relays, streams,
searches and links to release.
"""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from bus import Role
from tests.kit.buses import socket_bus
from tests.kit.constants import configured
from tests.kit.inspection import unbalanced
from tests.kit.tasks import echo
from tests.leaks.growth import Growth, name_of
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from bus import Bus, BusConfig
    from tests.leaks.growth import Look

__all__ = ["KINDS", "repeated"]

# How many ended streams of other processes are remembered, to recognize their late
# messages. Less than the default, since the number only stays constant once reached.
_ENDED: Final = 20
# How long the timer of a handshake refers to a joined process, and how long a process
# is remembered that left before its link was open. Shorter than the defaults, too.
_AUTH_S: Final = 1.0
_CONNECT_S: Final = 2.0


@contextmanager
def _cycles_of_connecting(folder: str) -> Iterator[Growth]:
    config = _config(folder)
    with socket_bus("near", role=Role.MASTER, config=config) as near:
        near.register("echo", on_command=echo)

        def cycle(number: int) -> None:
            name = name_of(number)
            with socket_bus(name, role=Role.SLAVE, config=config) as brief:
                brief.register(name, on_command=echo)
                assert near.call(name, number, timeout=LIMIT_S) == number
                assert brief.call("echo", number, timeout=LIMIT_S) == number

        threads = threading.active_count()
        yield Growth(cycle, lambda: _settled(near, threads))


@contextmanager
def _cycles_of_registering(folder: str) -> Iterator[Growth]:
    config = _config(folder)
    with (
        socket_bus("near", role=Role.MASTER, config=config) as near,
        socket_bus("far", role=Role.SLAVE, config=config) as far,
    ):
        far.register("echo", on_command=echo)
        assert near.call("echo", 0, timeout=LIMIT_S) == 0
        caller = near.register("caller")

        def cycle(number: int) -> None:
            name = name_of(number)
            task = far.register(name, on_command=echo)
            assert caller.call(name, number, timeout=LIMIT_S) == number
            subscription = caller.subscribe(name, lambda _: None)
            watch = caller.watch(name, lambda _: None)
            task.notify(number)
            subscription.cancel()
            watch.cancel()
            task.deregister()

        threads = threading.active_count()
        yield Growth(cycle, lambda: _settled(near, threads))


@contextmanager
def _cycles_of_remote_subscriptions(folder: str) -> Iterator[Growth]:
    """Tasks come and go, in three ways, in a thread that never serves."""
    with (
        socket_bus("near", role=Role.MASTER, config=_config(folder)) as near,
        ThreadPoolExecutor(1) as pool,
    ):

        def come_and_go(name: str) -> None:
            closed: Any = near.listen(f"{name}/*")
            closed.close()
            dropped = near.listen(name)
            del dropped
            near.register(name, thread=near.here()).deregister()

        def cycle(number: int) -> None:
            pool.submit(come_and_go, name_of(number)).result(LIMIT_S)

        cycle(0)  # starts the thread
        threads = threading.active_count()
        yield Growth(cycle, lambda: _settled(near, threads))


def _config(folder: str) -> BusConfig:
    return configured(
        run_directory=folder,
        connect_timeout_s=_CONNECT_S,
        ENDED_STREAMS_MAX=_ENDED,
        AUTH_TIMEOUT_S=_AUTH_S,
    )


def _settled(near: Bus, threads: int) -> None:
    """Wait until all departed tasks are forgotten; check that no message is missing."""

    def quiet() -> bool:
        reported: Any = near.call(f"_bus/{near.process}", timeout=LIMIT_S)
        relays = (each["name"] for each in reported["relays"])
        known = {*reported["processes"], *reported["users"], *relays}
        return (
            not any("brief" in name for name in known)
            and not reported["parked"]
            and threading.active_count() <= threads
        )

    until(quiet, "departed tasks are forgotten")
    assert unbalanced(near.inspect()) == []


KINDS: Final[Mapping[str, Callable[[str], AbstractContextManager[Growth]]]] = {
    "connect and disconnect": _cycles_of_connecting,
    "register and deregister": _cycles_of_registering,
    "listen and leave in a thread that does not serve": _cycles_of_remote_subscriptions,
}


def repeated(
    kind: str, cycles: int, *, looks: int, see: Callable[[Look], object]
) -> list[str]:
    """Execute cycles of a kind on a bus of their own; return the growth."""
    with (
        tempfile.TemporaryDirectory(prefix="qb-") as folder,
        KINDS[kind](folder) as growth,
    ):
        return growth.run(cycles, looks=looks, see=see)
