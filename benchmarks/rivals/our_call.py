"""This project's bus as the README teaches it: calls and notifications with dicts."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from benchmarks.job import Job, Sender
from benchmarks.tally import Tally
from bus import open_bus


def near(job: Job) -> Sender:
    """Call a task, or notify."""
    os.environ["BUS_RUN_DIR"] = job.folder
    if job.act == "paced":
        bus = open_bus("plant", process="sensor")
        return Sender(bus.register("sensor").notify, bus.close)
    bus = open_bus("pair", process="client")
    bus.wait_for("echo", timeout=20)
    ask = partial(bus.call, "echo")
    return Sender(ask, bus.close, ask)


def far(job: Job, tally: Tally) -> None:
    """Register a task, or subscribe."""
    os.environ["BUS_RUN_DIR"] = job.folder
    if job.act == "paced":
        name = f"reader-{tally.number}"
        with open_bus("plant", process=name) as bus:
            bus.register(name).subscribe(
                "sensor", lambda message: tally.take_value(message.payload)
            )
            tally.ready()
            tally.finish()
        return
    with open_bus("pair", process="server") as bus:

        @bus.task("echo")
        def echo(message: Any) -> Any:
            if not message.payload:
                tally.take_value(message.payload)
            return message.payload

        tally.ready()
        tally.finish()
