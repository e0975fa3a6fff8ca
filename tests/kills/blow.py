"""`Blow`: one kill or stop: its victim, its state, and the steps to reach that state.

All is drawn from the seed and the number of the blow, except the choice of the master,
which depends on the events so far.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

import attrs

from tests.kills.load import MOVER
from tests.kills.strike import CALLBACK, FRAME, HANDSHAKE, IDLE, MOVING, SEARCH

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.kills.crew import Crew
    from tests.kills.member import Member

__all__ = ["STATES", "Blow", "drawn", "renewed"]

_STOPS: Final = 0.3  # fraction of all blows
ROLES: Final = ("master", "slave", "client")
_LEAVING: Final = ("on_departure before", "on_departure after", "between")
_COMING: Final = ("on_registered before", "on_registered after")
# Minimum number of socket calls that a process makes before it has joined.
_CALLS: Final = 12


@attrs.define
class Blow:
    """One kill or stop of a process.

    role: of the victim, when it is struck. place: see `Strike.arm`.
    answers: True if a stopped victim owes an answer once it runs again. joins: True if
      that answer reports that it has joined. newcomer: a process that joins meanwhile.
    spared: the name of a client that is neither struck nor renewed; "" for none.
    """

    number: int
    state: str
    by: signal.Signals
    chance: random.Random
    victim: Member
    role: str
    place: str = ""
    answers: bool = False
    joins: bool = False
    newcomer: Member | None = None
    spared: str = ""

    def bring_about(self, crew: Crew) -> None:
        """Bring the victim into its state; it is struck at once or soon."""
        STATES[self.state](self, crew)

    def __str__(self) -> str:
        """Return the facts that begin the line of its outcome."""
        return (
            f"{self.number:>4} {self.role:<6} {self.by.name:<7} {self.state:<11} "
            f"{self.place:<17}"
        )

    @property
    def leaves(self) -> bool:
        """True if a task leaves the victim."""
        return self.place in _LEAVING

    @property
    def kills(self) -> bool:
        """True if the victim dies."""
        return self.by is signal.SIGKILL


def drawn(number: int, chance: random.Random, crew: Crew, spared: str = "") -> Blow:
    """Draw a blow; its victim is on the bus and is not informed yet.

    spared: the name of a client that is never struck.
    """
    state = list(STATES)[number % len(STATES)]
    by = signal.SIGSTOP if chance.random() < _STOPS else signal.SIGKILL
    role = chance.choice(ROLES[:2] if state == MOVING else ROLES)
    master = crew.master(2.0)
    victim = master
    if role != "master":
        others = [e for e in crew.members() if e is not master and e.name != spared]
        victim = chance.choice([e for e in others if e.client is (role == "client")])
    return Blow(number, state, by, chance, victim, role, spared=spared)


# How to bring a victim into each state.


def _in_handshake(blow: Blow, crew: Crew) -> None:
    """The victim joins, or is the master that another process joins."""
    if blow.role == "master":
        blow.place = blow.chance.choice(("on_hello before", "on_hello after"))
        stays = (blow.victim.name, blow.spared)
        others = [each for each in crew.members() if each.name not in stays]
        blow.newcomer = renewed(blow.chance.choice(others), crew)
        blow.victim.do("arm", blow.place, 0, blow.by)
        blow.victim.do("is_master")  # its reply proves that it is armed
        blow.newcomer.tell("join")
        return
    number = blow.chance.randrange(_CALLS)
    blow.victim = renewed(blow.victim, crew)
    blow.victim.do("arm", "socket", number, blow.by)
    blow.victim.tell("join")
    blow.place, blow.joins = f"call {number}", True


def renewed(member: Member, crew: Crew) -> Member:
    """Let a process shut down in order; return its next life."""
    crew.quiet([member])
    member.leave()
    crew.gone(member)
    return crew.begin(member.name)


def _in_search(blow: Blow, _: Crew) -> None:
    """The victim has sent or received a search that has no answer yet."""
    places = ["open", "spread before", "spread after", "on_answer before"]
    if blow.role == "master":
        places += ["on_search before", "on_search after"]
    blow.place = blow.chance.choice(places)
    blow.victim.do("arm", blow.place, 0, blow.by)
    blow.victim.tell("search", f"nobody/{blow.number}")
    blow.answers = True


def _in_frame(blow: Blow, _: Crew) -> None:
    """The victim has written a part of a frame."""
    blow.place = blow.chance.choice(("frame", "long frame"))
    blow.victim.do("arm", blow.place, blow.chance.randrange(1 << 20), blow.by)


def _in_callback(blow: Blow, _: Crew) -> None:
    """The victim runs a callback for a command or an answer, noted or not."""
    places = ["response before", "response after"]
    if not blow.victim.client:
        places += ["callback before", "callback after"]
    blow.place = blow.chance.choice(places)
    blow.victim.do("arm", blow.place, 0, blow.by)


def _moving(blow: Blow, crew: Crew) -> None:
    """A task leaves the victim for another process, has just left, or arrives."""
    blow.place = blow.chance.choice(_LEAVING + _COMING)
    verb = "deregister" if blow.leaves else "register"
    if blow.leaves:
        crew.settle(blow.victim)
    else:
        other = blow.chance.choice([e for e in crew.hosts() if e is not blow.victim])
        crew.settle(other)
        other.do("deregister", MOVER, "", 0, 0)
        other.hosted.discard(MOVER)
        blow.victim.hosted.add(MOVER)
    blow.victim.tell(verb, MOVER, blow.place, 0, blow.by)
    blow.answers = True


def _idle(blow: Blow, crew: Crew) -> None:
    """The victim sends nothing and waits for nothing, but may receive."""
    crew.quiet([blow.victim])
    blow.victim.signal(blow.by)


# By state: the function that brings a victim there.
STATES: Final[dict[str, Callable[[Blow, Crew], None]]] = {
    HANDSHAKE: _in_handshake,
    SEARCH: _in_search,
    FRAME: _in_frame,
    CALLBACK: _in_callback,
    MOVING: _moving,
    IDLE: _idle,
}
