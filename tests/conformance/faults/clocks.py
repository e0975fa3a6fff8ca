"""Faults in timeouts, waiting and waking."""

from __future__ import annotations

from tests.conformance.fault import Fault

__all__ = ["CLOCKS"]

_WAIT = "        self._changed.wait_for(lambda: self._gone() or ready(), limit)\n"
_MEET = "self.world.changed.wait_for(lambda: ticket.end or ticket.lost, limit)"
_NEGATIVE = "    if math.isnan(timeout) or timeout < 0:\n"
_SEND_WAIT = (
    "            self._wait(lambda: not self._full() or self._peer._closed, limit)\n"
)
_TAKE = (
    "            self._wait(lambda: bool(self._inbound), limit)\n            message"
)

CLOCKS = [
    Fault(
        "a_negative_timeout_is_zero",
        [(_NEGATIVE, "    timeout = max(timeout, 0)\n    if math.isnan(timeout):\n")],
        ["timeouts.a_negative_timeout_is_refused"],
    ),
    Fault(
        "nan_is_a_timeout",
        [(_NEGATIVE, "    if timeout < 0:\n")],
        ["timeouts.a_negative_timeout_is_refused"],
    ),
    Fault(
        "a_long_timeout_overflows",
        [
            (
                "return None if timeout > threading.TIMEOUT_MAX else timeout",
                "return timeout",
            )
        ],
        ["timeouts.an_endless_timeout_waits"],
    ),
    Fault(
        "zero_is_for_ever",
        [("    if timeout is None:\n", "    if not timeout:\n")],
        [
            "timeouts.a_timeout_of_zero_tries_once",
            "surface.nowait_is_a_timeout_of_zero",
        ],
    ),
    Fault(
        "zero_does_not_even_try",
        [(_NEGATIVE, "    if timeout == 0:\n        raise TimeoutError\n" + _NEGATIVE)],
        [
            "timeouts.what_can_be_done_at_once_is_done",
            "timeouts.success_comes_first_then_the_goodbye",
            "surface.nowait_is_a_timeout_of_zero",
        ],
    ),
    Fault(
        "half_the_time_is_enough",
        [("TIMEOUT_MAX else timeout", "TIMEOUT_MAX else timeout / 2")],
        ["timeouts.a_timeout_is_kept_to", "timeouts.a_timeout_of_a_send_is_kept_to"],
    ),
    Fault(
        "a_second_more_does_no_harm",
        [("TIMEOUT_MAX else timeout", "TIMEOUT_MAX else timeout and timeout + 1")],
        ["timeouts.a_timeout_is_kept_to", "timeouts.a_timeout_of_a_send_is_kept_to"],
    ),
    Fault(
        "every_wake_up_starts_the_clock_anew",
        [
            (
                _WAIT,
                "        while not (self._gone() or ready()):\n"
                "            if not self._changed.wait(limit):\n"
                "                break\n",
            )
        ],
        ["timeouts.wake_ups_do_not_move_the_deadline"],
    ),
    Fault(
        "late_is_late_though_matched",
        [
            (
                _MEET,
                "if not self.world.changed.wait(limit):\n"
                "                    raise TimeoutError",
            )
        ],
        ["timeouts.expiry_against_match_is_all_or_nothing"],
    ),
    Fault(
        "the_clock_is_looked_at_before_the_goodbye",
        [
            (
                _WAIT + "        if self._gone():\n            raise self._error()\n",
                _WAIT + "        if limit is not None and not ready():\n"
                "            raise TimeoutError\n"
                "        if self._gone():\n            raise self._error()\n",
            )
        ],
        ["timeouts.success_comes_first_then_the_goodbye"],
    ),
    Fault(
        "full_is_seen_before_the_goodbye",
        [
            # Unread messages are kept, so that full stays full.
            (
                "            self._inbound.clear()\n"
                "            self._changed.notify_all()\n",
                "            self._changed.notify_all()\n",
            ),
            (
                "            if self._gone():\n                raise self._error()\n"
                "            if self._peer._closed:\n"
                "                return\n"
                "            waited",
                "            if limit == 0 and self._full():\n"
                "                raise TimeoutError\n"
                "            if self._gone():\n                raise self._error()\n"
                "            if self._peer._closed:\n"
                "                return\n"
                "            waited",
            ),
        ],
        ["timeouts.a_goodbye_comes_before_a_full_buffer"],
    ),
    Fault(
        "an_expired_send_is_sent_all_the_same",
        [
            (
                _SEND_WAIT,
                "            try:\n    "
                + _SEND_WAIT
                + "            except TimeoutError:\n"
                "                self._peer._inbound.append(message)\n"
                "                raise\n",
            )
        ],
        [
            "timeouts.an_expired_send_left_nothing",
            "timeouts.expiry_against_room_is_all_or_nothing",
        ],
    ),
    Fault(
        "an_expired_receive_takes_a_message_with_it",
        [
            (
                _WAIT,
                "        if not self._gone() and not ready() and limit:\n"
                "            if not self._changed.wait(limit):\n"
                "                if self._inbound:\n"
                "                    self._inbound.popleft()\n"
                "                raise TimeoutError\n" + _WAIT,
            )
        ],
        ["timeouts.an_expired_receive_lost_nothing"],
    ),
    Fault(
        "a_place_is_given_back_late",
        [
            (
                "        self._closed = False\n",
                "        self._closed = False\n        self._taken = 0\n",
            ),
            ("return len(self._peer._inbound) >=", "return self._peer._taken >="),
            (
                "            self._peer._inbound.append(message)\n",
                "            self._peer._inbound.append(message)\n"
                "            self._peer._taken += 1\n",
            ),
            (
                "            message = self._inbound.popleft()\n"
                "            self._changed.notify_all()\n            return message\n",
                "            message = self._inbound.popleft()\n"
                "        with self._changed:\n            self._taken -= 1\n"
                "            self._changed.notify_all()\n            return message\n",
            ),
        ],
        ["timeouts.no_buffer_is_full_and_empty_at_once"],
    ),
    Fault(
        "an_end_belongs_to_its_thread",
        [
            (
                "        self._closed = False\n",
                "        self._closed = False\n        self._owner = 0\n",
            ),
            (
                _TAKE,
                "            self._owner = self._owner or threading.get_ident()\n"
                "            if self._owner != threading.get_ident():\n"
                "                raise RuntimeError('not your end')\n" + _TAKE,
            ),
        ],
        ["progress.an_end_belongs_to_no_thread"],
    ),
    Fault(
        "if_for_while_in_send",
        [
            (
                _SEND_WAIT,
                "            if waited:\n                self._changed.wait(limit)\n",
            )
        ],
        ["progress.a_send_woken_in_vain_goes_on_waiting"],
    ),
    Fault(
        "arguments_are_read_under_the_lock",
        [
            (
                "= right._changed = threading.Condition()",
                "= right._changed = threading.Condition(threading.Lock())",
            ),
            (
                "        message = _copy(data, offset, length)\n",
                "        with self._changed:\n"
                "            message = _copy(data, offset, length)\n",
            ),
        ],
        ["progress.no_lock_is_held_while_arguments_are_read"],
    ),
    Fault(
        "one_bulk_at_a_time",
        [
            (
                "        self._closed = False\n",
                "        self._closed = False\n"
                "        self._mutex = threading.Lock()\n",
            ),
            (
                "        sent = 0\n        for message in messages:\n",
                "        sent = 0\n"
                "        self._mutex.acquire()\n"
                "        for message in messages:\n",
            ),
            (
                "        limit = limit_of(timeout)\n"
                "        with self._changed:\n"
                "            self._wait(lambda: bool",
                "        limit = limit_of(timeout)\n"
                "        with self._mutex, self._changed:\n"
                "            self._wait(lambda: bool",
            ),
        ],
        ["progress.no_lock_is_held_while_messages_are_made"],
    ),
]
