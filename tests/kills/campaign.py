"""`Campaign`: one blow after another to the processes of one bus, and the invariants.

After each blow the others continue, there is a master within `MASTER_S`, each message
has its outcome by the `Ledger`, the accounts balance, and no table lists dead
processes. A killed process comes back under its name; a stopped one continues, and no
message may be lost by the stop.
"""

from __future__ import annotations

import random
import signal
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

import attrs

from queuebroker import _net
from tests.kills.blow import drawn
from tests.kills.crew import LIMIT_S, TASKS, Crew
from tests.kills.ledger import OF_DEATH, Fate, Ledger
from tests.kills.load import MOVER
from tests.kills.rules import within
from tests.kills.strike import IDLE
from tests.support import until

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path
    from typing import Self

    from tests.kills.blow import Blow
    from tests.kills.ledger import Verdict
    from tests.kills.member import Member

__all__ = ["MASTER_S", "Campaign", "Story"]

MASTER_S: Final = 2.0  # from the death of the master to the next master
# TOLD messages lost without a note: each thread of the dead may have just taken one.
_SILENT_MAX: Final = 2
# Messages that must wait for a stopped process before it continues.
_WAITING: Final = 3
_NOTED_S: Final = 5.0
# Of a process with links to living processes only: leaks of dead ones add up. A slab of
# shared memory takes two descriptors at its owner, and one at each recipient. A journal
# takes a thread, and some descriptors.
_THREADS_MAX: Final = 10
_DESCRIPTORS_MAX: Final = 32
_FAULTS_MAX: Final = 10  # of one blow, in the story


@attrs.frozen
class Story:
    """The result of one blow, and the fates of all messages around it."""

    blow: Blow
    in_flight: int
    fates: Counter[Fate]
    seconds: float

    def __str__(self) -> str:
        fates = ", ".join(f"{self.fates[each]} {each}" for each in Fate)
        return (
            f"{self.blow} {self.in_flight:>3} in flight: {fates}; {self.seconds:.1f} s"
        )


