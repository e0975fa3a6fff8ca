"""The invariants of the model of searches and relays, for a simulated bus.

The names are those of ``specs/promela/search.pml``. After any step, a simulator fills
in a `Snapshot` and calls each of `SAFETY`. Once nothing is under way and every deadline
has passed, it calls each of `AT_REST` as well. This module does not depend on the code
of the bus: registrations and searches may be identified by any distinct values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Sequence
from typing import Final, TypeAlias

import attrs

__all__ = [
    "AT_REST",
    "SAFETY",
    "Answer",
    "Hosted",
    "LedgerEntry",
    "News",
    "Process",
    "Relay",
    "Release",
    "Snapshot",
    "a_name_is_left_to_one",
    "a_relay_of_who_is_gone_will_end",
    "a_search_is_answered_once",
    "an_elimination_spares_the_newer",
    "garbage_relays_vanish",
    "ledgers_forget_what_is_over",
    "no_ledger_keeps_a_ghost",
    "no_relay_survives_both_ends",
    "no_search_goes_in_a_circle",
    "one_relay_for_a_registration_and_link",
    "only_the_holder_answers",
]

RegistrationId: TypeAlias = Hashable
SearchId: TypeAlias = Hashable
LinkId: TypeAlias = Hashable


@attrs.frozen
class Hosted:
    """A task that a process hosts, as long as it can be found there.

    machine: of the name; several machines may use the same name.
    """

    id: RegistrationId
    name: str
    public: bool = True
    machine: str = ""


@attrs.frozen
class Relay:
    """The relay of a task of another process.

    id: the registration of that task. link: the link it sends on; None for none yet.
    made_for: registrations of its process that need it; if that is not tracked, all of
      them.
    lingers: True if it is released at a deadline, because its link is not made or no
      task needs it.
    """

    id: RegistrationId
    link: LinkId | None = None
    made_for: frozenset[RegistrationId] = frozenset()
    lingers: bool = False


@attrs.frozen
class LedgerEntry:
    """A search that a process keeps. asked: the processes it was forwarded to."""

    id: SearchId
    asked: frozenset[str] = frozenset()


@attrs.define(eq=False)
class Process:
    """One process. searches: its own open searches; ledger: those of others.

    registrations: the ids of the tasks hosted here.
    """

    hosted: tuple[Hosted, ...] = ()
    relays: tuple[Relay, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    searches: frozenset[SearchId] = frozenset()
    registrations: frozenset[RegistrationId] = attrs.field(init=False)

    @registrations.default
    def _registrations(self) -> frozenset[RegistrationId]:
        return frozenset([each.id for each in self.hosted])


@attrs.frozen
class News:
    """An end that is under way to a process.

    It is an ELIMINATE or UNRELAY of a registration, a CANCEL of a search, or the loss
    of a link or of a process, for each registration and search that it ends.
    """

    to: str
    over: RegistrationId | SearchId


@attrs.frozen
class Answer:
    """An ADD_RELAY that reached the searching process.

    hosted: True if its sender hosted that registration, as public, when it sent it.
    """

    search: SearchId
    hosted: bool = True


@attrs.frozen
class Release:
    """A relay that was released because a registration was reported as departed."""

    relay: RegistrationId
    said: RegistrationId


# Not frozen, for speed: one is made for each step of each simulated machine.
@attrs.define(eq=False)
class Snapshot:
    """A bus, between two steps.

    news: the ends under way. expired: searches past their deadline, which every process
      that keeps them notices by itself.
    sought: since the beginning, each search with each process that it reached,
      including its origin; a process that rejoins counts as another one.
    answers, releases: since the beginning.
    living: the registrations that exist in any process.
    dead: the relays of other registrations, with the processes that hold these relays.
    """

    processes: dict[str, Process]
    news: Container[News] = frozenset()
    expired: Container[SearchId] = frozenset()
    sought: Sequence[tuple[SearchId, str]] = ()
    answers: Sequence[Answer] = ()
    releases: Sequence[Release] = ()

    living: frozenset[RegistrationId] = attrs.field(init=False)
    dead: list[tuple[str, Process, Relay]] = attrs.field(init=False)

    @living.default
    def _living(self) -> frozenset[RegistrationId]:
        known = [each.registrations for each in self.processes.values()]
        return frozenset().union(*known)

    @dead.default
    def _dead(self) -> list[tuple[str, Process, Relay]]:
        living = self.living
        return [
            (name, process, relay)
            for name, process in self.processes.items()
            for relay in process.relays
            if relay.id not in living
        ]

    def is_open(self, search: SearchId) -> bool:
        """True if a process still waits for the answer to a search."""
        return any(search in each.searches for each in self.processes.values())

    def will_hear(self, process: str, over: Hashable) -> bool:
        """True if news of an end are under way to a process."""
        return News(process, over) in self.news


# Safety: at every step.


def no_search_goes_in_a_circle(snapshot: Snapshot) -> None:
    """OPEN-9, BUS-ROUTE-17: no process gets its own search, nor any search twice."""
    sought = snapshot.sought
    if len(set(sought)) < len(sought):
        raise AssertionError([each for each, n in Counter(sought).items() if n > 1])


def one_relay_for_a_registration_and_link(snapshot: Snapshot) -> None:
    """BUS-RELAY-3, BUS-ROUTE-11."""
    for name, process in snapshot.processes.items():
        relays = [(each.id, each.link) for each in process.relays]
        assert len(set(relays)) == len(relays), name


def a_search_is_answered_once(snapshot: Snapshot) -> None:
    """BUS-ROUTE-9, BUS-ROUTE-18."""
    assert len({each.search for each in snapshot.answers}) == len(snapshot.answers)


def only_the_holder_answers(snapshot: Snapshot) -> None:
    """BUS-ROUTE-10: never a relay, nor the host of a private task."""
    assert all(each.hosted for each in snapshot.answers)


def an_elimination_spares_the_newer(snapshot: Snapshot) -> None:
    """BUS-DEREG-7: it concerns one registration, whatever its name."""
    assert all(each.relay == each.said for each in snapshot.releases)


def no_relay_survives_both_ends(snapshot: Snapshot) -> None:
    """BUS-DEREG-3, BUS-DEREG-10: its task, and all tasks that it was made for."""
    for name, process, relay in snapshot.dead:
        if not _needed(process, relay):
            assert relay.lingers or snapshot.will_hear(name, relay.id), name


def a_relay_of_who_is_gone_will_end(snapshot: Snapshot) -> None:
    """BUS-DEREG-2, BUS-DEREG-4, BUS-ROUTE-12: by news, or by a deadline."""
    for name, _, relay in snapshot.dead:
        assert relay.lingers or snapshot.will_hear(name, relay.id), name


def no_ledger_keeps_a_ghost(snapshot: Snapshot) -> None:
    """BUS-ROUTE-19, BUS-DEREG-11: news are under way for each search that has ended.

    They may have to pass through other processes, which have not received them yet.
    """
    entries = _entries(snapshot)
    if not entries:
        return
    ways: dict[tuple[str, SearchId], set[str]] = {}
    for name, entry in entries:
        for other in entry.asked:
            ways.setdefault((other, entry.id), set()).add(name)
    for name, entry in entries:
        if snapshot.is_open(entry.id) or entry.id in snapshot.expired:
            continue
        passers, left = {name}, [name]
        while left:
            more = ways.get((left.pop(), entry.id), set()) - passers
            passers |= more
            left += more
        assert any(snapshot.will_hear(each, entry.id) for each in passers), name


# Liveness: when nothing is under way and no deadline is left.


def garbage_relays_vanish(snapshot: Snapshot) -> None:
    """BUS-DEREG-3, BUS-DEREG-10."""
    for name, process, relay in _relays(snapshot):
        assert relay.id in snapshot.living, name
        assert _needed(process, relay), name


def ledgers_forget_what_is_over(snapshot: Snapshot) -> None:
    """BUS-DEREG-11."""
    for name, entry in _entries(snapshot):
        assert snapshot.is_open(entry.id), name


def a_name_is_left_to_one(snapshot: Snapshot) -> None:
    """OPEN-3, BUS-MOVE-7: among all processes that have a link to the master."""
    public = Counter(
        (each.machine, each.name)
        for process in snapshot.processes.values()
        for each in process.hosted
        if each.public
    )
    assert all(times == 1 for times in public.values())


Invariant: TypeAlias = Callable[[Snapshot], None]

SAFETY: Final[tuple[Invariant, ...]] = (
    no_search_goes_in_a_circle,
    one_relay_for_a_registration_and_link,
    a_search_is_answered_once,
    only_the_holder_answers,
    an_elimination_spares_the_newer,
    no_relay_survives_both_ends,
    a_relay_of_who_is_gone_will_end,
    no_ledger_keeps_a_ghost,
)
AT_REST: Final[tuple[Invariant, ...]] = (
    garbage_relays_vanish,
    ledgers_forget_what_is_over,
    a_name_is_left_to_one,
)


def _relays(snapshot: Snapshot) -> list[tuple[str, Process, Relay]]:
    return [
        (name, process, relay)
        for name, process in snapshot.processes.items()
        for relay in process.relays
    ]


def _entries(snapshot: Snapshot) -> list[tuple[str, LedgerEntry]]:
    return [
        (name, entry)
        for name, process in snapshot.processes.items()
        for entry in process.ledger
    ]


def _needed(process: Process, relay: Relay) -> bool:
    return not process.registrations.isdisjoint(relay.made_for)
