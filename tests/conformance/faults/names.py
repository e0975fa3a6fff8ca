"""Faults in the names of brokers, and in closing brokers."""

from __future__ import annotations

from tests.conformance.fault import Fault

__all__ = ["NAMES"]

NAMES = [
    Fault(
        "one_name_space_for_all_worlds",
        [
            (
                "    port_in_use_error = PortInUseError\n",
                "    port_in_use_error = PortInUseError\n    all_names: dict = {}\n",
            ),
            ("self.names: dict[str, Broker] = {}", "self.names = self.all_names"),
        ],
        ["names.two_worlds_share_nothing"],
    ),
    Fault(
        "registered_with_the_first_accept",
        [
            ("            world.names[name] = self\n", "            pass\n"),
            (
                "        ticket = Ticket(self, exclusive, capacity or self.capacity)\n",
                "        ticket = Ticket(self, exclusive, capacity or self.capacity)\n"
                "        self.world.names[self.name] = self\n",
            ),
        ],
        ["names.a_broker_is_found_as_soon_as_it_is_made"],
    ),
    Fault(
        "an_empty_name_will_do",
        [("        if not name:\n", "        if name is None:\n")],
        ["names.names_are_strings_and_not_empty"],
    ),
    Fault(
        "a_second_broker_takes_the_name_over",
        [("            if name in world.names:\n", "            if False:\n")],
        ["names.a_live_name_is_refused", "names.one_of_many_wins_a_name"],
    ),
    Fault(
        "a_name_is_looked_up_before_the_lock_is_taken",
        [
            (
                "        with world.changed:\n            if name in world.names:\n"
                '                raise ValueError(f"{name} is in use")\n'
                "            world.names[name] = self\n",
                "        with world.changed:\n            taken = name in world.names\n"
                "        if taken:\n"
                '            raise ValueError(f"{name} is in use")\n'
                "        with world.changed:\n            world.names[name] = self\n",
            )
        ],
        ["names.one_of_many_wins_a_name"],
    ),
    Fault(
        "waiters_are_inherited_with_the_name",
        [
            (
                "(target, self.kind, port, role), [])",
                "(target.name, self.kind, port, role), [])",
            ),
            (
                "(target, self.kind, port, opposite), [])",
                "(target.name, self.kind, port, opposite), [])",
            ),
        ],
        ["names.a_name_is_free_again_and_inherits_nothing"],
    ),
    Fault(
        "close_forgets_the_connects_made_from_here",
        [("if self in (target, t.caller)]", "if self is target]")],
        [
            "names.close_releases_every_waiter",
            "names.a_connect_released_by_close_leaves_no_trace",
        ],
    ),
    Fault(
        "a_released_connect_is_left_in_the_map",
        [
            ("                    tickets.remove(ticket)\n", ""),
            (
                "                if ticket in mine:\n",
                "                if not ticket.lost:\n",
            ),
        ],
        ["names.a_connect_released_by_close_leaves_no_trace"],
    ),
    Fault(
        "a_broker_closed_in_mid_connect_is_waited_for",
        [
            (
                "            if self.closed or target.closed:\n",
                "            if self.closed:\n",
            )
        ],
        ["names.close_against_match_is_all_or_nothing"],
    ),
    Fault(
        "close_hangs_up",
        [
            (
                "        self.world.changed.notify_all()\n        return ticket.end",
                "        self.world.changed.notify_all()\n"
                "        for ticket in (ticket, other):\n"
                "            ticket.caller.__dict__.setdefault('ends', "
                "[]).append(ticket.end)\n"
                "        return (left if role == 'accept' else right)",
            ),
            (
                "            self.closed = True\n",
                "            self.closed = True\n"
                "            for end in self.__dict__.get('ends', []):\n"
                "                end.disconnect()\n",
            ),
        ],
        ["names.queues_outlive_their_brokers", "names.queues_outlive_their_manager"],
    ),
    Fault(
        "a_closed_broker_still_serves",
        [
            (
                "            if self.closed or target.closed:\n",
                "            if False:\n",
            )
        ],
        ["names.a_closed_broker_refuses"],
    ),
    Fault(
        "a_broker_of_channels_is_found_for_messages",
        [("if target is None or target.kind != self.kind:", "if target is None:")],
        ["names.a_broker_of_channels_has_no_face_for_queues"],
    ),
    Fault(
        "kinds_meet",
        [
            ("if target is None or target.kind != self.kind:", "if target is None:"),
            ("(target, self.kind, port, role), [])", "(target, '', port, role), [])"),
            (
                "(target, self.kind, port, opposite), [])",
                "(target, '', port, opposite), [])",
            ),
        ],
        ["rendezvous.kinds_must_agree"],
    ),
    Fault(
        "a_name_space_for_each_kind",
        [
            (
                "            if name in world.names:\n",
                "            if name in world.names and "
                "world.names[name].kind == kind:\n",
            )
        ],
        ["names.queues_and_channels_share_one_name_space"],
    ),
]
