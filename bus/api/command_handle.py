"""`CommandHandle`: a command that was sent, as `Task.command` returns it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from bus.api.questions import Questions
from bus.api.reentry import guarded
from queuebroker.closable import Uncopyable

__all__ = ["NO_QUESTION", "CommandHandle"]


class CommandHandle(Uncopyable, Struct, frozen=True):
    """A command that was sent, and its questions: one for each addressee, or none."""

    _questions: Questions | None
    _numbers: tuple[int, ...]

    @guarded("cancel a command")
    def cancel(self) -> bool:
        """Stop waiting for an answer; return whether one was still pending.

        If an addressee has not read the command yet, it does not receive it.
        """
        return self._cancel()

    def _cancel(self) -> bool:
        waited = False
        for number in self._numbers:
            assert self._questions is not None
            question = self._questions.get(number)
            if question is not None:
                waited = self._questions.cancel(question) or waited
        return waited


NO_QUESTION: Final = CommandHandle(None, ())  # the sender requested no answer
