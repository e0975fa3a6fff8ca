"""`Clocks`: which messages prove that they were read before they were written.

Processes of one boot read one clock. Those of two boots read two, which differ by an
unknown offset. A message from one boot to the other proves that the offset is at most
the difference of its two times, one in the other direction that it is at least the
negative of its own. Let F and B be the least differences of each direction in one
window: then the offset is (F - B) / 2, and wrong by at most (F + B) / 2. If F + B is
negative, no offset fits, and some message was read before it was written.
"""

from __future__ import annotations

import array
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.journal.violation import Place

__all__ = ["DRIFT_NS", "WINDOW_NS", "Clocks", "contradict"]

# A bound that holds for hours would be wide: clocks drift apart.
WINDOW_NS: Final = 60 * 10**9
# Linux slews a monotonic clock by at most 500 ppm, so two of them part by 1000 ppm.
DRIFT_NS: Final = WINDOW_NS // 1000

_Key = tuple[str, str, int]  # two boots in order, the window on the clock of the first


def contradict(forward: Any, back: Any) -> Any:
    """Return True if no offset of two clocks fits two messages, one each way.

    forward, back: the differences of their times, in nanoseconds; also columns of
      Spark, so that both checkers compute one formula.
    """
    return forward + back < -DRIFT_NS


class Clocks:
    """The differences of times, of all messages between two boots.

    boots: the boot of each journal, "" if unknown.
    """

    def __init__(self, boots: Mapping[int, str]) -> None:
        self._boots: Final = boots
        self._differences: dict[_Key, tuple[array.array[int], array.array[int]]] = {}
        # By key and direction: the least difference of the other direction, if that
        # one has no fewer messages that contradict this direction.
        self._refuting: dict[tuple[_Key, bool], int] = {}

    @property
    def several(self) -> bool:
        """True if there are several boots, so that `add` is needed."""
        return len({*self._boots.values()} - {""}) > 1

    def add(self, written: Place, read: Place) -> None:
        """Add a message on a link, from one boot to another one."""
        measured = self._measured(written, read)
        if measured is not None:
            key, is_back, difference = measured
            of_both = self._differences.setdefault(
                key, (array.array("q"), array.array("q"))
            )
            of_both[is_back].append(difference)

    def align(self) -> None:
        """Look for contradictions, after the last message."""
        for key, (forward, back) in self._differences.items():
            if not (forward and back) or not contradict(min(forward), min(back)):
                continue
            least = min(forward), min(back)
            counts = [
                sum(contradict(each, least[1 - way]) for each in differences)
                for way, differences in enumerate((forward, back))
            ]
            # The fewer are wrong: one wrong message contradicts all of the other way.
            for way in (0, 1):
                if counts[way] <= counts[1 - way]:
                    self._refuting[key, bool(way)] = least[1 - way]

    def is_early(self, written: Place, read: Place) -> bool:
        """Return True if a message was read from a link before it was written to it."""
        boot = self._boots[written.journal]
        if boot and boot == self._boots[read.journal]:
            return read.mono < written.mono
        measured = self._measured(written, read)
        if measured is None:
            return False
        key, is_back, difference = measured
        least = self._refuting.get((key, is_back))
        return least is not None and contradict(difference, least)

    def _measured(self, written: Place, read: Place) -> tuple[_Key, bool, int] | None:
        """Return key, direction and difference; None if they are of one boot."""
        start, end = self._boots[written.journal], self._boots[read.journal]
        if not (start and end) or start == end:
            return None
        is_back = end < start
        first = read.mono if is_back else written.mono
        key = min(start, end), max(start, end), first - first % WINDOW_NS
        return key, is_back, read.mono - written.mono
