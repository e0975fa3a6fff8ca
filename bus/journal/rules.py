"""The rules that a journal is checked against, in terms that both checkers share.

Two checkers know nothing of one another: `bus.journal.checker` (a fold in plain Python)
and the Spark rules. On the same journals they must report the same would-be violations.
They share this module: identifiers, texts, verdicts and the meaning of every rule,
never code that decides. Change a predicate here first, then in both.

Terms, by the names of the record's fields, with *port* for `mid`:

* A *channel record* has a kind in 16..38 and ``flow >> 1 > 0``; its *channel* is
  ``flow >> 1``. A *message record* is a channel record with ``seq > 0``.
* *Before* and *after* compare `n`, and only records of one journal.
* Of a journal: *records* = valid records; *first*, *last* = lowest and highest `n`
  among them; *gaps* = last - first + 1 - records; *lost* = the largest `lost` in its
  segment headers or seals; *damaged* = segments that contradict themselves (header,
  seal, checksum or counts wrong, or a slot of a sealed segment that is neither empty
  nor valid); *closed* = some record is a CLOSE; *late* = its meta file states that
  operations were reported after it was closed.
* A *death* is a LINK_DOWN with the reason DIED: of the process `mid` on the machine
  that `peer` names. A journal *died* if all of these hold: it has records; it is not
  closed; another journal of the same boot has a death of the process and machine that
  its meta file names; and the `mono` of that death is not below the greatest in its
  records. It has *ended* if it is closed or died.
* A journal has *not begun* if it has no records; lost and damaged are 0; its only
  segment is segment 0, without a seal, and all slots after the first are empty; and
  its meta file has at most one line, which names nothing. The first record, OPEN,
  precedes every record of an operation, so no operation can be missing.
* A journal is *lossy* if it has begun and has no records, or first > 0, or gaps, lost
  or damaged > 0.
  It is *complete* if it has ended and is not lossy, and *conclusive* if it is complete
  and not late.
* The *journals of a channel* are those that hold a channel record of it. Only the
  receiver of a flow writes its message records RECEIVE and its CLOSE_LOCAL. The
  *sender* of a flow *died* if a journal of the channel died that holds none of these.

* A *journal of the bus* holds a record with a kind in 64..88. A *bus record* has a kind
  in 72..88. Its *message* is (`origin`, sort, `mid`, `flow`), where the *sort* is the
  bits NOTIFICATION and ANSWER of `flags`; an *answer* has the latter. Its *line* is the
  message without `mid`. A message is *accepted* by a COMMAND, RESPOND or NOTIFY,
  *explained* by a DISCARD, UNDELIVERED or IN_DOUBT.
* The *home* of a registration (or process) x is each journal with a REGISTER whose
  `flow` is x. It is a *task* if one of these names it; the least of these names is its
  *name*. A message was *struck* if a journal died that holds a bus record of it, or is
  the home of its `origin` or its `flow`.

* A *crossing* is a RELAY_OUT o and a RELAY_IN i of one message and hop that has one of
  each. In one known boot it is *early* if i.mono < o.mono. From one known boot to
  another one its *difference* is i.mono - o.mono; its *window* is the `mono` of its
  record in the lesser boot, less the remainder by `bus.journal.clocks.WINDOW_NS`. Of
  the crossings of two boots in one window, let F and B be the least differences each
  way. If `bus.journal.clocks.contradict` holds for F and B, a crossing that contradicts
  the least of the other way is early, if the crossings of its way that do so are no
  more than those of the other way.

From would-be violation to verdict. A would-be violation of a rule on PRESENCE is FAIL:
the records that prove it exist. One of a rule on ABSENCE is FAIL if all journals of its
channel are conclusive and the channel is *whole*, else UNKNOWN: the missing record may
be lost, not written yet, or in a journal that is not here. A channel is whole if its
number is below `queuebroker.observer.SHARED_CHANNELS`, or both its sides *acted*: side
s did if there is a message record SEND of the flow to the other side, or a message
record RECEIVE or a CLOSE_LOCAL of the flow to s. One of a message of the bus may
concern any journal. It is FAIL if all journals of the bus are conclusive and both its
`origin` and its `flow` have a home, else UNKNOWN.
J1's own are FAIL if the journal is damaged, else UNKNOWN.

A rule's verdict is FAIL if any of its would-be violations is FAIL; else UNKNOWN if any
is UNKNOWN or any journal is lossy (a lost record may have broken it); else NOTHING if
the rule checked no item (`RuleVerdict.checked` is 0); else PASS.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import Flag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "RULES",
    "SORTS",
    "Basis",
    "Rule",
    "RuleVerdict",
    "Verdict",
    "worst",
]

# The sort of a message of the bus, by the bits of `flags` that determine it.
SORTS: Final = MappingProxyType(
    {
        0: "command",
        int(Flag.NOTIFICATION): "notification",
        int(Flag.ANSWER): "answer to a command",
        int(Flag.NOTIFICATION | Flag.ANSWER): "answer to a notification",
    }
)


class Verdict(enum.StrEnum):
    """The verdict on a rule after reading the journals.

    NOTHING: the journals are complete and hold no record to which the rule applies, so
      it proves nothing.
    """

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    NOTHING = "nothing to check"


class Basis(enum.StrEnum):
    """The evidence of a violation: records that exist, or one that does not."""

    PRESENCE = "presence"
    ABSENCE = "absence"


def _frozen(cases: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(cases))


@attrs.frozen
class Rule:
    """One promise.

    id, title, text: for people.
    basis: ABSENCE if incomplete journals can make a violation UNKNOWN.
    unit: the unit that `checked` counts.
    identity: the fields that identify a violation; two checkers agree if their sets of
      (rule, these fields, verdict) are equal.
    predicate: the exact meaning, in the terms of this module.
    cases: the reasons, by name, as templates for `str.format` over the facts named in
      them; if several hold, the first in this order is reported.
    proven: cases that rest on presence although the rule rests on absence.
    """

    id: str
    title: str
    text: str
    basis: Basis
    unit: str
    identity: tuple[str, ...]
    predicate: str
    cases: Mapping[str, str] = attrs.field(converter=_frozen)
    proven: tuple[str, ...] = ()

    def basis_of(self, case: str) -> Basis:
        """Return the evidence of a violation of that case."""
        return Basis.PRESENCE if case in self.proven else self.basis


@attrs.frozen
class RuleVerdict:
    """The outcome of one rule.

    checked: the number of the rule's units that were checked.
    violated, unknown: the numbers of would-be violations that are FAIL, or UNKNOWN.
    why: the reason for UNKNOWN, "" for other verdicts.
    """

    rule: str
    verdict: Verdict
    checked: int
    violated: int
    unknown: int
    why: str


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the first of FAIL, UNKNOWN and PASS that occurs, else NOTHING."""
    found = set(verdicts)
    for verdict in (Verdict.FAIL, Verdict.UNKNOWN, Verdict.PASS):
        if verdict in found:
            return verdict
    return Verdict.NOTHING


