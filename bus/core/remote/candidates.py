"""`Candidates`: the answers of machines to one search for a name of any machine.

It only decides which answer counts (BUS-NAME-8): it sends nothing, and reads no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Candidates"]

Answer = TypeVar("Answer")


class Candidates(Generic[Answer]):
    """The answers to one search, by machine.

    own: the sender's machine, which precedes all others.
    patient_until: the time, in seconds, from which an answer counts even if other
      machines have not answered. It precedes the end of the search, so that the
      messages can still be sent.

    The methods take the machines that were asked as an argument: a copy would keep a
    machine whose link is lost.
    """

    __slots__ = ("_absent", "_found", "own", "patient_until")

    def __init__(self, own: str, patient_until: float) -> None:
        self.own: Final = own
        self.patient_until: Final = patient_until
        self._found: dict[str, Answer] = {}
        self._absent: set[str] = set()

    def on_found(self, machine: str, answer: Answer) -> None:
        """Record that a machine has the name; it may have lacked it before."""
        self._found[machine] = answer
        self._absent.discard(machine)

    def on_absent(self, machine: str) -> None:
        """Record that a machine does not have the name, or no longer has it."""
        self._found.pop(machine, None)
        self._absent.add(machine)

    def forget(self, machine: str) -> None:
        """Drop the answer of a machine, which may answer again."""
        self._found.pop(machine, None)
        self._absent.discard(machine)

    def found(self) -> dict[str, Answer]:
        """Return the answers of the machines that have the name."""
        return dict(self._found)

    def is_incomplete(self, asked: Collection[str]) -> bool:
        """Return True if a machine was asked, and has not answered.

        asked: the other machines that were asked, and are still linked.
        """
        return any(
            each not in self._found and each not in self._absent for each in asked
        )

    def choice(self, asked: Collection[str], now: float) -> Answer | None:
        """Return the answer that counts; None if none does yet.

        The own machine's answer counts at once. Another one counts as soon as all
        machines have answered, or when ``patient_until`` has passed.

        asked: as for `awaits`.
        """
        if self.own in self._found:
            return self._found[self.own]
        linked = [each for each in self._found if each in asked]
        if not linked or (now < self.patient_until and self.is_incomplete(asked)):
            return None
        return self._found[min(linked)]
