"""Our own contestant between machines: a bus, with default arguments.

The far task holds its senders back, so that no message is lost. Without keys the links
are plain TCP, which the bus permits on the loopback interface alone.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.testbed import Near
from bus import BusConfig, Network, open_bus

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from benchmarks.testbed import Arrivals, Over, Testbed
    from bus import Bus, Incoming

__all__ = ["NAME", "VERSION", "far", "near", "service"]

NAME: Final = "ours"
VERSION: Final = ""

_PORTS: Final = {"near": 7401, "far": 7400}
_LIMIT_S: Final = 30.0
_SINK: Final = "ism://far/sink"

# Each bus without keys logs a warning that it has none.
logging.getLogger("bus").setLevel(logging.ERROR)


def service(_: Testbed) -> AbstractContextManager[object]:
    """Return an empty context: a bus needs no server."""
    return nullcontext()


def near(testbed: Testbed, _: str) -> Near:
    """Open a bus that dials the other machine, and wait for the task there."""
    bus = _open(testbed, "near", peers=[f"{testbed.far}:{_PORTS['far']}"])
    task = bus.register("near", thread=bus.here())
    bus.wait_for(_SINK, _LIMIT_S)
    return Near.of_calls(
        partial(task.command, _SINK), partial(task.call, _SINK), bus.close
    )


def far(testbed: Testbed, _: str, arrivals: Arrivals, over: Over) -> None:
    """Open a bus with one task, which answers the messages that want an answer."""
    arrived = arrivals.take

    def take(message: Incoming) -> Any:
        arrived(message)
        return message.payload if message.wants_reply else None

    with _open(testbed, "far", peers=[]) as bus:
        bus.register("sink", on_command=take, overflow="block", thread=bus.thread())
        over()


def _open(testbed: Testbed, machine: str, peers: list[str]) -> Bus:
    host = testbed.near if machine == "near" else testbed.far
    return open_bus(
        machine=machine,
        network=Network(
            listen=f"{host}:{_PORTS[machine]}",
            peers=peers,
            keys=testbed.keys(machine) if testbed.secure else None,
        ),
        # One for each machine, since both see the same files.
        config=BusConfig(run_directory=str(testbed.folder / machine)),
    )
