"""Mutants of streams: what makes a message come twice, or never (AMO)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["STREAMS"]

STREAMS: tuple[Mutant, ...] = (
    Mutant(
        "S1",
        "a number that is not missing is accepted again",
        ("AMO-3", "AMO-4", "AMO-9"),
        (
            Edit(
                "bus/core/incoming_stream.py",
                "if self._missing.remove(number):\n                return True",
                "if self._missing.remove(number) or True:\n                return True",
            ),
        ),
    ),
    Mutant(
        "S2",
        "the number after one that was accepted is passed over",
        ("AMO-5", "AMO-9"),
        (
            Edit(
                "bus/core/incoming_stream.py",
                "        self.next = number + 1\n",
                "        self.next = number + 2\n",
            ),
        ),
    ),
    Mutant(
        "S3",
        "what the floor has passed stays missing",
        ("AMO-12",),
        (
            Edit(
                "bus/core/incoming_stream.py",
                "self.given_up += self._missing.drop_below(floor)",
                "self.given_up += 0",
            ),
        ),
    ),
    Mutant(
        "S4",
        "a floor above all that came is not believed",
        ("AMO-12",),
        (
            Edit(
                "bus/core/incoming_stream.py",
                "            self.given_up += floor - self.next\n            self.next = floor",
                "            pass",
            ),
        ),
    ),
    Mutant(
        "S5",
        "what waits above a gap is handed over with the gap open",
        ("AMO-10",),
        (
            Edit(
                "bus/core/incoming_stream.py",
                "self._held[0][0] < gap",
                "self._held[0][0] <= gap + 1",
            ),
        ),
    ),
    Mutant(
        "S6",
        "what lies too far back is kept for ever",
        ("AMO-14",),
        (
            Edit(
                "bus/core/incoming_stream.py",
                "drop_below(self.next - self._span)",
                "drop_below(0)",
            ),
        ),
    ),
    Mutant(
        "S7",
        "one range too many is kept",
        ("AMO-14",),
        (
            Edit(
                "bus/core/incoming_stream.py",
                "> self._ranges_max",
                "> self._ranges_max + 1",
            ),
        ),
    ),
    Mutant(
        "S8",
        "a jump is one too far before it is refused",
        ("AMO-14",),
        (
            Edit(
                "bus/core/incoming_stream.py",
                "stop > max(self.next, floor) + self._span",
                "stop > max(self.next, floor) + self._span + 1",
            ),
        ),
    ),
    Mutant(
        "S9",
        "a run at the end is taken whole though something is missing",
        ("AMO-10",),
        (
            Edit(
                "bus/core/incoming_stream.py",
                "if first == self.next and not self._missing:",
                "if first == self.next:",
            ),
        ),
    ),
    Mutant(
        "S10",
        "an epoch that is over is opened again",
        ("AMO-16",),
        (
            Edit(
                "bus/core/incoming_streams.py",
                "if known is not None and epoch < known.epoch:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "S11",
        "what was for an earlier life of the receiver is accepted",
        ("AMO-19",),
        (
            Edit(
                "bus/core/incoming_streams.py",
                "if incarnation != self.incarnation:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "S12",
        "a stream that was closed goes on",
        ("AMO-22",),
        (
            Edit(
                "bus/core/incoming_streams.py",
                "not known.open",
                "False",
            ),
        ),
    ),
    Mutant(
        "S13",
        "opening a stream again forgets what it had accepted",
        ("AMO-3", "AMO-16"),
        (
            Edit(
                "bus/core/incoming_streams.py",
                "known is None or epoch > known.epoch:\n            known = self",
                "True:\n            known = self",
            ),
        ),
    ),
    Mutant(
        "S14",
        "the window is one too wide",
        ("AMO-13",),
        (
            Edit(
                "bus/core/outgoing_stream.py",
                "self.floor + self._window",
                "self.floor + self._window + 1",
            ),
        ),
    ),
    Mutant(
        "S15",
        "numbers leave the 64 bits",
        ("AMO-15",),
        (
            Edit(
                "bus/core/outgoing_stream.py",
                "min(self.floor + self._window, NUMBERS)",
                "(self.floor + self._window)",
            ),
        ),
    ),
    Mutant(
        "S16",
        "what is missing counts as received",
        ("AMO-23",),
        (
            Edit(
                "bus/core/outgoing_stream.py",
                "self._keep_only((*has.missing, (has.next, _NO_NUMBER)))",
                "self._keep_only(((has.next, _NO_NUMBER),))",
            ),
        ),
    ),
    Mutant(
        "S17",
        "only the first gap of an acknowledgement is read",
        ("AMO-23",),
        (
            Edit(
                "bus/core/outgoing_stream.py",
                "self._keep_only((*has.missing, (has.next, _NO_NUMBER)))",
                "self._keep_only((*has.missing[:1], (has.next, _NO_NUMBER)))",
            ),
        ),
    ),
    Mutant(
        "S18",
        "the floor passes what is outstanding",
        ("AMO-12", "AMO-23"),
        (
            Edit(
                "bus/core/outgoing_stream.py",
                "self.floor = kept[0][0] if kept else self.next",
                "self.floor = self.next",
            ),
        ),
    ),
    Mutant(
        "S19",
        "what is due at this very moment is kept",
        ("AMO-23",),
        (
            Edit(
                "bus/core/outgoing_stream.py",
                "if deadline <= now",
                "if deadline < now",
            ),
        ),
    ),
    Mutant(
        "S20",
        "an acknowledgement of what was never sent is believed",
        ("AMO-23",),
        (
            Edit(
                "bus/core/outgoing_stream.py",
                "if has.next > self.next:",
                "if False:",
            ),
        ),
    ),
)
