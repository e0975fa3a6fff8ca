"""`PROFILES`: the faults of a campaign over time, by name."""

from __future__ import annotations

import math
import signal
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.network.conditions import GOOD, Conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from tests.network.site import Site

__all__ = ["PROFILES", "Profile"]

# A generator that injects faults, and yields the seconds to wait before its next step.
# The campaign heals the network afterwards.
Profile: TypeAlias = "Callable[[Site, float, Random], Iterator[float]]"

_FLAP_S: Final = 0.5
_MBIT_S: Final = 125_000.0


def _always(conditions: Conditions) -> Profile:
    def faults(site: Site, seconds: float, random: Random) -> Iterator[float]:
        del random
        site.ethernet.impose(conditions)
        yield seconds

    return faults


def _one_way(site: Site, seconds: float, random: Random) -> Iterator[float]:
    """Drop all frames that one machine sends; it still receives."""
    site.ethernet.impose(Conditions(cut=True), of=random.randrange(site.count))
    yield seconds


def _partition(site: Site, seconds: float, random: Random) -> Iterator[float]:
    """Split the machines into two random parts, three times."""
    for _ in range(3):
        some = set(random.sample(range(site.count), random.randint(1, site.count - 1)))
        site.ethernet.partition(some)
        yield seconds / 4
        site.ethernet.impose(GOOD)
        yield seconds / 12


def _flapping(site: Site, seconds: float, random: Random) -> Iterator[float]:
    """Disconnect and connect one machine in turn."""
    one = random.randrange(site.count)
    for number in range(math.ceil(seconds / _FLAP_S)):
        site.ethernet.partition(set() if number % 2 else {one})
        yield _FLAP_S


def _vanished(site: Site, seconds: float, random: Random) -> Iterator[float]:
    """Disconnect one machine and kill its master: the others receive no notice."""
    one = random.randrange(site.count)
    site.ethernet.partition({one})
    yield 0.1
    site.kill(one)
    yield seconds
    site.ethernet.impose(GOOD)
    site.start(one)


def _paused(site: Site, seconds: float, random: Random) -> Iterator[float]:
    """Stop a master for longer than the lease."""
    one = site.members[random.randrange(site.count)]
    one.signal(signal.SIGSTOP)
    yield seconds
    one.signal(signal.SIGCONT)


def _small_packets(site: Site, seconds: float, random: Random) -> Iterator[float]:
    """Drop long frames to one machine, as a link with a smaller MTU does."""
    one = random.randrange(site.count)
    site.ethernet.impose(Conditions(bytes_max=1000), to=one)
    yield seconds


PROFILES: Final[dict[str, Profile]] = {
    "loss-10": _always(Conditions(loss=0.1)),
    "loss-30": _always(Conditions(loss=0.3)),
    "mixed": _always(
        Conditions(
            loss=0.01, duplication=0.1, reordering=0.25, delay_s=0.1, jitter_s=0.05
        )
    ),
    "one-way": _one_way,
    "partition": _partition,
    "flapping": _flapping,
    "vanished": _vanished,
    "paused": _paused,
    "slow": _always(Conditions(bytes_per_s=_MBIT_S)),
    "mtu": _small_packets,
}
