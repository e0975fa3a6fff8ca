"""`Plan`: the events of a run, drawn from its seed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulate.process import SimProcess, SimTask
    from tests.simulate.world import World

__all__ = ["PROFILES", "Plan"]

NAMES: Final = ("a", "b", "c", "d/x", "d/y")
PRIVATE: Final = "p"
HEIRS: Final = ("m2", "m3", "m4")  # processes that start as master

# Relative frequencies of events, by profile.
CALM: Final = {
    "register": 6,
    "deregister": 3,
    "move": 2,
    "send": 14,
    "answer": 2,
    "subscribe": 2,
    "unsubscribe": 1,
    "notify": 4,
    "hold": 2,
}
WATCHED: Final = {"watch": 2, "unwatch": 1}
CLOSING: Final = {"close": 3}
PROFILES: Final = {
    "calm": CALM,
    "links": CALM | {"cut": 5},
    "stops": CALM | {"freeze": 3, "cut": 1},
    "crashes": CALM | {"crash": 2, "restart": 3},
    "all": CALM | {"cut": 3, "freeze": 2, "crash": 2, "restart": 3},
}


class Plan:
    """Draws the events of a run, one after another."""

    def __init__(self, world: World, profile: str) -> None:
        self._world = world
        weights = PROFILES[profile]
        if world.watched:
            weights = weights | WATCHED
            if "crash" in weights:
                weights = weights | CLOSING
        self._acts: list[Callable[[], None]] = [
            getattr(self, f"_{name}") for name in weights
        ]
        self._weights = list(weights.values())

    def act(self) -> None:
        """Draw one event and execute it."""
        self._world.random.choices(self._acts, self._weights)[0]()

    def heal(self) -> None:
        """End all faults: every process runs, and each machine has a master."""
        world = self._world
        for process in list(world.living()):
            if process.frozen:
                process.thaw()
        for machine, master in list(world.masters.items()):
            if not master.alive:
                self._succeed(machine)
        for process in world.living():
            for task in process.tasks.values():
                task.reads = True
                task.review()

    def _running(self) -> SimProcess | None:
        running = [each for each in self._world.living() if not each.frozen]
        return self._world.random.choice(running) if running else None

    def _task(self) -> SimTask | None:
        tasks = [
            task
            for process in self._world.living()
            if not process.frozen
            for task in process.tasks.values()
        ]
        return self._world.random.choice(tasks) if tasks else None

    def _name(self, process: SimProcess) -> str:
        random = self._world.random
        machine = random.choice(sorted({key[0] for key in self._world.processes}))
        name = random.choice((*NAMES, *NAMES, PRIVATE))
        return name if machine == process.key[0] else f"ism://{machine}/{name}"

    def _register(self) -> None:
        process = self._running()
        if process is not None:
            random = self._world.random
            if random.random() < 0.15:
                process.register(PRIVATE, private=True)
            else:
                process.register(random.choice(NAMES))

    def _deregister(self) -> None:
        task = self._task()
        if task is not None:
            final = self._world.random.random() < 0.2
            task.process.deregister(task, final=final)

    def _move(self) -> None:
        task, to = self._task(), self._running()
        if task is None or to is None:
            return
        name = task.name
        task.process.deregister(task)

        def arrive() -> None:
            if to.alive and not to.frozen:
                to.register(name)

        self._world.at(self._world.random.random() * 0.05, arrive)

    def _send(self) -> None:
        task = self._task()
        if task is None:
            return
        random = self._world.random
        to = self._name(task.process)
        for _ in range(random.choice((1, 1, 2, 3, 7))):
            # Mostly one task, to test its order; sometimes another task of the process.
            others = list(task.process.tasks.values())
            task.process.command(
                random.choice(others) if random.random() < 0.2 else task,
                to,
                asks=random.random() < 0.4,
                timeout=random.choice((None, None, None, 0.02, 10.0)),
            )
            if random.random() < 0.1:
                task.process.notify(task)

    def _answer(self) -> None:
        task = self._task()
        if task is not None:
            for message in task.kept:
                task.process.answer(message)
            task.kept.clear()
            task.process.settle()

    def _subscribe(self) -> None:
        task = self._task()
        if task is not None:
            random = self._world.random
            pattern = random.choice((self._name(task.process), "d/*", "**"))
            task.process.subscribe(task, pattern)

    def _unsubscribe(self) -> None:
        task = self._task()
        if task is not None:
            task.process.unsubscribe(task)

    def _notify(self) -> None:
        task = self._task()
        if task is None:
            return
        sent = self._world.counters.notifications.get(task.id, ())
        if len(sent) % 3 == 2:
            task.process.notify_together(task, 3)
        else:
            task.process.notify(task)

    def _watch(self) -> None:
        task = self._task()
        if task is not None:
            pattern = self._world.random.choice((*NAMES, "d/*", "**", "**"))
            task.process.watch(task, pattern)

    def _unwatch(self) -> None:
        task = self._task()
        if task is not None:
            task.process.unwatch(task)

    def _hold(self) -> None:
        task = self._task()
        if task is not None:
            task.reads = not task.reads
            task.review()

    # Faults.

    def _cut(self) -> None:
        wires = self._world.network.whole()
        if wires:
            wire = self._world.random.choice(wires)
            self._world.story.tell(
                self._world.now,
                "network",
                lambda: f"cuts {[end and end[0].name for end in wire.ends]}",
            )
            self._world.network.cut(wire)

    def _freeze(self) -> None:
        process = self._running()
        if process is None:
            return
        process.say(lambda: "stands still")
        process.frozen = True

        def thaw() -> None:
            if process.alive and process.frozen:
                process.say(lambda: "runs again")
                process.thaw()

        self._world.at(self._world.random.random() * 1.5, thaw)

    def _close(self) -> None:
        """Let some processes shut down in order, at about the same time."""
        random = self._world.random
        for _ in range(random.choice((1, 2, 2, 3))):
            process = self._running()
            if process is not None:
                self._world.at(random.random() * 0.01, partial(self._leave, process))

    def _leave(self, process: SimProcess) -> None:
        if not process.alive or process.frozen:
            return
        for task in list(process.tasks.values()):
            process.deregister(task, final=True)
        at = self._world.random.choice((0.0, 0.001, 0.002, 0.01))
        self._world.at(at, partial(self._end, process))

    def _crash(self) -> None:
        process = self._running()
        if process is not None:
            self._end(process)

    def _end(self, process: SimProcess) -> None:
        if not process.alive or len(self._world.living()) < 2:
            return
        process.die()
        machine = process.key[0]
        if process is self._world.masters[machine]:

            def succeed() -> None:
                if not self._world.masters[machine].alive:
                    self._succeed(machine)

            self._world.at(self._world.random.random() * 0.5, succeed)

    def _succeed(self, machine: str) -> None:
        """Let a process become master of a machine that has none."""
        heirs = [
            each
            for each in self._world.living()
            if each.key[0] == machine and not each.frozen
        ]
        if heirs and self._world.random.random() < 0.8:
            self._world.promote(self._world.random.choice(heirs))
        else:
            names = {each.key for each in self._world.living()}
            name = next(each for each in HEIRS if (machine, each) not in names)
            self._world.start(machine, name, master=True)

    def _restart(self) -> None:
        dead = [key for key, each in self._world.processes.items() if not each.alive]
        if dead:
            self._world.start(*self._world.random.choice(dead))
