"""A `Model`: its text, its properties, its sizes, its planted faults.

The text alone defines the properties, as ``ltl NAME { ... }``; those before the line
``/* Liveness. */`` are safety. A fault is a define that breaks one step; each names the
property by which SPIN must find it. At least one fault names each property, so that
none of them holds vacuously.
"""

from __future__ import annotations

import importlib.resources
import re
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MODELS", "Case", "Fault", "Model", "Size"]

_PROPERTY = re.compile(r"^ltl (\w+)", re.MULTILINE)
_LIVENESS = "/* Liveness. */"


@attrs.frozen
class Size:
    """The size of a model.

    quick: True if it belongs to the short run.
    only: the properties to check at this size, all if empty.
    never: properties that are meaningless at this size.
    """

    name: str
    defines: tuple[str, ...] = ()
    quick: bool = True
    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


@attrs.frozen
class Fault:
    """One broken step, and the property that must fail.

    quick: True if it belongs to the short run.
    """

    name: str
    found_by: str
    defines: tuple[str, ...] = ()
    quick: bool = False


@attrs.frozen
class Case:
    """One run: a model, its defines, one property, and the planted fault, if any."""

    model: Model
    size: str
    defines: tuple[str, ...]
    prop: str
    fault: str | None = None

    @property
    def holds(self) -> bool:
        """True if the property is expected to hold."""
        return self.fault is None


@attrs.frozen
class Model:
    """One ``.pml`` file of this package."""

    name: str
    sizes: tuple[Size, ...]
    faults: tuple[Fault, ...]

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}.pml"

    def text(self) -> str:
        """Return the text of its file."""
        # A package resource, so that an installed wheel works like the source tree.
        page = importlib.resources.files("specs.promela") / self.file
        return page.read_text(encoding="utf-8")

    def safety(self) -> tuple[str, ...]:
        """Return the properties that one state can break, in the order of the text."""
        return tuple(_PROPERTY.findall(self.text().partition(_LIVENESS)[0]))

    def liveness(self) -> tuple[str, ...]:
        """Return the properties that only an endless run can break."""
        return tuple(_PROPERTY.findall(self.text().partition(_LIVENESS)[2]))

    def cases(self, *, quick: bool) -> Iterator[Case]:
        """Yield every run of this model, those of one program together."""
        for size in self.sizes:
            if quick and not size.quick:
                continue
            for prop in size.only or (*self.safety(), *self.liveness()):
                if prop not in size.never:
                    yield Case(self, size.name, size.defines, prop)
        for fault in self.faults:
            if quick and not fault.quick:
                continue
            defines = (*fault.defines, fault.name)
            yield Case(self, "-", defines, fault.found_by, fault.name)


_AS_READ: Final = "status_as_read_moves_down_only"
# The first needs a process that reads; the second is four times as large as the rest.
_ALONE: Final = (_AS_READ, "status_moves_down_only")
_TWO: Final = ("TWO_RECEIVERS", "CAPACITY=2")
_WATCHED: Final = ("WATCHED", "CAPACITY=2")
# Number of searches: one searcher once, two of them once each.
_ONCE: Final = ("SEARCHES=1",)
_BOTH: Final = ("TWO", "SEARCHES=1")
_KNOWN: Final = ("OWNER_KNOWN", "PATIENT")
_DEADLINE: Final = "a_search_with_a_deadline_ends"
_FOUND: Final = "a_search_for_who_is_there_ends"
_GARBAGE: Final = "garbage_relays_vanish"
_WILL_END: Final = "a_relay_of_who_is_gone_will_end"
_LEDGERS: Final = "ledgers_forget_what_is_over"
_LINKED: Final = "they_have_a_link_in_the_end"
_ANEW: Final = ("SENDER_ANEW", "RECEIVER_ANEW")
_DURABLE: Final = ("DURABLE", "RECEIVER_ANEW")
_LONG: Final = ("BREAKS=2", "LIVES=3")
_ONE_DELIVERY: Final = "nothing_is_delivered_twice"
_ONE_OUTCOME: Final = "each_message_has_one_outcome"
_COVERED: Final = "a_synced_horizon_covers_each_delivery"
_SETTLES: Final = "every_message_has_an_outcome"
# The properties for the largest sizes.
_OF_SEARCHES: Final = (
    "no_search_goes_in_a_circle",
    "a_search_is_answered_once",
    "only_the_holder_answers",
    "no_ledger_keeps_a_ghost",
    _FOUND,
)
_OF_RELAYS: Final = (
    "one_relay_for_a_registration_and_link",
    "an_elimination_spares_the_newer",
    "no_relay_survives_both_ends",
    _WILL_END,
    _GARBAGE,
)

