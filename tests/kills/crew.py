"""`Crew`: the processes of one bus, both living and prepared ones.

Each name has one life at a time, and one prepared next life. A process starts long
before it joins, so that no kill waits for an interpreter to start.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from tests.kills.load import MOVER, PUBLIC
from tests.kills.member import Member, MemberError
from tests.kills.notes import Reader
from tests.kills.worker import is_client
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import Self

__all__ = ["LIMIT_S", "NAMES", "TASKS", "Crew"]

# Time limit of a step; a process that exceeds it hangs.
LIMIT_S: Final = 15.0

# The first to join is the first master; names that begin with x are clients.
NAMES: Final = ("a", "b", "c", "x", "xx")
# All addressees.
TASKS: Final = (
    MOVER,
    *(f"{task}/{name}" for task in PUBLIC for name in NAMES if not is_client(name)),
)


class Crew:
    """A context manager that ends its remaining processes, and removes their folder.

    After an error the folder is kept.

    Args:
        folder: for their notebooks, and the run directory; it does not exist yet. Its
            path is short, since socket paths are limited.
        seed: the source of their draws.
        names: of the processes; the first to join is the first master.
        tasks: all addressees, given to a process that has joined.
        module: the program of each.

    Attributes:
        living: the members on the bus, by name.
        notes: the reader of their notebooks.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        names: Sequence[str] = NAMES,
        tasks: Sequence[str] = TASKS,
        module: str = "tests.kills.worker",
    ) -> None:
        self._folder: Final = folder
        self._seed: Final = seed
        self._tasks: Final = tasks
        self._module: Final = module
        self._numbers: Final = dict.fromkeys(names, 0)
        self.living: Final[dict[str, Member]] = {}
        self._next: Final[dict[str, Member]] = {}
        self._made: Final[list[Member]] = []
        notes = folder / "notes"
        notes.mkdir(parents=True)
        self.notes: Final = Reader(notes)

    def __enter__(self) -> Self:
        try:
            for name in self._numbers:
                self._prepare(name)
            for name in self._numbers:
                self.join(self.begin(name))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end()
        if kind is None:
            shutil.rmtree(self._folder)

    def _end(self) -> None:
        for each in self._made:
            each.end()

    def _prepare(self, name: str) -> None:
        self._numbers[name] += 1
        made = Member(
            name, self._numbers[name], self._folder, self._seed, module=self._module
        )
        self._made.append(made)
        self._next[name] = made

    def begin(self, name: str) -> Member:
        """Return the prepared life of a process, which is to join; prepare another."""
        member = self._next[name]
        self._prepare(name)
        return member

    def join(self, member: Member) -> None:
        """Let a process join, and wait until it has."""
        member.tell("join")
        self.joined(member)

    def joined(self, member: Member) -> None:
        """Wait until a process has joined that was told to; then let it send."""
        member.incarnation = member.answer()
        self.living[member.name] = member
        member.do("go", self._tasks)

    def gone(self, member: Member) -> None:
        """Record that a process has left the bus."""
        self.living.pop(member.name, None)
        self._made.remove(member)

    # Roles.

    def members(self) -> list[Member]:
        """Return the members on the bus, in the order of names."""
        return [self.living[name] for name in self._numbers if name in self.living]

    def hosts(self) -> list[Member]:
        """Return the members that may host the task that moves."""
        return [each for each in self.members() if not each.client]

    def master(self, limit_s: float) -> Member:
        """Return the master; wait until there is one.

        Raises:
            AssertionError: there is none in time.
        """
        found: list[Member] = []

        def look() -> bool:
            found[:] = [each for each in self.hosts() if each.do("is_master")]
            return bool(found)

        until(look, "there is a master", limit_s=limit_s)
        assert len(found) == 1, f"masters: {[each.life for each in found]}"
        return found[0]

    def host(self) -> Member | None:
        """Return the host of the task that moves; None if there is none."""
        hosts = (each for each in self.hosts() if MOVER in each.hosted)
        return next(hosts, None)

    def settle(self, to: Member) -> None:
        """Move the task that moves to a process, wherever it was."""
        host = self.host()
        if host is to:
            return
        if host is not None:
            host.do("deregister", MOVER, "", 0, 0)
            host.hosted.discard(MOVER)

        to.do("register", MOVER, "", 0, 0)
        to.hosted.add(MOVER)

    def quiet(self, members: Iterable[Member]) -> None:
        """Stop some members from sending; wait until they know all outcomes.

        Raises:
            AssertionError: they do not within the limit.
        """
        waiting = list(members)
        for each in waiting:
            each.do("hold")

        def none_left() -> bool:
            waiting[:] = [each for each in waiting if each.do("unanswered")]
            return not waiting

        try:
            until(none_left, "all is answered", limit_s=LIMIT_S)
        except AssertionError as error:
            left = {each.life: each.do("unanswered") for each in waiting}
            raise MemberError(f"{error}: {left}") from None

    def leave(self) -> None:
        """Let all members shut down in order.

        Raises:
            AssertionError: a process or a file is left behind.
        """
        for each in self.members():
            each.leave()
            self.gone(each)
        # The sockets of slaves killed under the present master stay until the next one.
        self.join(last := self.begin(next(iter(self._numbers))))
        last.do("hold")
        last.leave()
        self.gone(last)
        run_directory = self._folder / "run" / "bus1"
        left = sorted(each.name for each in run_directory.iterdir())
        assert left == ["lock"], f"left in the run directory: {left}"
