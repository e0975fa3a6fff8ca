"""``python -m tests.simulate.silence [--hours N]``: dead machines, and paused ones.

Two machines with a link; at some moment of each hour one of them pauses, or both do, or
one dies without a word. A pause must not end the link, and a death must be known soon.
In the rest of an hour the same PINGs repeat, so it is not simulated. Exit 0 if no
machine was taken for dead and 99 of 100 deaths were known in time, else 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Final

import attrs

from bus.config import BusConfig
from bus.core.peer.limits import Limits
from tests.simulate.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulate.process import SimProcess

__all__ = ["FAST", "KNOWN_S", "PAUSE_S", "Silence", "simulate"]

# The settings for a fast detection: see docs/how-to/connect-machines.md.
FAST: Final = BusConfig(keep_alive_s=0.25, lease_s=2.4)
PAUSE_S: Final = 2.0  # of the process, or of its whole machine
KNOWN_S: Final = 3.0  # from a death until the other machine knows
_BOTH: Final = 0.1  # the part of the pauses in which the other machine pauses, too
_DEATHS: Final = 0.01  # the part of the hours that end with a death
_SETTLED_S: Final = 1.0  # from a pause to the end of all that follows from it


@attrs.frozen
class Silence:
    """The outcome of some hours.

    false: the hours in which a paused machine was taken for dead.
    known_s: the seconds from each death until it was known, in ascending order.
    """

    hours: int
    false: tuple[int, ...]
    known_s: tuple[float, ...]

    @property
    def p99_s(self) -> float:
        """The time within which 99 of 100 deaths were known."""
        return self.known_s[min(len(self.known_s) - 1, len(self.known_s) * 99 // 100)]

    def __str__(self) -> str:
        return (
            f"{self.hours:,} machine hours, each with a pause of {PAUSE_S} s: "
            f"{len(self.false)} false deaths; {len(self.known_s)} deaths, "
            f"known after {self.known_s[0]:.2f} to {self.known_s[-1]:.2f} s, "
            f"p99 {self.p99_s:.2f} s"
        )


def simulate(hours: int, seed: int = 1, config: BusConfig = FAST) -> Silence:
    """Simulate some hours of one machine."""
    random = Random(seed)
    false: list[int] = []
    known_s: list[float] = []
    near, far = _linked(seed, config)
    for hour in range(hours):
        world = near.world
        world.run(random.random() * config.keep_alive_s)
        if random.random() < _DEATHS or hour == 0:
            known_s.append(_die(near, far))
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
    return Silence(hours, tuple(false), tuple(sorted(known_s)))


def _linked(seed: int, config: BusConfig) -> tuple[SimProcess, SimProcess]:
    world = Mesh(seed, limits=Limits.of(config))
    near, far = (world.start(name, "s1", master=True) for name in ("near", "far"))
    world.run(_SETTLED_S)
    assert _links(near), "the machines have no link"
    return near, far


def _links(process: SimProcess) -> list[int | None]:
    """Return the numbers of the links of a process that are open."""
    peers = process.remote.topology.peers.values()
    return [peer.session.link for peer in peers if peer.session.ready]


def _pause(process: SimProcess) -> None:
    process.frozen = True


def _die(near: SimProcess, far: SimProcess) -> float:
    """Let a machine vanish without a word; return when the other one knows."""
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
    return 1 if silence.false or silence.p99_s >= KNOWN_S else 0


if __name__ == "__main__":
    sys.exit(main())
