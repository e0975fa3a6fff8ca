"""Faults in disconnecting."""

from __future__ import annotations

from tests.conformance.fault import Fault
from tests.conformance.faults.quoted import HANG_UP

__all__ = ["GOODBYES"]

_CLEAR = "            self._inbound.clear()\n            self._changed.notify_all()\n"
_DEF = "    def disconnect(self, error: BaseException | None = None) -> None:\n"
_KEEP = (_CLEAR, "            self._changed.notify_all()\n")  # so that full stays full
_HALF = "            if self._peer._closed:\n                return\n            waited"

GOODBYES = [
    Fault(
        "the_far_end_is_closed_for_a_moment",
        [
            (
                _CLEAR,
                _CLEAR + "            self._peer._closed = True\n"
                "        with self._changed:\n"
                "            self._peer._closed = not self._peer._inbound\n",
            )
        ],
        [
            "goodbyes.an_end_never_comes_back",
            "receiving.a_receiver_that_races_the_goodbye_gets_all",
        ],
    ),
    Fault(
        "half_counts_as_disconnected",
        [
            (
                "            return self._gone()\n",
                "            return self._closed or self._peer._closed\n",
            )
        ],
        [
            "histories.talk_2",
            "disconnect.disconnected_turns_true_with_the_last_message",
            "disconnect.with_nothing_unread_the_end_is_disconnected_at_once",
        ],
    ),
    Fault(
        "what_is_unread_can_be_read_after_hanging_up",
        [
            (_CLEAR, "            self._changed.notify_all()\n"),
            (
                (
                    "        return self._closed or (self._peer._closed and not "
                    "self._inbound)\n"
                ),
                (
                    "        return (self._closed or self._peer._closed) and not "
                    "self._inbound\n"
                ),
            ),
        ],
        [
            "disconnect.after_a_local_disconnect_all_raises",
            "disconnect.nothing_is_pending_after_a_local_disconnect",
        ],
    ),
    Fault(
        "a_send_while_half_raises",
        [(_HALF, _HALF.replace("return", "raise self._error()"))],
        [
            "disconnect.a_send_while_half_is_dropped",
            "disconnect.a_local_disconnect_discards_what_is_unread",
        ],
    ),
    Fault(
        "a_full_buffer_is_seen_before_the_goodbye",
        [_KEEP, (_HALF, "            waited")],
        ["disconnect.a_full_buffer_does_not_hold_a_send_while_half"],
    ),
    Fault(
        "a_send_that_waited_is_dropped_at_the_goodbye",
        [
            (
                "            if waited and self._alone():\n"
                "                raise self._error()\n"
                "            self._peer._inbound.append(message)\n",
                "            if waited and self._alone():\n"
                "                return\n"
                "            self._peer._inbound.append(message)\n",
            )
        ],
        ["disconnect.a_remote_disconnect_releases_waiting_sends"],
    ),
    Fault(
        "a_waiting_send_does_not_look_at_the_goodbye",
        [
            _KEEP,
            (
                (
                    "            self._wait(lambda: not self._full() or "
                    "self._peer._closed, limit)\n"
                ),
                "            self._changed.wait_for(lambda: not self._full(), limit)\n",
            ),
        ],
        [
            "disconnect.a_remote_disconnect_releases_waiting_sends",
            "goodbyes.a_remote_disconnect_against_a_send",
            "goodbyes.a_local_disconnect_against_a_send",
            "goodbyes.both_hang_up_with_a_send_waiting",
        ],
    ),
    Fault(
        "one_waiter_is_told",
        [(_CLEAR, _CLEAR.replace("notify_all", "notify"))],
        [
            "receiving.a_disconnect_releases_waiting_receives",
            "receiving.a_disconnect_releases_four_sleepers",
            "disconnect.a_local_disconnect_releases_every_receive",
        ],
    ),
    Fault(
        "disconnect_waits_until_all_is_read",
        [
            (
                _CLEAR,
                _CLEAR + "            self._changed.wait_for("
                "lambda: self._peer._closed or not self._peer._inbound)\n",
            )
        ],
        ["disconnect.a_disconnect_waits_for_nobody"],
    ),
    Fault(
        "each_end_locks_itself_and_then_the_other",
        [
            (
                "        self._closed = False\n",
                (
                    "        self._closed = False\n"
                    "        self._mutex = threading.Lock()\n"
                ),
            ),
            (
                HANG_UP,
                HANG_UP.replace(
                    "self._changed", "self._mutex, self._peer._mutex, self._changed"
                ),
            ),
        ],
        [
            "goodbyes.both_hang_up_at_once",
            "goodbyes.both_hang_up_with_receives_waiting",
        ],
    ),
    Fault(
        "hanging_up_again_is_an_error",
        [
            (
                HANG_UP,
                "        with self._changed:\n"
                "            if self._closed:\n"
                "                raise self._error()\n"
                "            if not self._closed:\n",
            )
        ],
        [
            "disconnect.disconnecting_again_does_nothing",
            "goodbyes.many_hang_up_one_end",
        ],
    ),
    Fault(
        "hanging_up_again_takes_it_back",
        [
            (
                (
                    "            if not self._closed:\n"
                    "                self._closed, self._cause = True, error\n"
                ),
                "            self._closed, self._cause = not self._closed, error\n",
            )
        ],
        [
            "disconnect.disconnecting_again_does_nothing",
            "goodbyes.many_hang_up_one_end",
        ],
    ),
    Fault(
        "a_drained_end_still_drops",
        [
            (
                "            if self._gone():\n                raise self._error()\n"
                "            if self._peer._closed:\n"
                "                return\n"
                "            waited",
                "            if self._closed:\n                raise self._error()\n"
                "            if self._peer._closed:\n"
                "                return\n"
                "            waited",
            )
        ],
        [
            "sending.a_send_on_a_disconnected_end_raises",
            "sending.a_full_buffer_does_not_delay_the_error",
            "disconnect.with_nothing_unread_the_end_is_disconnected_at_once",
            "goodbyes.no_operation_succeeds_after_a_failure",
        ],
    ),
    Fault(
        "the_peers_goodbye_shows_when_all_is_read",
        [
            (
                "property(lambda self: self._peer._closed)",
                "property(lambda self: self._peer._closed and not self._inbound)",
            )
        ],
        ["disconnect.the_peers_disconnect_shows_while_half"],
    ),
    Fault(
        "hanging_up_happens_later",
        [
            (
                _DEF,
                _DEF
                + (
                    "        threading.Thread(target=self._hang_up, "
                    "args=(error,)).start()\n"
                    "\n"
                )
                + _DEF.replace("disconnect", "_hang_up"),
            )
        ],
        [
            "disconnect.a_disconnect_that_returned_is_seen",
            "goodbyes.no_operation_succeeds_after_a_failure",
        ],
    ),
    Fault(
        "a_goodbye_drops_the_last_message",
        [
            (
                _CLEAR,
                _CLEAR
                + (
                    "            if self._peer._inbound:\n"
                    "                self._peer._inbound.pop()\n"
                ),
            )
        ],
        [
            "receiving.what_was_accepted_is_received_then_it_raises",
            "receiving.a_receiver_that_races_the_goodbye_gets_all",
            "order.a_goodbye_delivers_everything_accepted",
            "goodbyes.as_many_receives_return_as_there_are_messages",
            "goodbyes.a_goodbye_among_receivers_loses_nothing",
        ],
    ),
    Fault(
        "everybody_says_it_was_the_other",
        [
            (
                'error.side = "local" if self._closed else "remote"',
                'error.side = "remote"',
            )
        ],
        ["receiving.the_error_says_who_and_why"],
    ),
    Fault(
        "the_cause_is_kept_to_oneself",
        [
            (
                "cause = self._cause if self._closed else self._peer._cause",
                "cause = self._cause",
            )
        ],
        [
            "receiving.the_error_says_who_and_why",
            "surface.iteration_raises_an_abnormal_goodbye",
        ],
    ),
    Fault(
        "every_goodbye_has_a_cause",
        [("error.__cause__ = cause", "error.__cause__ = cause or OSError()")],
        ["receiving.an_ordinary_goodbye_has_no_cause"],
    ),
]
