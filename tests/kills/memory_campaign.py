"""`MemoryCampaign`: kill -9 of processes that share memory, and the rules after it.

The owner sends long messages to three receivers, which hold some of them. One process
after another kills itself at a random bytecode, or is killed at a random moment. After
each kill these rules are checked:

* The survivors read the messages that they hold, whole: at once, and again after
  further messages.
* They drop all of them. Within `HOME_S` each open slab of a living owner has all of its
  buffers free. That includes messages that the owner had to abandon (MC-32): their slab
  has no other message then, so it is closed.
* Within `HOME_S` the owner has one mapping and two descriptors of each open slab, one
  of them that of the mapping. A survivor has no memory beside the slabs that are open,
  and no memory of a dead owner. No process keeps a note of memory for a closed link.

Then the killed process comes back under its name.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING, Final

import attrs

from tests.kills.bytecode_strike import BUS, MEMORY
from tests.kills.crew import LIMIT_S, Crew
from tests.kills.memory_worker import ARENA_BYTES, OWNER, ear
from tests.kills.notes import Note
from tests.kills.process_memory import ProcessMemory
from tests.kills.rules import within
from tests.kills.soak import Memory
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Self

    from tests.kills.member import Member

__all__ = ["HOME_S", "MOMENT", "NAMES", "MemoryCampaign", "MemoryStory"]

# The first one is the first master, which is not the owner.
NAMES: Final = ("a", OWNER, "b", "c")
HOME_S: Final = 1.0  # from the end of the last view to the last free buffer

MOMENT: Final = "moment"
_PLACES: Final = (MEMORY, MEMORY, MEMORY, BUS, MOMENT, MOMENT)
# Upper limits of the bytecodes that are counted before the strike: about half a second.
_BYTECODES: Final = {MEMORY: 4_000, BUS: 40_000}
_MOMENT_S: Final = 0.2  # likewise
# Messages that each receiver gets before a blow, and the owner sends after one, while
# those from before the blow are held.
_BEFORE: Final = 6
_AFTER: Final = 20


@attrs.frozen
class MemoryStory:
    """The result of one blow.

    role: of the victim. place: the code whose bytecodes were counted, or `MOMENT`.
    at: where the victim was struck. held: the messages in shared memory that the
    survivors held. home_s: the time until all buffers were free; 0 without an owner.
    """

    number: int
    role: str
    place: str
    at: str
    held: int
    home_s: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.number:>4} {self.role:<8} {self.place:<6} {self.at:<42} "
            f"{self.held:>2} held, home after {self.home_s * 1000:3.0f} ms; "
            f"{self.seconds:.1f} s"
        )


class MemoryCampaign:
    """A context manager: the bus starts with the block, and ends with it.

    Args:
        folder: as for `Crew`.
        seed: the source of all draws.
        spared: the name of the process that is never struck; "" for none.

    Attributes:
        crew: the processes.
        received: by life of a receiver, the messages that it had at its last report,
          and those among them in shared memory.
        seen: the memory of the spared process after each blow, without held messages.
    """

    def __init__(self, folder: Path, seed: int, *, spared: str = "") -> None:
        self._seed: Final = seed
        self._spared: Final = spared
        self.crew: Final = Crew(
            folder,
            seed,
            names=NAMES,
            tasks=[ear(each) for each in NAMES if each != OWNER],
            module="tests.kills.memory_worker",
        )
        self.seen: Final[list[Memory]] = []
        self.received: Final[dict[str, tuple[int, int]]] = {}

    def __enter__(self) -> Self:
        self.crew.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.crew.__exit__(*error)

    # One blow.

    def strike(self, number: int) -> MemoryStory:
        """Draw a blow, strike, and check all rules.

        Raises:
            AssertionError: a rule is broken; the text describes it.
        """
        chance = random.Random(f"{self._seed}/{number}")
        role = chance.choice(("owner", "receiver"))
        if self._spared == OWNER:
            role = "receiver"
        names = [each for each in NAMES if each not in (OWNER, self._spared)]
        name = OWNER if role == "owner" else chance.choice(names)
        place = chance.choice(_PLACES)
        try:
            return self._strike(number, self.crew.living[name], place, chance)
        except AssertionError as error:
            what = f"blow {number} ({role} {name}, {place})"
            raise AssertionError(f"{what}: {error}") from error

    def _strike(
        self, number: int, victim: Member, place: str, chance: random.Random
    ) -> MemoryStory:
        began = monotonic()
        crew = self.crew
        self._go()
        for each in self._receivers():
            if each is not victim:
                each.do("pin")
        if place == MOMENT:
            victim.answered(chance.random() * _MOMENT_S)
            victim.signal(signal.SIGKILL)
        else:
            victim.do("strike", place, chance.randrange(_BYTECODES[place]))
        victim.killed(signal.SIGKILL)
        crew.gone(victim)
        held = self._check_held()
        owner = crew.living.get(OWNER)
        if owner is not None:
            sent = owner.do("sent") + _AFTER
            _wait(lambda: owner.do("sent") >= sent, "the owner sends more")
            self._check_held()
        home_s = self._drop(owner)
        self._check_memory(owner)
        if self._spared:
            self.seen.append(Memory(*crew.living[self._spared].do("own_memory")))
        crew.join(crew.begin(victim.name))
        role = "owner" if victim.name == OWNER else "receiver"
        return MemoryStory(
            number,
            role,
            place,
            self._place_of(victim),
            held,
            home_s,
            monotonic() - began,
        )

    def _go(self) -> None:
        """Let all send and receive until each receiver holds messages in memory."""
        crew = self.crew
        ears = [ear(each.name) for each in self._receivers()]
        for member in crew.members():
            member.do("go", ears)
        for receiver in self._receivers():
            received, lent = receiver.do("received")

            def going(
                member: Member = receiver, received: int = received, lent: int = lent
            ) -> bool:
                now = member.do("received")
                return bool(now[0] >= received + _BEFORE and now[1] > lent)

            _wait(going, f"{receiver.life} receives in shared memory")

    def _receivers(self) -> list[Member]:
        return [each for each in self.crew.members() if each.name != OWNER]

    def _place_of(self, victim: Member) -> str:
        for life, words in self.crew.notes.news():
            if life == victim.life and words[0] == Note.KILLED:
                return " ".join(words[1:])
        return ""

    # Rules.

    def _check_held(self) -> int:
        """Let the survivors check all held messages; return how many lie in memory."""
        held = 0
        for each in self._receivers():
            held += each.do("check")
            faults = each.do("faults")
            assert not faults, f"{each.life}: {faults}"
        return held

    def _drop(self, owner: Member | None) -> float:
        """Let the survivors drop all; return the time until all buffers are free."""
        if owner is not None:
            owner.do("hold")
        for each in self._receivers():
            each.do("drop")
        began = monotonic()
        if owner is not None:
            what = f"{owner.life}: not home"
            within(lambda: _not_home(owner.do("arena")), what, HOME_S)
        took = monotonic() - began
        self._check_held()
        for each in self._receivers():
            received, lent = each.do("received")
            self.received[each.life] = received, lent
        return took

    def _check_memory(self, owner: Member | None) -> None:
        """Check the mappings and descriptors of all survivors."""

        def faults() -> list[str]:
            names = set() if owner is None else set(owner.do("slab_names"))
            found = []
            for each in self.crew.members():
                memory = ProcessMemory.of(each.pid)
                if extra := memory.names - names:
                    found.append(f"{each.life} has memory of closed slabs: {extra}")
                if each is not owner and memory.mapped != memory.opened:
                    found.append(f"{each.life} has descriptors beside mappings")
                found += (f"{each.life}: {one}" for one in each.do("closed_links"))
            if owner is not None:
                memory = ProcessMemory.of(owner.pid)
                if memory.mapped != Counter(names):
                    found.append(f"{owner.life} maps {memory.mapped}, not {names}")
                if memory.opened != Counter([*names, *names]):
                    found.append(f"{owner.life} has open {memory.opened}, not {names}")
                size = sum(
                    each["buffers"] * each["buffer_bytes"] for each in owner.do("arena")
                )
                if size > ARENA_BYTES:
                    found.append(f"{owner.life} has an arena of {size} bytes")
            return found

        within(faults, "memory is left", HOME_S)

    # The end.

    def end(self) -> None:
        """Let all members shut down in order.

        Raises:
            AssertionError: files, descriptors, threads or memory are left behind.
        """
        owner = self.crew.living[OWNER]
        self._drop(owner)
        self._check_memory(owner)
        self.crew.leave()


def _not_home(slabs: Iterable[dict[str, int]]) -> list[str]:
    """Return the open slabs with buffers that are in use, or abandoned."""
    return [
        str(each)
        for each in slabs
        if each["free"] != each["buffers"] or each["leases"] or each["abandoned"]
    ]


def _wait(condition: Callable[[], bool], what: str) -> None:
    until(condition, what, limit_s=LIMIT_S)
