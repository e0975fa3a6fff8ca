"""M1 to M24: defects observed in other implementations."""

from __future__ import annotations

from tests.conformance.fault import Fault
from tests.conformance.faults.quoted import HANG_UP

__all__ = ["SEEN_ELSEWHERE"]

_MUTEX = (
    "        self._closed = False\n",
    "        self._closed = False\n        self._mutex = threading.Lock()\n",
)
_SEND = "        limit = limit_of(timeout)\n        with self._changed:\n            if"
_RECEIVE = (
    "        with self._changed:\n"
    "            self._wait(lambda: bool(self._inbound), limit)"
)

SEEN_ELSEWHERE = [
    Fault(
        "M1_roles_are_ignored",
        [
            (
                "(target, self.kind, port, opposite), [])",
                "(target, self.kind, port, role), [])",
            )
        ],
        ["rendezvous.connects_do_not_meet", "rendezvous.accepts_do_not_meet"],
    ),
    Fault(
        "M2_a_match_stays_in_the_map",
        [
            ("theirs.pop(0)", "theirs[0]"),
            (
                "                if ticket in mine:\n",
                "                if not ticket.end:\n",
            ),
        ],
        ["waiters.a_third_caller_meets_no_dead_match"],
    ),
    Fault(
        "M3_length_is_taken_for_the_end",
        [("view[offset : offset + length]", "view[offset:length]")],
        ["sending.offset_and_length_count_bytes"],
    ),
    Fault(
        "M4_lengths_are_signed_bytes",
        [
            (
                "            message = self._inbound.popleft()\n",
                "            message = self._inbound.popleft()\n"
                "            if 128 <= len(message) < 256:\n"
                "                message = message[: len(message) - 256]\n",
            )
        ],
        ["sending.lengths_at_the_edges_arrive"],
    ),
    Fault(
        "M5_nobody_is_notified_and_a_poll_hides_it",
        [
            (
                (
                    "        self._changed.wait_for(lambda: self._gone() or "
                    "ready(), limit)\n"
                ),
                "        while not (self._gone() or ready()):\n"
                "            if not self._changed.wait(1.0) and limit is not None:\n"
                "                break\n",
            ),
            (
                "            message = self._inbound.popleft()\n"
                "            self._changed.notify_all()\n",
                "            message = self._inbound.popleft()\n",
            ),
            (
                "            self._peer._inbound.append(message)\n"
                "            self._changed.notify_all()\n",
                "            self._peer._inbound.append(message)\n",
            ),
        ],
        [
            "progress.no_wake_up_is_lost_in_a_narrow_queue",
            "progress.a_sleeper_is_woken_by_the_event",
        ],
    ),
    Fault(
        "M6_one_lock_for_both_directions",
        [
            _MUTEX,
            (_SEND, _SEND.replace("self._changed", "self._mutex, self._changed")),
            (
                _RECEIVE,
                _RECEIVE.replace("self._changed", "self._mutex, self._changed", 1),
            ),
        ],
        [
            "progress.a_waiting_receive_does_not_delay_a_send",
            "progress.a_waiting_send_does_not_delay_a_receive",
        ],
    ),
    Fault(
        "M7_a_local_disconnect_needs_the_readers_lock",
        [
            _MUTEX,
            (
                _RECEIVE,
                _RECEIVE.replace("self._changed", "self._mutex, self._changed", 1),
            ),
            (
                HANG_UP,
                HANG_UP.replace("self._changed", "self._mutex, self._changed", 1),
            ),
        ],
        [
            "disconnect.a_local_disconnect_releases_send_and_receive",
            "disconnect.a_local_disconnect_releases_every_receive",
            "disconnect.a_disconnect_waits_for_nobody",
            "disconnect.a_disconnect_does_not_wait_for_readers",
            "goodbyes.a_local_disconnect_against_a_receive",
        ],
    ),
    Fault(
        "M8_a_reader_does_not_look_at_the_remote_flag",
        [
            (
                "self._changed.wait_for(lambda: self._gone() or ready(), limit)",
                "self._changed.wait_for(lambda: self._closed or ready(), limit)",
            )
        ],
        [
            "disconnect.a_remote_disconnect_releases_waiting_receives",
            "goodbyes.a_remote_disconnect_against_a_receive",
        ],
    ),
    Fault(
        "M9_disconnect_notifies_nobody",
        [
            (
                (
                    "            self._inbound.clear()\n"
                    "            self._changed.notify_all()\n"
                ),
                "            self._inbound.clear()\n",
            )
        ],
        [
            "disconnect.a_local_disconnect_releases_send_and_receive",
            "disconnect.a_remote_disconnect_releases_waiting_receives",
            "disconnect.a_remote_disconnect_releases_waiting_sends",
        ],
    ),
    Fault(
        "M10_disconnect_closes_the_far_end",
        [
            (
                "                self._closed, self._cause = True, error\n",
                "                self._closed, self._cause = True, error\n"
                "                self._peer._closed = True\n",
            )
        ],
        [
            "disconnect.what_came_before_the_goodbye_can_be_read_late",
            "histories.talk_2",
            "histories.talk_5",
        ],
    ),
    Fault(
        "M11_two_pairs_are_made",
        [
            (
                "        left, right = make.pair(acceptor, connector, port)\n",
                "        left, right = make.pair(acceptor, connector, port)\n"
                "        if role == 'accept':\n"
                "            right = make.pair(acceptor, connector, port)[1]\n",
            )
        ],
        ["rendezvous.racing_callers_are_paired_off"],
    ),
    Fault(
        "M12_one_waiter_is_woken_of_any_port",
        [
            (
                "        self.world.changed.notify_all()\n        return ticket.end",
                "        self.world.changed.notify()\n        return ticket.end",
            )
        ],
        [
            "waiters.waiters_on_other_ports_are_in_nobodys_way",
            "progress.no_wake_up_is_lost_in_a_rendezvous",
        ],
    ),
    Fault(
        "M13_if_for_while",
        [
            (
                (
                    "        self._changed.wait_for(lambda: self._gone() or "
                    "ready(), limit)\n"
                ),
                "        if not (self._gone() or ready()):\n"
                "            self._changed.wait(limit)\n",
            ),
            (
                "        if not ready():\n            raise TimeoutError",
                (
                    "        if limit == 0 and not ready():\n"
                    "            raise TimeoutError"
                ),
            ),
        ],
        [
            "progress.a_receive_woken_in_vain_goes_on_waiting",
            "progress.a_receive_that_was_overtaken_goes_on_waiting",
        ],
    ),
    Fault(
        "M14_a_connect_that_came_first_is_not_found",
        [
            (
                "            mine.append(ticket)\n",
                (
                    "            if role == 'accept':\n"
                    "                mine.append(ticket)\n"
                ),
            )
        ],
        ["rendezvous.connect_may_come_first", "rendezvous.accept_and_connect_at_once"],
    ),
    Fault(
        "M15_a_connect_locks_its_broker",
        [
            (
                "        self.closed = False\n",
                "        self.closed = False\n        self.busy = threading.Lock()\n",
            ),
            (
                (
                    '        return self._meet(target, port, "connect", '
                    '"accept", Ticket(self), timeout)'
                ),
                "        with self.busy:\n"
                '            return self._meet(target, port, "connect", '
                '"accept", Ticket(self), timeout)',
            ),
        ],
        ["waiters.a_waiting_connect_does_not_freeze_its_broker"],
    ),
    Fault(
        "M16_names_are_compared_by_identity",
        [
            (
                "target = self.world.names.get(name)",
                (
                    "target = next((b for n, b in self.world.names.items() if n "
                    "is name), None)"
                ),
            )
        ],
        ["names.names_are_compared_by_value"],
    ),
    Fault(
        "M17_a_partial_read_starts_again",
        [("done += self.read(buffer, done,", "done = self.read(buffer, done,")],
        ["channels.the_loops_go_on_until_all_is_done"],
    ),
    Fault(
        "M18_a_place_is_kept_free",
        [(">= self._facts[3]", ">= self._facts[3] - 1")],
        ["buffers.exactly_the_capacity_fits"],
    ),
    Fault(
        "M19_disconnect_nulls_what_is_shared",
        [("            self._inbound.clear()\n", "            self._inbound = None\n")],
        ["goodbyes.both_hang_up_with_a_send_waiting"],
    ),
    Fault(
        "M20_receive_answers_none",
        [
            (
                "            self._wait(lambda: bool(self._inbound), limit)\n",
                "            try:\n"
                "                self._wait(lambda: bool(self._inbound), limit)\n"
                "            except HungUpError:\n"
                "                return None\n",
            )
        ],
        ["receiving.a_receive_on_a_disconnected_end_raises"],
    ),
    Fault(
        "M21_a_goodbye_discards_what_is_on_its_way",
        [
            (
                "            self._inbound.clear()\n",
                "            self._inbound.clear()\n"
                "            del self._peer._inbound[1:]\n"
                "            if len(self._peer._inbound) > 1:\n"
                "                self._peer._inbound.pop()\n",
            )
        ],
        ["disconnect.what_came_before_the_goodbye_can_be_read_late"],
    ),
    Fault(
        "M22_a_released_send_leaves_a_piece",
        [
            (
                (
                    "            self._wait(lambda: not self._full() or "
                    "self._peer._closed, limit)\n"
                ),
                "            try:\n"
                "                self._wait(lambda: not self._full(), limit)\n"
                "            except HungUpError:\n"
                "                self._peer._inbound.append(message[:7])\n"
                "                raise\n",
            )
        ],
        [
            "sending.a_waiting_send_shows_no_piece",
            "sending.a_released_send_shows_no_piece",
        ],
    ),
    Fault(
        "M23_who_gave_up_is_left_in_the_map",
        [
            (
                (
                    "                if ticket in mine:\n"
                    "                    mine.remove(ticket)\n"
                ),
                "                pass\n",
            )
        ],
        [
            "waiters.an_accept_that_gave_up_is_met_by_nobody",
            "waiters.a_connect_that_gave_up_is_met_by_nobody",
            "waiters.an_interrupted_waiter_is_met_by_nobody",
            "timeouts.who_expired_can_not_be_met",
        ],
    ),
    Fault(
        "M24_a_second_connect_takes_the_place_of_the_first",
        [("            mine.append(ticket)\n", "            mine[:] = [ticket]\n")],
        ["waiters.connects_are_served_in_order"],
    ),
]
