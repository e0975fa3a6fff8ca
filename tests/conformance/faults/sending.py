"""Faults in sending."""

from __future__ import annotations

from tests.conformance.fault import Fault
from tests.conformance.faults.quoted import APPEND, POP

__all__ = ["SENDING"]

_COPY = "        message = _copy(data, offset, length)\n"

SENDING = [
    Fault(
        "send_returns_a_number",
        [(APPEND, APPEND + "            return len(message)\n")],
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
                APPEND,
                APPEND
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
                POP,
                POP.replace(
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
            (POP, POP.replace("return message", "return bytes(message)")),
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
]
