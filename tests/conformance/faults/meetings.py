"""Faults in the matching of accept and connect."""

from __future__ import annotations

from tests.conformance.fault import Fault

__all__ = ["MEETINGS"]

_PORT_0 = (
    ("port, role), [])", "0, role), [])"),
    ("port, opposite), [])", "0, opposite), [])"),
)

MEETINGS = [
    Fault(
        "accept_does_not_wait",
        [
            (
                "            if theirs:\n",
                "            if theirs and theirs[0].end:\n"
                "                return theirs.pop(0).end\n"
                "            if theirs:\n",
            ),
            (
                "            mine.append(ticket)\n",
                "            if role == 'accept' and self.kind == 'message':\n"
                "                left, ticket.end = End.pair(ticket, ticket, port)\n"
                "                mine.append(ticket)\n"
                "                return left\n"
                "            mine.append(ticket)\n",
            ),
        ],
        [
            "rendezvous.both_wait_and_both_get_an_end",
            "rendezvous.accept_may_come_first",
            *(f"histories.meet_{number}" for number in range(8)),
        ],
    ),
    Fault(
        "ports_are_ignored",
        [*_PORT_0],
        [
            "rendezvous.name_and_port_must_agree",
            "rendezvous.scripts_agree_with_the_model",
        ],
    ),
    Fault(
        "the_last_comes_first",
        [("theirs.pop(0)", "theirs.pop()")],
        ["waiters.connects_are_served_in_order", "waiters.accepts_are_served_in_order"],
    ),
    Fault(
        "who_was_matched_is_still_counted",
        [
            (
                "            if theirs:\n",
                "            if any(not t.end for t in theirs):\n",
            ),
            ("theirs.pop(0)", "next(t for t in theirs if not t.end)"),
            (
                "                if ticket in mine:\n",
                "                if not ticket.end:\n",
            ),
        ],
        ["waiters.counts_of_waiters_return_to_zero"],
    ),
    Fault(
        "a_port_serves_twice",
        [
            (
                "            if theirs:\n",
                "            served = self.__dict__.setdefault('served', [])\n"
                "            served.append(port)\n"
                "            if served.count(port) > 2:\n"
                "                raise PortInUseError(port)\n"
                "            if theirs:\n",
            )
        ],
        ["waiters.a_port_serves_again_and_again"],
    ),
    Fault(
        "a_late_exclusive_accept_is_let_in",
        [
            (
                "any(t.exclusive or ticket.exclusive for t in mine)",
                "any(t.exclusive for t in mine)",
            )
        ],
        ["waiters.an_exclusive_accept_shares_with_nobody"],
    ),
    Fault(
        "nobody_connects_to_himself",
        [
            (
                "        if target is None or target.kind",
                "        if target is None or target is self or target.kind",
            )
        ],
        ["waiters.a_broker_connects_to_itself"],
    ),
    Fault(
        "an_unknown_name_is_waited_for",
        [
            (
                "            target = self.world.names.get(name)\n",
                "            known = self.world.names\n"
                "            self.world.changed.wait_for(lambda: name in known, 2.0)\n"
                "            target = known.get(name)\n",
            )
        ],
        [
            "rendezvous.an_unknown_name_gives_none_at_once",
            "timeouts.an_unknown_name_does_not_use_the_timeout",
        ],
    ),
    Fault(
        "required_is_ignored",
        [("            if required:\n", "            if False:\n")],
        ["rendezvous.a_required_broker_that_is_unknown_is_an_error"],
    ),
    Fault(
        "any_number_is_a_port",
        [("    if not 0 <= port < 2**31:\n", "    if port > 2**40:\n")],
        [
            "waiters.a_port_is_a_number_of_31_bits",
            "arguments.a_failed_accept_leaves_the_port_alone",
        ],
    ),
    Fault(
        "a_rendezvous_looks_only_once",
        [
            (
                "self.world.changed.wait_for(lambda: ticket.end or ticket.lost, limit)",
                "self.world.changed.wait(limit)",
            )
        ],
        ["progress.a_rendezvous_woken_in_vain_goes_on_waiting"],
    ),
]
