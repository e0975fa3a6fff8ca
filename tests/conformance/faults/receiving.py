"""Faults in receiving, and in the order of received messages."""

from __future__ import annotations

from tests.conformance.fault import Fault
from tests.conformance.faults.quoted import APPEND, POP

__all__ = ["RECEIVING"]

_TAKE = (
    "            self._wait(lambda: bool(self._inbound), limit)\n"
    "            message = self._inbound.popleft()\n"
)

RECEIVING = [
    Fault(
        "the_last_message_comes_first",
        [
            (
                "            message = self._inbound.popleft()\n",
                "            message = self._inbound.pop()\n",
            )
        ],
        [
            "receiving.a_receive_takes_the_oldest_message_whole",
            "order.each_direction_keeps_its_order",
            "receiving.what_was_accepted_is_received_then_it_raises",
            "order.a_long_stream_keeps_its_order",
            "order.a_receiver_that_hangs_up_has_a_prefix",
        ],
    ),
    Fault(
        "an_empty_queue_is_an_error",
        [(_TAKE, _TAKE.replace("limit)", "0)"))],
        ["receiving.a_receive_waits_for_a_message"],
    ),
    Fault(
        "a_taken_message_is_dropped_for_a_goodbye",
        [
            (
                POP,
                POP.replace(
                    "            return message\n",
                    "        if self.disconnected():\n"
                    "            raise self._error()\n"
                    "        return message\n",
                ),
            )
        ],
        ["receiving.a_taken_message_is_returned"],
    ),
    Fault(
        "a_message_is_looked_at_and_then_taken",
        [
            (
                _TAKE,
                "            self._wait(lambda: bool(self._inbound), limit)\n"
                "        with self._changed:\n"
                "            message = self._inbound.popleft()\n",
            )
        ],
        [
            "receiving.a_message_is_taken_whole_or_not_at_all",
            "receiving.no_message_is_received_twice",
            "progress.everything_at_once",
        ],
    ),
    Fault(
        "a_message_is_read_and_then_removed",
        [
            (
                _TAKE + POP.partition("popleft()\n")[2],
                "            self._wait(lambda: bool(self._inbound), limit)\n"
                "            message = self._inbound[0]\n"
                "        with self._changed:\n"
                "            if self._inbound:\n"
                "                self._inbound.popleft()\n"
                "            self._changed.notify_all()\n"
                "            return message\n",
            ),
        ],
        [
            "receiving.no_message_is_received_twice",
            "surface.iterators_share_the_messages",
        ],
    ),
    Fault(
        "an_array_is_returned",
        [(POP, POP.replace("return message", "return bytearray(message)"))],
        ["receiving.the_result_is_bytes_of_exact_length"],
    ),
    Fault(
        "an_empty_message_is_none",
        [(POP, POP.replace("return message", "return message or None"))],
        [
            "receiving.the_result_is_bytes_of_exact_length",
            "sending.lengths_at_the_edges_arrive",
        ],
    ),
    Fault(
        "both_ends_have_one_buffer",
        [
            (
                "        left._peer, right._peer = right, left\n",
                "        left._peer, right._peer = right, left\n"
                "        left._inbound = right._inbound\n",
            )
        ],
        [
            "receiving.an_end_does_not_receive_what_it_sent",
            "order.directions_do_not_mix",
            *(f"histories.talk_{number}" for number in range(8)),
        ],
    ),
    Fault(
        "all_connections_have_one_buffer",
        [
            (
                "        self._inbound: deque[bytes] = deque()\n",
                "        world = facts[0].caller.world\n"
                "        key = facts[0].caller.name, facts[1].caller.name\n"
                "        buffers = world.__dict__.setdefault('buffers', {})\n"
                "        self._inbound: deque[bytes] = "
                "buffers.setdefault(key, deque())\n",
            )
        ],
        ["order.connections_do_not_mix"],
    ),
    Fault(
        "newcomers_are_put_before_the_last",
        [
            (
                APPEND,
                APPEND.replace(
                    "append(message)", "insert(len(self._peer._inbound) - 1, message)"
                ),
            )
        ],
        [
            "order.a_send_that_returned_goes_first",
            "order.each_direction_keeps_its_order",
        ],
    ),
    Fault(
        "who_waited_goes_first",
        [
            (
                APPEND,
                APPEND.replace(
                    "            self._peer._inbound.append(message)\n",
                    "            if waited:\n"
                    "                self._peer._inbound.appendleft(message)\n"
                    "            else:\n"
                    "                self._peer._inbound.append(message)\n",
                ),
            )
        ],
        ["order.what_waited_comes_after_what_lay_there"],
    ),
    Fault(
        "the_two_directions_share_the_room",
        [
            (
                "return len(self._peer._inbound) >= self._facts[3]",
                "return len(self._peer._inbound) + len(self._inbound) >= "
                "self._facts[3]",
            )
        ],
        ["order.a_full_direction_does_not_block_the_other"],
    ),
]
