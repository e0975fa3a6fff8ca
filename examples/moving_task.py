"""A task moves from process to process while others call it; no call is lost."""

import os
import subprocess
import sys
import tempfile
from itertools import cycle, groupby
from queue import Queue, SimpleQueue
from threading import Thread
from typing import Any

from bus import Bus, Incoming, Presence, Task, open_bus

CALLS, HOUSES = 600, ("one", "two")


def house(name: str) -> None:
    """Run a process in which the task can live, until the caller leaves."""
    counted, guests = [0], list[Task]()
    gone: SimpleQueue[Presence] = SimpleQueue()

    def count(_: Incoming) -> Any:
        counted[0] += 1
        return [counted[0], name]

    def arrive(message: Incoming) -> None:
        counted[0] = message.payload
        guests.append(bus.register("counter", on_command=count))

    def leave(_: Incoming) -> int:
        guests.pop().deregister()
        return counted[0]  # final: all callbacks here run in one thread

    with open_bus("moves", process=name) as bus:
        bus.register(f"{name}/leave", on_command=leave)
        me = bus.register(f"{name}/arrive", on_command=arrive)
        me.watch("caller", gone.put)
        while gone.get().here:
            pass


def travel(bus: Bus) -> list[Any]:
    """Move the task while two threads call it; return all answers."""
    got, route, here = list[Any](), cycle(HOUSES[::-1]), HOUSES[0]
    bus.call(f"{here}/arrive", 0)
    answers: Queue[Any] = Queue(1)  # so that no caller runs ahead of the moves

    def call() -> None:
        for _ in range(CALLS // 2):
            answers.put(bus.call("counter"))

    for _ in range(2):
        Thread(target=call).start()
    while len(got) < CALLS:
        got.append(answers.get())
        if len(got) % 100 == 0:
            state, here = bus.call(f"{here}/leave"), next(route)
            bus.call(f"{here}/arrive", state)
    return sorted(got)


def main() -> None:
    with open_bus("moves", process="main") as bus:
        bus.register("caller")
        command = [sys.executable, __file__]
        houses = [subprocess.Popen([*command, each]) for each in HOUSES]  # noqa: S603
        for name in HOUSES:
            bus.wait_for(f"{name}/arrive", timeout=30)
        got = travel(bus)
    print("counted from", got[0][0], "to", got[-1][0], "in", len(got), "calls")
    print("lived in", *(name for name, _ in groupby(name for _, name in got)))
    print("exit codes:", *[each.wait() for each in houses])


if __name__ == "__main__":
    if sys.argv[1:]:
        house(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as os.environ["BUS_RUN_DIR"]:
            main()
