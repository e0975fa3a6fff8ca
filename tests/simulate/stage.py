"""`Stage`: a small simulated world for one test, with all frames recorded.

Links have delays and lose nothing unless a test cuts them. Only the delays are drawn
from the world's seed, and no test depends on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.kernel.wire import Batch
from tests.kit.constants import configured
from tests.simulate.fast_paths import FastPathRate
from tests.simulate.guests import NO_GUESTS, Guests
from tests.simulate.process import CONFIG
from tests.simulate.world import World

if TYPE_CHECKING:
    from bus.errors import BusError
    from bus.kernel.peer.relay import Relay
    from bus.kernel.wire import Frame
    from tests.simulate.counters import Command
    from tests.simulate.process import SimProcess, SimTask

__all__ = ["SOON_S", "Stage"]

SOON_S = 0.5  # longer than any exchange of frames, shorter than any timeout


class Stage:
    """One or more machines, each with a master ``s1`` and some slaves."""

    def __init__(
        self,
        *,
        slaves: int = 2,
        machines: int = 1,
        seed: int = 1,
        recorded: bool = False,
        fast_paths: float = 0.0,
        interrupted: float = 0.0,
        guests: Guests = NO_GUESTS,
        **values: Any,
    ) -> None:
        self.world = World(
            seed,
            config=configured(CONFIG, **values),
            recorded=recorded,
            fast_paths=FastPathRate(fast_paths, interrupted),
            guests=guests,
        )
        self.world.frames = []
        for machine in range(1, machines + 1):
            for number in range(1, slaves + 2):
                self.world.start(f"m{machine}", f"s{number}", master=number == 1)
        self.soon()
        self.forget()

    def process(self, name: str, machine: str = "m1") -> SimProcess:
        """Return a process."""
        return self.world.processes[machine, name]

    def soon(self, seconds: float = SOON_S) -> None:
        """Let time pass; events happen as they are due."""
        self.world.run(seconds)

    def task(
        self, name: str, process: str, machine: str = "m1", *, private: bool = False
    ) -> SimTask:
        """Register a task."""
        task = self.process(process, machine).register(name, private=private)
        assert task is not None
        return task

    def send(
        self, task: SimTask, to: str, count: int = 1, *, asks: bool = False
    ) -> list[Command]:
        """Let a task send commands."""
        return [task.process.command(task, to, asks=asks) for _ in range(count)]

    def hold(self, task: SimTask) -> None:
        """Stop a task from reading."""
        task.reads = False

    def release(self, task: SimTask) -> None:
        """Let a task read again."""
        task.reads = True
        task.review()

    def cut(self, one: str, two: str) -> None:
        """Cut the links between two processes of the first machine."""
        pair = {self.process(one), self.process(two)}
        for wire in self.world.network.whole():
            if {end[0] for end in wire.ends if end} == pair:
                self.world.network.cut(wire)

    # Recorded frames.

    def forget(self) -> None:
        """Clear the record."""
        assert self.world.frames is not None
        self.world.frames.clear()

    def frames(self, one: str | None = None, two: str | None = None) -> list[Frame]:
        """Return the frames put on links, by sender and receiver; None for any."""
        assert self.world.frames is not None
        return [
            frame
            for sender, receiver, frame in self.world.frames
            if one in {None, sender.key[1]}
            and (two is None or (receiver is not None and receiver.key[1] == two))
        ]

    def types(self, one: str | None = None, two: str | None = None) -> list[str]:
        """Return the types of the recorded frames, without acknowledgements."""
        names = [
            "MSG" if isinstance(frame, Batch) else frame.type.name
            for frame in self.frames(one, two)
        ]
        return [name for name in names if name != "ACK"]

    def relays(self, process: str, machine: str = "m1") -> dict[str, Relay]:
        """Return the relays of a process, by the name of their task."""
        remote = self.process(process, machine).remote
        return {
            relay.entry.name: relay
            for peer in remote.topology.peers.values()
            for relay in peer.relays.values()
        }

    def links(self, one: str, two: str) -> int:
        """Return how many links there are between two processes."""
        pair = {one, two}
        return sum(
            {end[0].key[1] for end in wire.ends if end} == pair
            for wire in self.world.network.whole()
        )


def errors_of(commands: list[Command]) -> list[type[BusError] | None]:
    """Return the types of the errors that senders received; None for no error."""
    return [None if each.reported is None else type(each.reported) for each in commands]