_ALL: Final = (
    Rule(
        id="J1",
        title="journal complete",
        text=(
            "The journal was closed, or its process is known to have died, and nothing"
            " in it is missing or damaged."
        ),
        basis=Basis.ABSENCE,
        unit="journals",
        identity=("journal",),
        predicate=(
            "One would-be violation for each journal that is not complete; FAIL if it"
            " is damaged, else UNKNOWN."
        ),
        cases={
            "damaged": "{damaged} segments contradict themselves",
            "unbegun": "its process had not begun to record: it runs, or died first",
            "empty": "it holds no record",
            "lost": "{lost} records could not be written",
            "gaps": "{gaps} records are missing between {first} and {last}",
            "beginning": "the records before {first} are missing",
            "open": "it was not closed: its process runs, or died first",
        },
    ),
    Rule(
        id="Q1",
        title="rendezvous symmetry",
        text="Every channel joins one accept and one connect that were matched.",
        basis=Basis.ABSENCE,
        unit="channels",
        identity=("flow",),
        predicate=(
            "Over each channel of a channel record: a would-be violation unless there"
            " is exactly one ACCEPT_END a and exactly one CONNECT_END c; and"
            " a.port == c.port; and a.task == c.peer and a.peer == c.task as names,"
            " where a pair with an empty or unknown name on either side counts as"
            " equal; and, if a and c are in one journal, no ACCEPT_BEGIN of that"
            " journal with seq == a.seq > 0 comes after c, unless an earlier one with"
            " that seq does not, and no CONNECT_BEGIN with seq == c.seq > 0 comes"
            " after a, likewise (take the lowest n of each). A call need not have"
            " recorded a begin. None if there is one such record in all and a journal"
            " of the channel died: its process was killed between the two. The blocked"
            " intervals are compared by record number: both ends are recorded in one"
            " critical section, in which the thread may be suspended for any time"
            " between two clock readings."
        ),
        cases={
            "count": "{accepts} accepts and {connects} connects ended on one channel",
            "port": "accepted on port {accept_port}, connected on {connect_port}",
            "names": "{a_task} accepted {a_peer}, but {c_task} connected to {c_peer}",
            "interval": "{late} began to wait after the other side had been matched",
        },
    ),
    Rule(
        id="Q2",
        title="first in, first out",
        text="No message is received after one that was sent later.",
        basis=Basis.PRESENCE,
        unit="receives",
        identity=("flow", "seq", "n"),
        predicate=(
            "Over each message record RECEIVE r: a would-be violation if a RECEIVE of"
            " the same flow and journal comes before r and has a greater seq. One for"
            " each such r. `other_n` is the one with the greatest seq."
        ),
        cases={"overtaken": "received after message {other_seq} of its flow"},
    ),
    Rule(
        id="Q3",
        title="no duplicate",
        text="No message is received twice.",
        basis=Basis.PRESENCE,
        unit="messages received",
        identity=("flow", "seq"),
        predicate=(
            "Over each (flow, seq) of message records RECEIVE, all journals together:"
            " a would-be violation if there is more than one. `n` is the second's."
        ),
        cases={"twice": "received {count} times"},
    ),
    Rule(
        id="Q4",
        title="no creation",
        text="Every message that is received was sent.",
        basis=Basis.ABSENCE,
        unit="messages received",
        identity=("flow", "seq"),
        predicate=(
            "Over each (flow, seq) of message records RECEIVE: a would-be violation if"
            " there is no SEND with that flow and seq in any journal; but none if the"
            " sender of the flow died and seq is the one after the greatest of its"
            " SENDs, 0 if there are none: that send was done, and not yet recorded."
        ),
        cases={"foreign": "received, but never sent"},
    ),
    Rule(
        id="Q5",
        title="lossless until disconnect",
        text=(
            "Every message that is sent is received, unless its receiver disconnects"
            " first."
        ),
        basis=Basis.ABSENCE,
        unit="messages sent",
        identity=("flow", "seq"),
        predicate=(
            "Over each (flow, seq) of message records SEND without a RECEIVE and"
            " without a DROP of that flow and seq in any journal: a would-be violation"
            " 'overtaken' if a RECEIVE of the flow has a greater seq; else"
            " 'unaccounted' if a CLOSE_LOCAL has the same flow (the receiving side"
            " disconnected, and dropped by record whatever it had not received), unless"
            " the sender of the flow died: the message may never have left it; else"
            " 'unexplained' if a journal of the channel has not ended; else none: the"
            " message was still in flight when the journal was closed, or its process"
            " died."
        ),
        cases={
            "overtaken": "sent, never received, though message {other_seq} was",
            "unaccounted": "sent, neither received nor dropped at the disconnect",
            "unexplained": "sent, not received, and the journal has no end",
        },
    ),
    Rule(
        id="Q6",
        title="causality",
        text="No message is received before it is sent.",
        basis=Basis.PRESENCE,
        unit="messages sent and received",
        identity=("flow", "seq"),
        predicate=(
            "Over each (flow, seq) with exactly one SEND s and one RECEIVE r among its"
            " message records, all journals together: a would-be violation if both are"
            " in one journal and r comes before s; or if they are in two journals of"
            " one known boot and r.mono < s.mono. `other_n` is that of s. Clocks of two"
            " boots are not compared."
        ),
        cases={"early": "received before it was sent"},
    ),
    Rule(
        id="Q7",
        title="half-disconnect",
        text="A disconnected side sends, receives and is sent nothing.",
        basis=Basis.PRESENCE,
        unit="sends and receives",
        identity=("flow", "n"),
        predicate=(
            "Let end(f) be the lowest n of a CLOSE_LOCAL of flow f in one journal."
            " Over each channel record SEND or RECEIVE r of that journal: a would-be"
            " violation 'received' if r is a RECEIVE and r.n > end(r.flow); 'sent' if"
            " r is a SEND and r.n > end(r.flow ^ 1) (the sender had disconnected);"
            " 'accepted' if r is a SEND, r.n > end(r.flow) and r.flow < 2**62 (the"
            " receiver had: such a message is dropped, not accepted; but over a socket"
            " the sender learns of it later). `other_n` is that CLOSE_LOCAL's."
        ),
        cases={
            "received": "received on a side that had disconnected",
            "sent": "sent by a side that had disconnected",
            "accepted": "accepted for a side that had disconnected",
        },
    ),
    Rule(
        id="Q8",
        title="integrity",
        text="A message is received with the size it was sent with.",
        basis=Basis.PRESENCE,
        unit="messages sent and received",
        identity=("flow", "seq"),
        predicate=(
            "Over each (flow, seq) with both a SEND and a RECEIVE among its message"
            " records, all journals together: a would-be violation if not all SEND and"
            " RECEIVE of it have one size."
        ),
        cases={"size": "sizes from {smallest} to {largest} bytes"},
    ),
    Rule(
        id="B1",
        title="at most once",
        text="No message of the bus is delivered twice to one receiver.",
        basis=Basis.PRESENCE,
        unit="messages delivered",
        identity=("origin", "sort", "flow", "seq"),
        predicate=(
            "Over each message of a DELIVER, all journals together: a would-be"
            " violation if there is more than one. `n` is the second's, by journal and"
            " n."
        ),
        cases={"twice": "delivered {count} times"},
    ),
    Rule(
        id="B2",
        title="routing",
        text="Each link that carries a message takes it one hop further.",
        basis=Basis.ABSENCE,
        unit="messages on links",
        identity=("origin", "sort", "flow", "seq"),
        predicate=(
            "Over each message of a RELAY_OUT or RELAY_IN, all journals together: a"
            " would-be violation 'again' if two of its RELAY_OUTs have one hop or are"
            " in one journal, or two of its RELAY_INs; else 'back' if a RELAY_IN comes"
            " before a RELAY_OUT in one journal and the hop of the latter is not"
            " greater; else 'early' if one of its crossings is; else none if it was"
            " struck; else 'foreign' if a RELAY_IN has a hop that no RELAY_OUT has;"
            " else none if every hop of a RELAY_OUT is that"
            " of a RELAY_IN, or the message is explained; else 'overtaken' if it is no"
            " answer and a RELAY_IN of its line has a greater mid; else 'unexplained'"
            " if any journal of the bus has not ended; else none: it was on the link"
            " when they were closed."
        ),
        cases={
            "again": "put on a link twice from one place, or twice with one hop",
            "back": "read from a link, and put on one with a hop that is not greater",
            "early": "read from a link before it was put on it",
            "foreign": "read from a link, but never put on one",
            "overtaken": "put on a link, never read, though message {other_seq} was",
            "unexplained": "put on a link, not read, and a journal has no end",
        },
        proven=("again", "back", "early"),
    ),
    Rule(
        id="B3",
        title="loss is explained",
        text="Every accepted message is delivered, or a record gives the reason.",
        basis=Basis.ABSENCE,
        unit="messages accepted",
        identity=("origin", "sort", "flow", "seq"),
        predicate=(
            "Over each message that was accepted and has neither a DELIVER nor is"
            " explained in any journal, and was not struck: a would-be violation"
            " 'overtaken' if it is no answer and a DELIVER of its line has a greater"
            " mid; else 'unaccounted' if there is a DEREGISTER of its `flow`; else"
            " 'unexplained' if any journal of the bus has not ended; else none: it was"
            " unread, or on its way, when they were closed. `n` is that of the first"
            " record, by journal and n, which says that it was accepted."
        ),
        cases={
            "overtaken": "accepted, never delivered, though message {other_seq} was",
            "unaccounted": "accepted, and in no record when its receiver deregistered",
            "unexplained": "accepted, not delivered, and a journal has no end",
        },
    ),
    Rule(
        id="B4",
        title="multicast scope",
        text="A notification is delivered only to tasks that subscribe to its sender.",
        basis=Basis.ABSENCE,
        unit="deliveries of notifications",
        identity=("origin", "sort", "flow", "seq", "n"),
        predicate=(
            "Over each DELIVER r of a notification whose `flow` is a task: a would-be"
            " violation unless some SUBSCRIBE s of its `flow` comes before r in its"
            " journal, the pattern that s names matches the name of r's `origin`, and s"
            " has not ended, or ends after r, or no DELIVER of a notification for that"
            " `flow` in that journal lies between its end and r: that callback was"
            " about to begin when the subscription ended. The end of s is the lowest n"
            " of an UNSUBSCRIBE with its `flow` and `mid` in its journal. A pattern, or"
            " the name of an origin, that is not known matches. In a pattern `*` is one"
            " part of a name between slashes, `**` any number of parts; neither is the"
            " first part of a name that begins with '_bus/'."
        ),
        cases={"unsubscribed": "delivered to a task that did not subscribe to it"},
    ),
    Rule(
        id="B5",
        title="order of each sender",
        text="Messages from one task to another arrive in the order sent.",
        basis=Basis.PRESENCE,
        unit="deliveries",
        identity=("origin", "sort", "flow", "seq", "n"),
        predicate=(
            "Over each DELIVER r of a message that is no answer: a would-be violation"
            " if a DELIVER of its line and journal comes before r and has a greater"
            " mid. One for each such r. `other_n` is the one with the greatest mid."
        ),
        cases={"overtaken": "delivered after message {other_seq} of its sender"},
    ),
    Rule(
        id="B6",
        title="discovery",
        text="A message is accepted for, and delivered to, registered tasks only.",
        basis=Basis.PRESENCE,
        unit="messages for known destinations",
        identity=("origin", "sort", "flow", "seq", "n"),
        predicate=(
            "Over each COMMAND, RESPOND, NOTIFY or DELIVER r: a would-be violation"
            " 'early' if there is a REGISTER of its `flow` in a journal of the same"
            " known boot, and r.mono is below that of all these; else 'late' if it is"
            " of no answer and comes after a DEREGISTER of its `flow` in its journal."
            " `other_n` of the latter is the lowest n of these."
        ),
        cases={
            "early": "found before its receiver had registered",
            "late": "found after its receiver had deregistered",
        },
    ),
)

RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.id: rule for rule in _ALL})