MODELS: Final = (
    Model(
        "rendezvous",
        sizes=(
            Size("three", never=("who_came_first_is_met_first",)),
            Size(
                "four", ("FOUR",), quick=False, never=("who_was_interrupted_hangs_up",)
            ),
        ),
        faults=(
            Fault("EXPIRY_UNCHECKED", "both_succeed_or_neither", quick=True),
            Fault("EXPIRY_UNCHECKED", "final_states_are_final"),
            Fault("STATE_FIRST", "a_match_gives_both_an_end"),
            Fault("NO_WAKE", "who_has_ended_returns", quick=True),
            Fault("NO_WAKE", "a_close_ends_the_wait"),
            Fault("HALF_CLOSE", "nobody_waits_where_it_is_closed"),
            Fault("TWO_SECTIONS", "one_role_waits"),
            Fault("TWO_SECTIONS", "a_pair_does_not_wait_for_ever"),
            Fault("GHOST", "who_is_listed_waits"),
            Fault("NEWEST_FIRST", "who_came_first_is_met_first", ("FOUR",)),
            Fault("NO_REASON", "who_withdrew_knows_why"),
            Fault("NEVER_DEPARTS", "who_departs_waits"),
            Fault("INTERRUPTED_SILENT", "who_was_interrupted_hangs_up"),
            Fault("EXPIRY_FORGOTTEN", "a_deadline_ends_the_wait"),
        ),
    ),
    Model(
        "half_disconnect",
        sizes=(
            Size("two receivers", _TWO, never=(_AS_READ,)),
            Size("watched", _WATCHED, only=(_AS_READ,)),
            Size("both ways", ("BOTH_WAYS",), quick=False, never=_ALONE),
        ),
        faults=(
            Fault("PEER_LOSES", "only_its_own_hang_up_discards", _TWO),
            Fault("PEER_LOSES", "what_was_accepted_is_drained", _TWO, quick=True),
            Fault("ONE_SIDE_ROUSED", "nobody_sleeps_through_a_hang_up", _TWO),
            Fault("ONE_SIDE_ROUSED", "a_hang_up_ends_every_receive", _TWO, quick=True),
            Fault("NOBODY_ROUSED", "a_hang_up_ends_every_send", _TWO),
            Fault("WAITS_FOR_READERS", "a_hang_up_returns", _TWO),
            Fault("KEEPS_UNREAD", "a_closed_side_has_nothing_unread", _TWO),
            Fault("NOT_COUNTED", "counters_balance", _TWO),
            Fault("NO_CHAIN", "no_waiter_is_forgotten", _TWO),
            Fault("NO_ROOM_TOLD", "a_send_goes_on_where_somebody_receives", _TWO),
            Fault("NO_ARRIVAL_TOLD", "what_has_arrived_is_received", _TWO),
            Fault("WAITED_STORES", "nothing_arrives_after_a_hang_up", _TWO),
            Fault("WAITED_STORES", "status_moves_down_only", _TWO),
            Fault("NEWEST_READ", "received_in_order", _TWO),
            Fault("UNREAD_FIRST", _AS_READ, _WATCHED, quick=True),
        ),
    ),
    Model(
        "stream",
        sizes=(
            Size("sender anew", ("SENDER_ANEW",)),
            Size("receiver anew", ("RECEIVER_ANEW",), quick=False),
            Size("both anew", ("SENDER_ANEW", "RECEIVER_ANEW"), quick=False),
        ),
        faults=(
            Fault("EPOCH_IGNORED", "nothing_is_accepted_twice", ("SENDER_ANEW",)),
            Fault("RESENDS_IN_DOUBT", "nothing_is_accepted_twice", ("RECEIVER_ANEW",)),
            Fault("OVERTAKES", "handed_over_in_order", quick=True),
            Fault("KEEPS_MISSING", "each_number_is_one_of_three"),
            Fault("WINDOW_OFF_BY_ONE", "no_more_is_outstanding_than_the_window"),
            Fault("FLOOR_IGNORED", "nothing_is_missing_below_the_floor"),
            Fault("HOLDS_ON", "nothing_is_held_without_a_gap"),
            Fault("SILENT_TO_DOUBLES", "every_message_is_settled", quick=True),
        ),
    ),
    Model(
        "restarts",
        sizes=(
            Size("no horizons", (*_ANEW, *_LONG, "SET_BACK"), never=(_COVERED,)),
            Size("clock goes on", (*_ANEW, *_LONG), quick=False, never=(_COVERED,)),
            Size("durable", ("DURABLE", *_ANEW, *_LONG, "SET_BACK"), quick=False),
            Size("durable, ahead", ("DURABLE", *_ANEW, *_LONG, "SET_BACK", "AHEAD=1")),
        ),
        faults=(
            Fault("HORIZON_UNSYNCED", _ONE_DELIVERY, _DURABLE, quick=True),
            Fault("HORIZON_UNSYNCED", _COVERED, _DURABLE),
            Fault("HORIZON_IGNORED", _ONE_DELIVERY, _DURABLE),
            Fault("EPOCH_IGNORED", _ONE_DELIVERY, ("SENDER_ANEW",), quick=True),
            Fault("INCARNATION_IGNORED", _ONE_DELIVERY, ("RECEIVER_ANEW",)),
            Fault("RESENDS_IN_DOUBT", _ONE_DELIVERY, ("RECEIVER_ANEW",), quick=True),
            Fault("RESENDS_IN_DOUBT", _ONE_OUTCOME, ("RECEIVER_ANEW",)),
            Fault("NUMBER_IGNORED", _ONE_DELIVERY),
            Fault("ACKS_EARLY", "acknowledged_messages_were_delivered", _ANEW),
            Fault("EXPIRES_SENT", "undelivered_messages_stay_undelivered"),
            Fault("KNOWN_IGNORED", _SETTLES, ("SENDER_ANEW", "SET_BACK"), quick=True),
        ),
    ),
    Model(
        "search",
        sizes=(
            Size("one searcher", _ONCE),
            Size("owner known", _KNOWN, quick=False, never=(_DEADLINE,)),
            Size("in master", ("TWO", "NEXT=0"), quick=False),
            Size("in slave 3", (*_BOTH, "NEXT=3"), quick=False),
            Size("two searchers", _BOTH, quick=False, only=_OF_SEARCHES),
            Size("again, early", ("EARLY=1",), quick=False, only=_OF_RELAYS),
            Size("leaves slowly", ("SLOWLY", *_ONCE), quick=False),
            Size("searcher lost", ("LOST=1", *_ONCE), quick=False),
            Size("holder lost", ("LOST=3", *_ONCE), quick=False),
            Size("data link cut", ("CUT", *_ONCE), quick=False),
        ),
        faults=(
            Fault("SENT_BACK", "no_search_goes_in_a_circle", _ONCE),
            Fault("MADE_TWICE", "one_relay_for_a_registration_and_link", _ONCE),
            Fault("EVERY_ANSWER_PASSED", "a_search_is_answered_once", _ONCE),
            Fault("ANSWERED_BY_RELAY", "only_the_holder_answers", (*_BOTH, "NEXT=0")),
            Fault("BY_NAME", "an_elimination_spares_the_newer", _ONCE, quick=True),
            Fault("ADDS_LATE", "no_relay_survives_both_ends", _ONCE),
            Fault("LEAVES_SILENTLY", _WILL_END, _ONCE),
            Fault("DEPARTED_ANSWERED", _WILL_END, (*_ONCE, "NEXT=0")),
            Fault("CANCEL_KEPT", "no_ledger_keeps_a_ghost", _ONCE),
            Fault("ANSWER_KEPT", "no_ledger_keeps_a_ghost", _ONCE),
            Fault("LEAVES_SEARCHING", _DEADLINE, _ONCE),
            Fault("NOT_SERVED", _FOUND, (*_BOTH, "NEXT=0")),
            Fault("NOT_ASKED_LATER", _FOUND, _KNOWN),
            Fault("WAITS_FOR_EVER", _GARBAGE, ("LOST=3", "NEXT=3", *_ONCE)),
            Fault("REPLIES_AFTER_LOSS", "no_ledger_keeps_a_ghost", ("LOST=1", *_ONCE)),
            Fault("REPLIES_AFTER_LOSS", _LEDGERS, ("LOST=1", *_ONCE), quick=True),
            Fault("KEEPS_NAME", "a_name_is_left_to_one", _ONCE),
        ),
    ),
    Model(
        "dialling",
        sizes=(
            Size("both discover"),
            Size("one way", ("ONE_WAY",)),
            Size("link broken", ("CUT",), quick=False),
        ),
        faults=(
            Fault("KEEPS_OWN", "one_of_two_links_stays", quick=True),
            Fault("KEEPS_BOTH", "one_link_is_open"),
            Fault("NOT_PROBED", "both_use_the_same_link", ("CUT",)),
            Fault("HIGHER_WAITS", _LINKED, ("ONE_WAY",)),
            Fault("NOT_AGAIN", _LINKED, ("CUT",)),
        ),
    ),
)
