"""Faults in the byte channel."""

from __future__ import annotations

from tests.conformance.fault import Fault

__all__ = ["BYTEWISE"]

_READ_WAIT = "            self._wait(lambda: bool(self._inbound), None)\n"
_WRITE_WAIT = (
    "            self._wait(lambda: not self._full() or self._peer._closed, None)\n"
)

BYTEWISE = [
    Fault(
        "a_write_takes_all_or_nothing",
        [("taken = data[: self._facts[3] - len(self._peer._inbound)]", "taken = data")],
        ["channels.a_write_takes_what_fits"],
    ),
    Fault(
        "a_read_waits_for_all",
        [
            (
                _READ_WAIT,
                "            self._wait(lambda: len(self._inbound) >= length, None)\n",
            )
        ],
        [
            "channels.a_read_fills_its_range_only",
            "channels.a_read_that_finds_a_byte_returns_it",
        ],
    ),
    Fault(
        "a_read_starts_at_the_front_of_the_buffer",
        [
            (
                "            target[:count] = self",
                "            memoryview(buffer)[:count] = self",
            )
        ],
        ["channels.a_read_fills_its_range_only"],
    ),
    Fault(
        "what_a_read_did_not_take_is_lost",
        [
            (
                "            del self._inbound[:count]\n",
                "            self._inbound.clear()\n",
            )
        ],
        ["channels.cuts_do_not_show"],
    ),
    Fault(
        "a_write_that_waits_is_not_released",
        [
            (
                _WRITE_WAIT,
                "            self._changed.wait_for(lambda: not self._full())\n",
            ),
            # Unread bytes are kept, so that full stays full.
            (
                (
                    "            self._inbound.clear()\n"
                    "            self._changed.notify_all()\n"
                ),
                "            self._changed.notify_all()\n",
            ),
        ],
        [
            "channels.a_write_that_waits_is_released_by_a_goodbye",
            "channels.a_remote_disconnect_releases_waiting_sends",
        ],
    ),
    Fault(
        "a_read_that_waits_is_not_released",
        [
            (
                _READ_WAIT,
                "            self._changed.wait_for(lambda: bool(self._inbound))\n",
            )
        ],
        [
            "channels.a_local_disconnect_against_a_receive",
            "channels.a_remote_disconnect_releases_waiting_receives",
        ],
    ),
    Fault(
        "nothing_is_waited_for",
        [
            (
                "        if not length:\n            return 0\n        with self",
                "        with self",
            )
        ],
        ["channels.nothing_takes_no_time"],
    ),
    Fault(
        "a_write_while_half_takes_nothing",
        [
            (
                (
                    "            if self._peer._closed or not data:\n"
                    "                return length\n"
                ),
                (
                    "            if self._peer._closed or not data:\n"
                    "                return 0\n"
                ),
            )
        ],
        ["channels.a_send_while_half_is_dropped"],
    ),
    Fault(
        "the_beginning_is_thrown_away",
        [("error.partial = bytes(buffer[:done])", 'error.partial = b""')],
        ["channels.a_stream_that_ends_early_hands_over_what_came"],
    ),
]
