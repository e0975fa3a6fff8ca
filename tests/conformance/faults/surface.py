"""Faults in arguments, bulk calls and the rest of the Python interface."""

from __future__ import annotations

from tests.conformance.fault import Fault

__all__ = ["SURFACE"]

_INSIDE = "    if not (offset >= 0 <= length and offset + length <= len(view)):\n"
_CAUGHT = (
    "                if not sent:\n                    raise\n                break\n"
)
_ITER = (
    "                if error.__cause__ is not None:\n                    raise\n"
    "                return\n"
)
_FIRST = "        messages = [self.receive()]\n"

SURFACE = [
    Fault(
        "a_goodbye_is_a_timeout",
        [
            (
                "class HungUpError(ConnectionError):",
                "class HungUpError(ConnectionError, TimeoutError):",
            )
        ],
        ["arguments.a_goodbye_is_no_timeout"],
    ),
    Fault(
        "ranges_are_slices",
        [(_INSIDE, "    if False:\n")],
        [
            "arguments.a_range_must_lie_within_the_data",
            "sending.a_wrong_range_is_found_first",
        ],
    ),
    Fault(
        "an_empty_range_at_the_end_is_wrong",
        [(_INSIDE, _INSIDE.replace("):", " and offset < max(len(view), 1)):"))],
        ["arguments.a_range_must_lie_within_the_data"],
    ),
    Fault(
        "what_looks_like_a_number_is_one",
        [("    offset = operator.index(offset)\n", "    offset = int(offset)\n")],
        ["arguments.a_range_is_made_of_integers"],
    ),
    Fault(
        "true_is_one",
        [
            (
                "    if isinstance(offset, bool) or isinstance(length, bool):\n",
                "    if False:\n",
            )
        ],
        ["arguments.a_range_is_made_of_integers"],
    ),
    Fault(
        "a_refused_send_uses_a_place_up",
        [
            (
                "        self._closed = False\n",
                "        self._closed = False\n        self._lost = 0\n",
            ),
            (
                "return len(self._peer._inbound) >=",
                "return self._lost + len(self._peer._inbound) >=",
            ),
            (
                "        message = _copy(data, offset, length)\n",
                "        self._lost += 1\n"
                "        message = _copy(data, offset, length)\n"
                "        self._lost -= 1\n",
            ),
        ],
        ["arguments.a_failed_send_changes_nothing"],
    ),
    Fault(
        "send_many_says_it_all_went",
        [(_CAUGHT, "                return len(list(messages))\n")],
        ["bulk.send_many_counts_what_went", "bulk.send_many_fails_as_its_first_send"],
    ),
    Fault(
        "send_many_raises_after_some_went",
        [(_CAUGHT, "                raise\n")],
        ["bulk.send_many_counts_what_went"],
    ),
    Fault(
        "send_many_does_not_wait",
        [
            (
                (
                    "            try:\n"
                    "                self.send(message)\n"
                    "            except HungUpError:\n"
                ),
                "            try:\n                self.send(message, timeout=0)\n"
                "            except TimeoutError:\n                break\n"
                "            except HungUpError:\n",
            )
        ],
        ["bulk.send_many_waits_for_room"],
    ),
    Fault(
        "send_many_begins_with_the_last",
        [
            (
                "        for message in messages:\n            try:",
                "        for message in list(messages)[::-1]:\n            try:",
            )
        ],
        ["bulk.send_many_is_many_sends"],
    ),
    Fault(
        "receive_many_does_not_wait",
        [(_FIRST, "        messages = []\n")],
        [
            "bulk.receive_many_waits_for_the_first",
            "bulk.receive_many_against_a_sender_loses_nothing",
        ],
    ),
    Fault(
        "receive_many_takes_one_too_many",
        [("len(messages) != limit:", "len(messages) <= (limit or 99):")],
        ["bulk.receive_many_takes_what_is_there"],
    ),
    Fault(
        "a_normal_goodbye_is_raised_by_iteration",
        [(_ITER, "                raise\n")],
        ["surface.iteration_ends_with_the_goodbye"],
    ),
    Fault(
        "an_abnormal_goodbye_ends_iteration",
        [(_ITER, "                return\n")],
        ["surface.iteration_raises_an_abnormal_goodbye"],
    ),
    Fault(
        "close_is_something_else",
        [("    close = disconnect\n", "    def close(self) -> None:\n        pass\n")],
        ["surface.close_is_disconnect"],
    ),
    Fault(
        "names_are_not_mirrored",
        [
            (
                "remote_name = property(lambda self: self._facts[1])",
                "remote_name = property(lambda self: self._facts[0])",
            )
        ],
        ["surface.ends_mirror_each_other"],
    ),
    Fault(
        "accept_iter_raises_at_close",
        [
            (
                "            except ClosedError:\n                return\n",
                "            except ClosedError:\n                raise\n",
            )
        ],
        ["surface.accept_iter_ends_with_the_broker"],
    ),
    Fault(
        "nowait_waits",
        [("return self.receive(timeout=0)", "return self.receive()")],
        ["surface.nowait_is_a_timeout_of_zero"],
    ),
]
