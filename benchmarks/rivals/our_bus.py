"""This project's bus: commands to a task, or notifications, with default arguments.

The receiver holds its senders back (``block``), so that no message is lost. Between
processes a subscription drops the messages beyond its bounds (BUS-FLOW-6); the window
of the job is below every bound. For messages above 1 MiB the bounds admit two windows.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.job import Job, Sender
from benchmarks.tally import Tally
from bus import Bus, BusConfig, Durability, Incoming, Network, open_bus

_LARGE_BYTES: Final = 1 << 20
_LIMIT_S: Final = 30.0
_HORIZONS: Final[dict[str, Any]] = {
    "step": {"messages_per_sync": 1024},
    "log": {"sync_on_arrival": True},
}

# Each bus without keys logs a warning that it has none.
logging.getLogger("bus").setLevel(logging.ERROR)


def near(job: Job) -> Sender:
    """Open a bus, and wait for the task that takes the commands."""
    bus = _opened(job, "near", "near")
    task = bus.register("near", thread=bus.here())
    if job.way == "publish":
        return Sender(task.notify, bus.close)
    sink = "sink" if job.medium == "unix" else "ism://far/sink"
    bus.wait_for(sink, _LIMIT_S)
    return Sender(partial(task.command, sink), bus.close, partial(task.call, sink))


def far(job: Job, tally: Tally) -> None:
    """Subscribe, or register the task that takes the commands."""
    take = tally.take

    def on_command(message: Incoming) -> Any:
        payload = message.payload
        take(payload)
        return payload if message.wants_reply else None

    process = f"far-{tally.number}"
    with _opened(job, "far", process) as bus:
        if job.way == "publish":
            viewer = bus.register(process, thread=bus.thread())
            viewer.subscribe(
                "near", lambda message: take(message.payload), overflow="block"
            )
        else:
            bus.register(
                "sink", on_command=on_command, overflow="block", thread=bus.thread()
            )
        tally.ready()
        tally.finish()


def _opened(job: Job, side: str, process: str) -> Bus:
    config = BusConfig(run_directory=str(Path(job.folder, side)))
    if job.size > _LARGE_BYTES:
        # An encoded payload is a little longer than its bytes.
        config = attrs.evolve(
            config,
            message_bytes_max=max(config.message_bytes_max, 2 * job.size),
            task_fifo_bytes=2 * job.window * job.size,
            window_bytes=2 * job.window * job.size,
        )
    if job.medium == "unix":
        durability = None
        if job.horizons and side == "far":
            directory = Path(job.folder, "horizons")
            durability = Durability(directory, **_HORIZONS[job.horizons])
        config = attrs.evolve(config, run_directory=job.folder)
        return open_bus(process=process, config=config, durability=durability)
    far_port, near_port = job.ports
    port = far_port if side == "far" else near_port
    network = Network(
        listen=f"{job.host(side)}:{port}",
        peers=[f"{job.host()}:{far_port}"] if side == "near" else [],
        keys=job.keys(side) if job.medium == "tls" else None,
    )
    return open_bus(machine=side, network=network, config=config)
