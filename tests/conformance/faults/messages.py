"""Faults in sending, receiving and order."""

from __future__ import annotations

from tests.conformance.fault import Fault

__all__ = ["MESSAGES"]

_APPEND = (
    "            self._peer._inbound.append(message)\n"
    "            self._changed.notify_all()\n"
)
_POP = (
    "            message = self._inbound.popleft()\n"
    "            self._changed.notify_all()\n"
    "            return message\n"
)
_COPY = "        message = _copy(data, offset, length)\n"
_TAKE = (
    "            self._wait(lambda: bool(self._inbound), limit)\n"
    "            message = self._inbound.popleft()\n"
)

MESSAGES = [
    Fault(
        "send_returns_a_number",
        [(_APPEND, _APPEND + "            return len(message)\n")],
        ["sending.a_send_transmits_all_and_returns_none"],
    ),
    Fault(
        "length_is_ignored",
        [("view[offset : offset + length]", "view[offset:]")],
        ["sending.a_send_transmits_exactly_its_range"],
    ),
    Fault(
        "a_send_looks_again_after_it_stored",
        [
            (
                _APPEND,
                _APPEND
                + "        if self.disconnected():\n            raise self._error()\n",
            )
        ],
        [
            "sending.a_send_is_all_or_nothing",
            "order.a_goodbye_delivers_everything_accepted",
        ],
    ),
    Fault(
        "only_bytes_are_sent",
        [
            (
                _COPY,
                _COPY + "        if not isinstance(data, bytes):\n"
                "            raise TypeError('bytes only')\n",
            )
        ],
        [
            "sending.any_bytes_like_object_is_sent",
            "receiving.the_result_is_bytes_of_exact_length",
        ],
    ),
    Fault(
        "text_is_encoded",
        [
            (
                _COPY,
                "        data = data.encode() if isinstance(data, str) else data\n"
                + _COPY,
            )
        ],
        [
            "sending.what_is_not_bytes_is_refused",
            "arguments.a_failed_send_changes_nothing",
        ],
    ),
    Fault(
        "gaps_are_closed_up",
        [
            (
                "        if not view.c_contiguous:\n",
                "        if not view.c_contiguous:\n"
                "            return view.tobytes()\n"
                "        if False:\n",
            )
        ],
        ["sending.what_is_not_bytes_is_refused"],
    ),
    Fault(
        "items_are_counted_for_bytes",
        [('view.cast("B") if view.nbytes else view', "view[:]")],
        ["sending.offset_and_length_count_bytes"],
    ),
    Fault(
        "lengths_are_of_sixteen_bits",
        [
            (
                _POP,
                _POP.replace(
                    "return message", "return message[: len(message) & 0xFFFF]"
                ),
            )
        ],
        ["sending.long_messages_arrive"],
    ),
    Fault(
        "nothing_is_ever_full",
        [("return len(self._peer._inbound) >= self._facts[3]", "return False")],
        [
            "sending.a_send_waits_while_the_buffer_is_full",
            "buffers.exactly_the_capacity_fits",
            "buffers.both_directions_have_the_acceptors_capacity",
        ],
    ),
    Fault(
        "what_does_not_fit_is_dropped",
        [
            (
                "            waited = self._full()\n"
                "            self._wait(lambda: not self._full() or "
                "self._peer._closed, limit)\n",
                "            waited = False\n"
                "            if self._full():\n"
                "                return\n",
            )
        ],
        [
            "order.nothing_is_lost_between_many",
            "sending.a_send_waits_while_the_buffer_is_full",
        ],
    ),
    Fault(
        "length_counts_against_the_capacity",
        [
            (
                "            self._peer._inbound.append(message)\n",
                "            self._wait(lambda: len(message) < 10_000, limit)\n"
                "            self._peer._inbound.append(message)\n",
            )
        ],
        ["buffers.a_message_takes_one_place_whatever_its_length"],
    ),
    Fault(
        "each_side_has_a_capacity_of_its_own",
        [
            (
                "right = cls(connector, acceptor, port, acceptor.capacity)",
                "right = cls(connector, acceptor, port, 1 + acceptor.capacity)",
            )
        ],
        [
            "buffers.both_directions_have_the_acceptors_capacity",
            "surface.ends_mirror_each_other",
        ],
    ),
    Fault(
        "the_callers_buffer_is_kept",
        [
            (
                _COPY,
                "        message = (_copy(data, offset, length), "
                "data)[offset == 0 and length is None]\n",
            ),
            (_POP, _POP.replace("return message", "return bytes(message)")),
        ],
        [
            "sending.the_data_is_copied_when_sent",
            "sending.the_data_is_copied_before_waiting",
        ],
    ),
    Fault(
        "the_callers_buffer_is_held",
        [(_COPY, "        view = memoryview(data)\n" + _COPY)],
        ["sending.the_data_is_copied_before_waiting"],
    ),
    Fault(
        "the_state_is_looked_at_first",
        [
            (
                _COPY,
                "        if self.disconnected():\n            raise self._error()\n"
                + _COPY,
            )
        ],
        ["sending.a_wrong_type_is_found_first", "sending.a_wrong_range_is_found_first"],
    ),
    Fault(
        "no_message_is_too_large",
        [
            (
                "        if self._limit is not None and len(message) > self._limit:\n",
                "        if False:\n",
            )
        ],
        ["sending.a_message_too_large_is_refused_at_once"],
    ),
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
                _POP,
                _POP.replace(
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
                _TAKE + _POP.partition("popleft()\n")[2],
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
        [(_POP, _POP.replace("return message", "return bytearray(message)"))],
        ["receiving.the_result_is_bytes_of_exact_length"],
    ),
    Fault(
        "an_empty_message_is_none",
        [(_POP, _POP.replace("return message", "return message or None"))],
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
                _APPEND,
                _APPEND.replace(
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
                _APPEND,
                _APPEND.replace(
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
