"""`Campaign`: machines under load, one profile of faults after another.

After each profile the network heals. Then all links must be open again within
`LINKS_S`, and each machine must reach all others within `ALL_S`. The `Ledger` of
`tests.kills` checks the outcome of each message: no message arrives twice, and each
message that did not arrive was reported. All counters must balance.
"""

from __future__ import annotations

from functools import partial
from random import Random
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

import attrs

from tests.kills.ledger import Fate, Ledger
from tests.kills.notes import Reader
from tests.network.conditions import GOOD
from tests.network.profiles import PROFILES
from tests.network.site import Site
from tests.support import until

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from tests.kills.ledger import Verdict
    from tests.kills.member import Member


__all__ = ["ALL_S", "LINKS_S", "Campaign", "ProfileResult"]

LINKS_S: Final = 3.0
ALL_S: Final = 10.0
# Time limit for the outcomes of all messages in flight when the load stops.
_QUIET_S: Final = 60.0


@attrs.frozen
class ProfileResult:
    """The result of one profile.

    links_s, all_s: the seconds from the end of the faults until all links were open,
      and until each machine had reached all others.
    fates: the number of messages by outcome. frames: the number of frames by outcome.
    violations: a sentence for each violation.
    """

    profile: str
    links_s: float
    all_s: float
    fates: Counter[Fate]
    frames: dict[str, int]
    violations: list[str]

    def __str__(self) -> str:
        fates = ", ".join(f"{self.fates[each]} {each}" for each in Fate)
        frames = ", ".join(f"{count} {fate}" for fate, count in self.frames.items())
        return (
            f"{self.profile:<10} links open {self.links_s:.1f} s, all reached "
            f"{self.all_s:.1f} s; messages: {fates}; frames: {frames}"
        )


class Campaign:
    """A context manager; the machines run within its block."""

    def __init__(
        self,
        folder: Path,
        count: int,
        seed: int,
        *,
        discovery: str = "lan",
        version: int = 4,
    ) -> None:
        self._seed: Final = seed
        self._site: Final = Site(
            folder, count, seed, discovery=discovery, version=version
        )
        self._reader: Final = Reader(folder / "notes")
        self._ledger: Final = Ledger()

    def __enter__(self) -> Self:
        self._site.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._site.__exit__()

    def run(
        self, profile: str, seconds: float, *, loaded: bool = True
    ) -> ProfileResult:
        """Inject the faults of a profile, and check all promises.

        loaded: False to pause the load after the faults, until all machines are
          reached. Many machines send more messages than the processors can carry.
        """
        site = self._site
        self._await_links(_QUIET_S)
        before = site.ethernet.counts()
        violations: list[str] = []
        for each in PROFILES[profile](site, seconds, Random(f"{self._seed}/{profile}")):
            sleep(each)
        site.ethernet.impose(GOOD)
        if not loaded:
            self._go([])
        healed = monotonic()
        links_s = self._await_links(_QUIET_S, healed)
        if links_s > LINKS_S:
            violations.append(f"all links were open only after {links_s:.1f} s")
        all_s = self._await_all(healed)
        if all_s > ALL_S:
            violations.append(f"all machines were reached only after {all_s:.1f} s")
        if not loaded:
            self._go(site.tasks())
        self._stop_load()
        verdict = self._judge()
        frames = {
            fate: count - before.get(fate, 0)
            for fate, count in site.ethernet.counts().items()
        }
        violations += verdict.faults
        return ProfileResult(profile, links_s, all_s, verdict.fates, frames, violations)

    def _await_links(self, limit_s: float, since: float | None = None) -> float:
        """Wait until all machines are linked; return the seconds since a time."""
        began = monotonic() if since is None else since
        until(self._is_linked, "all pairs of machines have a link", limit_s=limit_s)
        return monotonic() - began

    def _is_linked(self) -> bool:
        site = self._site
        return all(
            each.do("linked") == sorted(site.others(each)) for each in site.members
        )

    def _await_all(self, since: float) -> float:
        """Wait until each machine has reached all others; return the seconds.

        All machines call at the same time, each another one.
        """
        members = self._site.members
        for step in range(1, len(members)):
            pairs = list(zip(members, members[step:] + members[:step], strict=True))
            until(
                partial(_reach, pairs),
                f"each machine reaches the one {step} places after it",
                limit_s=_QUIET_S,
            )
        return monotonic() - since

    def _stop_load(self) -> None:
        """Stop all load, and wait for all outcomes."""
        members = self._site.members
        for each in members:
            each.do("hold")
        until(
            lambda: not any(each.do("unanswered") for each in members),
            "all questions are answered",
            limit_s=_QUIET_S,
        )
        until(self._is_decided, "all messages have an outcome", limit_s=_QUIET_S)
        until(
            lambda: not any(each.do("counters") for each in members),
            "all counters balance",
            limit_s=_QUIET_S,
        )

    def _is_decided(self) -> bool:
        self._read_notes()
        return not self._ledger.undecided(self._site.dead, self._orphaned())

    def _orphaned(self) -> set[str]:
        """Return the names of the tasks whose processes were killed."""
        dead = {life.partition(".")[0] for life in self._site.dead}
        return {each for each in self._site.tasks() if each.split("/")[2] in dead}

    def _judge(self) -> Verdict:
        self._read_notes()
        verdict = self._ledger.judge(self._site.dead, self._orphaned())
        self._site.dead.clear()
        self._go(self._site.tasks())
        return verdict

    def _go(self, names: list[str]) -> None:
        """Let all machines send to these names; to none is a pause."""
        for each in self._site.members:
            each.do("go", names)

    def _read_notes(self) -> None:
        for life, words in self._reader.news():
            self._ledger.take(life, words)


def _reach(pairs: list[tuple[Member, Member]]) -> bool:
    """Let each first member call the second; remove the pairs that succeed."""
    for one, other in pairs:
        one.tell("call", f"ism://{other.name}/fast/{other.name}")
    answers = [one.answer() for one, _ in pairs]
    pairs[:] = [
        pair for pair, answer in zip(pairs, answers, strict=True) if answer != "ok"
    ]
    return not pairs
