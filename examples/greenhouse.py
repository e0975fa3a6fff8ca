"""A greenhouse in four processes: a gateway starts the other three."""

import os
import subprocess
import sys
import tempfile
from queue import SimpleQueue
from typing import Any

from bus import Bus, Incoming, Presence, Service, open_bus

READINGS = [18, 27, 31, 24, 17]


def sensor(bus: Bus) -> None:
    @bus.task("sensor")
    def measure(_: Incoming) -> None:
        for celsius in READINGS:
            bus.command("climate", celsius)


def logger(bus: Bus) -> None:
    log: list[int] = []

    def note(message: Incoming) -> None:
        log.append(message.payload)
        if len(log) == len(READINGS):
            bus.command("gateway", log)

    bus.subscribe("climate", note)


def control(bus: Bus) -> None:
    window = bus.register("window")
    is_open = False

    def decide(celsius: int) -> None:
        nonlocal is_open
        if (celsius < 20) if is_open else (celsius > 30):
            is_open = not is_open
            window.notify(f"{'opens' if is_open else 'closes'} at {celsius}")

    bus.subscribe("climate", lambda message: decide(message.payload))


def be(name: str) -> None:
    """Run one of the three processes, until the gateway leaves."""
    gone: SimpleQueue[Presence] = SimpleQueue()
    parts = {"sensor": sensor, "logger": logger, "control": control}
    with open_bus("greenhouse", process=name) as bus:
        parts[name](bus)
        me = bus.register(f"process/{name}")
        me.watch("gateway", gone.put)
        me.command("gateway", name)
        while gone.get().here:
            pass


def main() -> None:
    here: SimpleQueue[Any] = SimpleQueue()
    with open_bus("greenhouse", process="gateway") as bus, Service(bus, "climate"):
        bus.register("gateway", on_command=lambda message: here.put(message.payload))
        window = bus.listen("window")
        command, names = [sys.executable, __file__], ["sensor", "logger", "control"]
        parts = [subprocess.Popen([*command, name]) for name in names]  # noqa: S603
        print("here:", *sorted(here.get() for _ in parts))
        bus.call("sensor")
        print("log:", *here.get())
        print("window:", next(window).payload, "and", next(window).payload)
    print("exit codes:", *[part.wait() for part in parts])  # they end after the gateway


if __name__ == "__main__":
    if sys.argv[1:]:
        be(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as os.environ["BUS_RUN_DIR"]:
            main()