class Campaign:
    """A context manager: the bus starts with the block, and ends with it.

    Args:
        folder: as for `Crew`.
        seed: the source of all draws.
        spared: the name of a client that is never struck; "" for none.

    crew: the processes.
    """

    def __init__(self, folder: Path, seed: int, *, spared: str = "") -> None:
        self._run_directory: Final = folder / "run" / "bus1"
        self._seed: Final = seed
        self._spared: Final = spared
        self._ledger: Final = Ledger()
        self.crew: Final = Crew(folder, seed)
        self._dead: Final[set[str]] = set()
        self.most: tuple[int, int] = (0, 0)

    def __enter__(self) -> Self:
        self.crew.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.crew.__exit__(*error)

    # One blow.

    def strike(self, number: int) -> Story:
        """Draw a blow, strike, and check all invariants.

        Raises:
            AssertionError: an invariant is violated; the text describes it.
        """
        began = monotonic()
        chance = random.Random(f"{self._seed}/{number}")
        crew = self.crew
        crew.settle(chance.choice(crew.hosts()))
        for each in crew.members():
            each.do("go", TASKS)
        blow = drawn(number, chance, crew, self._spared)
        return self.killed(blow, began)

    def killed(self, blow: Blow, began: float | None = None) -> Story:
        """Execute a drawn blow, and check all invariants.

        began: its start on the monotonic clock, in seconds; None for now.

        Raises:
            AssertionError: as `strike`.
        """
        try:
            return self._killed(blow, monotonic() if began is None else began)
        except AssertionError as error:
            raise AssertionError(f"blow {blow}: {error}") from error

    def _killed(self, blow: Blow, began: float) -> Story:
        crew, chance = self.crew, blow.chance
        # Before the blow: while the kernel tears a victim down, its socket may still
        # listen although its lock is free already.
        stale = self._sockets_left()
        blow.bring_about(crew)
        victim = blow.victim
        victim.killed(blow.by)
        self._read()
        self._check_state(blow)
        in_flight = self._ledger.in_flight()
        orphaned: set[str] = set()
        if blow.kills:
            crew.gone(victim)
            self._dead.add(victim.life)
            orphaned |= victim.hosted
            self._go_on(blow, stale)
            crew.join(crew.begin(victim.name))
        else:
            crew.living.pop(victim.name, None)
            self._go_on(blow, stale)
            self._continue(blow)
        if crew.host() is None:
            crew.settle(chance.choice(crew.hosts()))
        verdict = self._judge(orphaned)
        self._check(verdict, blow)
        return Story(blow, in_flight, verdict.fates, monotonic() - began)

    def _check_state(self, blow: Blow) -> None:
        """Check the state of the victim, as noted by itself."""
        hit = self._ledger.killed.pop(blow.victim.life, IDLE)
        assert hit == blow.state, f"it was struck in the state {hit}"

    def _go_on(self, blow: Blow, stale: set[Path]) -> None:
        """Check that all members except the victim continue.

        stale: the sockets without a listener before the blow.
        """
        crew = self.crew
        if blow.kills and blow.newcomer is not None:
            crew.joined(blow.newcomer)  # possibly as master
        if blow.kills and blow.role == "master":
            crew.master(MASTER_S)
            left = {each.name for each in stale if each.exists()}
            assert not left, f"the new master left {left}"
        for asker in crew.members():
            others = [each for each in crew.hosts() if each is not asker]
            if others:  # otherwise the only other host is joining, or dead
                name = f"fast/{blow.chance.choice(others).name}"
                result = asker.do("call", name)
                assert result == "ok", f"{asker.life} asks {name}: {result}"

    def _continue(self, blow: Blow) -> None:
        """Resume a stopped victim, once messages wait for it."""
        crew, victim = self.crew, blow.victim
        if victim.hosted and not blow.joins:
            until(
                lambda: self._waiting_for(victim) >= _WAITING,
                "messages wait for the stopped process",
                limit_s=LIMIT_S,
            )
        victim.signal(signal.SIGCONT)
        if blow.joins:
            crew.joined(victim)
        else:
            crew.living[victim.name] = victim
        if blow.answers:
            victim.answer()
        if blow.leaves:
            victim.hosted.discard(MOVER)
        if blow.newcomer is not None:
            crew.joined(blow.newcomer)

    def _waiting_for(self, victim: Member) -> int:
        self._read()
        return self._ledger.sent_to(victim.hosted)

    # Invariants.

    def _sockets_left(self) -> set[Path]:
        """Return the sockets without a listener, which a new master removes."""
        with _net.lock_folder(self._run_directory):
            sockets = set(self._run_directory.glob("Slave*"))
            return {each for each in sockets if not _net.has_listener(each)}

    def _read(self) -> None:
        for life, words in self.crew.notes.news():
            self._ledger.take(life, words)

    def _judge(self, orphaned: set[str]) -> Verdict:
        """Wait until nothing is under way; return the verdict on all messages."""
        self.crew.quiet(self.crew.members())
        with suppress(AssertionError):
            until(lambda: self._all_noted(orphaned), "all is noted", limit_s=_NOTED_S)
        return self._ledger.judge(self._dead, orphaned)

    def _all_noted(self, orphaned: set[str]) -> bool:
        self._read()
        return not self._ledger.undecided(self._dead, orphaned)

    def _check(self, verdict: Verdict, blow: Blow) -> None:
        faults = list(verdict.faults)
        of_death = sum(verdict.fates[each] for each in OF_DEATH)
        if of_death and not blow.kills:
            faults.append(f"{of_death} messages were lost, and nobody was killed")
        if verdict.silent > _SILENT_MAX:
            faults.append(f"{verdict.silent} messages vanished without a word")
        assert not faults, "; ".join(faults[:_FAULTS_MAX])
        for member in self.crew.members():
            self._check_member(member)

    def _check_member(self, member: Member) -> None:
        """Check that its accounts balance, and its tables list no dead process."""
        living = {each.name: each.incarnation for each in self.crew.members()}

        def faults() -> list[str]:
            held = threads, descriptors = member.do("holds")
            self.most = max(self.most[0], threads), max(self.most[1], descriptors)
            found: list[str] = member.do("counters")
            if threads > _THREADS_MAX or descriptors > _DESCRIPTORS_MAX:
                found.append(f"it has {held} threads and descriptors")
            found.extend(
                f"its tables have {name} of {incarnation}"
                for name, incarnation in member.do("knows")
                if living.get(name) != incarnation
            )
            return found

        within(faults, f"{member.life} is not at rest", LIMIT_S)

    # The end.

    def end(self) -> None:
        """Let all members shut down in order.

        Raises:
            AssertionError: files are left behind.
        """
        self.crew.quiet(self.crew.members())
        self.crew.leave()
