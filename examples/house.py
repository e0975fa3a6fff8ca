"""A house with three machines, one of which is unplugged and comes back.

A machine is a name and a run directory: all three are on this host. They find each
other by discovery, and link by TLS: the keys are made for this run.
"""

import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from bus import Bus, BusConfig, Incoming, Network, Presence, UnresolvedError, open_bus
from bus.features.machines.authority import Authority

BOILER = "ism://cellar/boiler"


def cellar(bus: Bus) -> None:
    """Heat to the ordered temperature, and notify of the present one all the time."""
    degrees = [20]

    def heat(message: Incoming) -> None:
        degrees[0] = message.payload

    boiler = bus.register("boiler", thread=bus.here(), on_command=heat)
    while not gone:
        boiler.notify(degrees[0])
        bus.here().poll(0.05)


def kitchen(bus: Bus) -> None:
    """Report each change of the temperature to the hall."""
    shown: list[int] = []
    display = bus.register("display", thread=bus.here())

    def show(message: Incoming) -> None:
        if shown[-1:] != [message.payload]:
            shown.append(message.payload)
            display.command("ism://hall/wall", f"kitchen shows {message.payload}")

    display.subscribe(BOILER, show)
    while not gone:
        bus.here().poll(None)


def hall(folder: Path, port: int) -> None:
    """Start the other machines, use them, and unplug one of them."""

    def start(machine: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, machine, str(folder), str(port)]
        return subprocess.Popen(command)  # noqa: S603 # this program

    wall: SimpleQueue[Any] = SimpleQueue()
    with machine_of_house("hall", folder, port) as bus:
        me = bus.register("wall", on_command=lambda message: wall.put(message.payload))
        seen: SimpleQueue[Presence] = SimpleQueue()
        me.watch(BOILER, seen.put)
        parts = [start("kitchen"), start("cellar")]
        print("cellar is here:", seen.get().here)
        print(wall.get())
        bus.call(BOILER, 60)
        print(wall.get())

        parts[1].kill()
        print("cellar is here:", seen.get().here)
        try:
            bus.call(BOILER, 65)
        except UnresolvedError as error:
            print("nobody has the name", error.name)

        parts.append(start("cellar"))
        print("cellar is here:", seen.get().here)
        print(wall.get())
        bus.call(BOILER, 65)
        print(wall.get())
    print("exit codes:", *[part.wait() for part in parts])


def machine_of_house(name: str, folder: Path, port: int) -> Bus:
    """Join the bus as a process of one machine; it has the only one of that machine."""
    network = Network(
        listen="127.0.0.1:0",
        discovery="host",
        discovery_port=port,
        keys=folder / f"{name}.keys",
    )
    config = BusConfig(run_directory=str(folder / name), resolve_timeout_s=1.0)
    return open_bus("house", machine=name, network=network, config=config)


gone: list[Presence] = []  # the hall, once it has left


def be(name: str, folder: Path, port: int) -> None:
    """Run one of the other machines, until the hall leaves."""
    with machine_of_house(name, folder, port) as bus:
        me = bus.register("guest", thread=bus.here())
        me.watch("ism://hall/wall", lambda it: None if it.here else gone.append(it))
        {"kitchen": kitchen, "cellar": cellar}[name](bus)


def main() -> None:
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        authority = Authority.create(folder / "authority")
        for name in ("hall", "kitchen", "cellar"):
            authority.issue(name, folder / f"{name}.keys")
        with socket.socket(type=socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        hall(folder, port)


if __name__ == "__main__":
    if sys.argv[1:]:
        be(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
