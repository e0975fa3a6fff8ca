"""Our own contestant for the suite ``multicast``: notifications and commands of a bus.

Between processes a subscription drops what it has no room for (BUS-FLOW-6); the window
of the suite is below every bound, so nothing is dropped. Default arguments, except that
a subscriber has the policy ``block``, and that above 1 MiB the bounds admit messages of
that length, and two windows of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from benchmarks.multicast_job import PROBE
from benchmarks.multicast_sender import MulticastSender
from bus import BusConfig, Role, open_bus

if TYPE_CHECKING:
    from benchmarks.multicast_job import MulticastJob
    from benchmarks.tally import Tally
    from bus import Incoming

__all__ = ["NAME", "VERSION", "far", "near"]

NAME: Final = "ours"
VERSION: Final = ""

_LARGE_BYTES: Final = 1 << 20
_LIMIT_S: Final = 30.0


def near(folder: str, job: MulticastJob) -> MulticastSender:
    """Open a bus with the task that notifies, or that sends commands."""
    bus = open_bus(process="near", role=Role.MASTER, config=_config(folder, job))
    task = bus.register("source", thread=bus.here())
    command = partial(task.command, "sink")

    def send(message: bytes | bytearray) -> None:
        if message is PROBE:
            bus.wait_for("sink", _LIMIT_S)
        command(message)

    if job.kind in {"notify", "camera"}:
        return MulticastSender(task.notify, bus.close)
    return MulticastSender(send, bus.close, partial(task.call, "sink"))


def far(folder: str, job: MulticastJob, tally: Tally) -> None:
    """Subscribe, or register the task that takes commands."""
    take, echoes = tally.take, job.kind == "echo"

    def on_command(message: Incoming) -> Any:
        return message.payload if take(message.payload) and echoes else None

    process = f"far-{tally.number}"
    with open_bus(process=process, config=_config(folder, job)) as bus:
        if job.kind in {"notify", "camera"}:
            viewer = bus.register(process, thread=bus.thread())
            viewer.subscribe(
                "source", lambda message: take(message.payload), overflow="block"
            )
        else:
            bus.register(
                "sink", on_command=on_command, overflow="block", thread=bus.thread()
            )
        tally.finish()


def _config(folder: str, job: MulticastJob) -> BusConfig:
    config = BusConfig(run_directory=folder)
    if job.size <= _LARGE_BYTES:
        return config
    # An encoded payload is a little longer than its bytes.
    return attrs.evolve(
        config,
        message_bytes_max=max(config.message_bytes_max, 2 * job.size),
        task_fifo_bytes=2 * job.window * job.size,
        window_bytes=2 * job.window * job.size,
    )
