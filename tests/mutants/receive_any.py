"""Mutants of `receive_any`: what its story says must not be left out."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["RECEIVE_ANY"]

_CLAUSE = ("QB-WAIT-1",)

RECEIVE_ANY: tuple[Mutant, ...] = (
    Mutant(
        "W1",
        "a wake-up from a queue that it does not take from is not passed on",
        _CLAUSE,
        (
            Edit(
                "waiting.py",
                "        end._connection.flows[end._side].buffer.wake_locked()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "W2",
        "it lies down without looking again",
        _CLAUSE,
        (Edit("waiting.py", "if not selection.ready():", "if True:"),),
    ),
    Mutant(
        "W3",
        "of several the first one given is served",
        _CLAUSE,
        (Edit("waiting.py", "sorted(self._ends, key=_last_turn)", "self._ends"),),
    ),
    Mutant(
        "W4",
        "it takes from every queue that has something, and returns the last",
        _CLAUSE,
        (
            Edit(
                "waiting.py",
                "        for end in sorted(",
                "        taken = None\n        for end in sorted(",
            ),
            Edit(
                "waiting.py",
                "            return end, message\n        if self._over():",
                "            taken = end, message\n"
                "        if taken is not None:\n            return taken\n"
                "        if self._over():",
            ),
        ),
    ),
    Mutant(
        "W5",
        "who wakes it a second time fails",
        _CLAUSE,
        (
            Edit(
                "bell.py",
                "partial(\n            next, map(_release, (self.lock,)), None\n        )",
                "self.lock.release",
            ),
        ),
    ),
    Mutant(
        "W6",
        "an interrupt leaves it on the lists",
        _CLAUSE,
        (
            Edit(
                "waiting.py",
                "        except BaseException:\n            selection.withdraw()\n",
                "        except BaseException:\n",
            ),
        ),
    ),
    Mutant(
        "W7",
        "at the deadline nobody looks again",
        _CLAUSE,
        (
            Edit(
                "waiting.py",
                "            taken = selection.take()\n            selection.withdraw()",
                "            taken = None if expired else selection.take()\n"
                "            selection.withdraw()",
            ),
        ),
    ),
    Mutant(
        "W8",
        "one queue that is disconnected ends it",
        _CLAUSE,
        (
            Edit(
                "waiting.py",
                "return all(end.disconnected()",
                "return any(end.disconnected()",
            ),
        ),
    ),
    Mutant(
        "W9",
        "what is on its way from a peer that hung up is not waited for",
        _CLAUSE,
        (
            Edit(
                "waiting.py",
                "    return status is Status.HALF_DISCONNECTED\n",
                "    return status is Status.HALF_DISCONNECTED and end.pending > 0\n",
            ),
        ),
    ),
)
