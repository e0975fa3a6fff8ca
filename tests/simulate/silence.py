"""``python -m tests.simulate.silence [--hours N]``: failed machines, and paused ones.

Two machines have a link. Once in each hour one of them pauses, or both do, or one
crashes. A pause must not close the link, and the other machine must detect a crash
soon. The rest of an hour only repeats the same PINGs, so it is not simulated. Exit code
0 if no paused machine was declared lost, and 99 of 100 crashes were detected in time;
otherwise 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Final

import attrs

from bus.model.config import BusConfig
from tests.simulate.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulate.process import SimProcess

__all__ = ["DETECTED_S", "FAST", "PAUSE_S", "Silence", "simulate"]

# The settings for fast detection: see docs/how-to/connect-machines.md.
FAST: Final = BusConfig(keep_alive_s=0.25, lease_s=2.4)
PAUSE_S: Final = 2.0  # the length of a pause of a process, or of its whole machine
DETECTED_S: Final = 3.0  # from a crash until the other machine detects it
_BOTH: Final = 0.1  # the share of pauses in which the other machine pauses, too
_CRASHES: Final = 0.01  # the share of hours that end with a crash
_SETTLED_S: Final = 1.0  # from a pause until all its effects have ended


@attrs.frozen
class Silence:
    """The outcome of some hours.

    false: the hours in which a paused machine was declared lost.
    detected_s: the seconds from each crash to its detection, in ascending order.
    """

    hours: int
    false: tuple[int, ...]
    detected_s: tuple[float, ...]

    @property
    def p99_s(self) -> float:
        """The time within which 99 of 100 crashes were detected."""
        return self.detected_s[
            min(len(self.detected_s) - 1, len(self.detected_s) * 99 // 100)
        ]

    def __str__(self) -> str:
        return (
            f"{self.hours:,} machine hours, each with a pause of {PAUSE_S} s: "
            f"{len(self.false)} declared lost; {len(self.detected_s)} crashes, "
            f"detected after {self.detected_s[0]:.2f} to {self.detected_s[-1]:.2f} s, "
            f"p99 {self.p99_s:.2f} s"
        )


def simulate(hours: int, seed: int = 1, config: BusConfig = FAST) -> Silence:
    """Simulate some hours of one machine."""
    random = Random(seed)
    false: list[int] = []
    detected_s: list[float] = []
    near, far = _linked(seed, config)
    for hour in range(hours):
        world = near.world
        world.run(random.random() * config.keep_alive_s)
        if random.random() < _CRASHES or hour == 0:
            detected_s.append(_crash(near, far))
            near, far = _linked(seed + hour + 1, config)
            continue
        links = _links(near), _links(far)
        paused = [near, far]
        random.shuffle(paused)
        if random.random() < _BOTH:
            apart_s = random.random() * PAUSE_S
            _pause(paused[0])
            world.run(apart_s)
            _pause(paused[1])
            world.run(PAUSE_S - apart_s)
            paused[0].thaw()
            world.run(apart_s)
            paused[1].thaw()
        else:
            _pause(paused[0])
            world.run(PAUSE_S)
            paused[0].thaw()
        world.run(_SETTLED_S)
        if links != (_links(near), _links(far)):
            false.append(hour)
            near, far = _linked(seed + hour + 1, config)
    return Silence(hours, tuple(false), tuple(sorted(detected_s)))


def _linked(seed: int, config: BusConfig) -> tuple[SimProcess, SimProcess]:
    world = Mesh(seed, config=config)
    near, far = (world.start(name, "s1", master=True) for name in ("near", "far"))
    world.run(_SETTLED_S)
    assert _links(near), "the machines have no link"
    return near, far


def _links(process: SimProcess) -> list[int | None]:
    """Return the numbers of the open links of a process."""
    peers = process.remote.topology.peers.values()
    return [peer.session.link for peer in peers if peer.session.ready]


def _pause(process: SimProcess) -> None:
    process.frozen = True


def _crash(near: SimProcess, far: SimProcess) -> float:
    """Stop a machine for good; return the seconds until the other one detects it."""
    began, step_s = near.world.now, 0.01
    _pause(far)
    while far.key in near.remote.topology.peers:
        near.world.run(step_s)
    return near.world.now - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line; return 0 if all promises are kept, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    began = time.perf_counter()
    silence = simulate(given.hours, given.seed)
    print(f"{silence}; seed {given.seed}; {time.perf_counter() - began:.0f} s")
    return 1 if silence.false or silence.p99_s >= DETECTED_S else 0


if __name__ == "__main__":
    sys.exit(main())
