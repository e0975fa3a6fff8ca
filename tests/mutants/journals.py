"""Mutants of the journal itself: losses, late writers, deaths, what a reader trusts."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

__all__ = ["JOURNALS"]

_CHECKER = "bus/journal/checker.py"
_DEATHS = "bus/journal/deaths.py"
_INCARNATION = "bus/journal/incarnation.py"
_READER = "bus/journal/reader.py"
_SEGMENT = "bus/journal/stored_segment.py"
_SUPPLY = "bus/journal/supply.py"

_J1 = ("J1",)

JOURNALS: tuple[Mutant, ...] = (
    Mutant(
        "JN1",
        "the lost count of the last segment stands for the largest of all",
        _J1,
        (
            Edit(
                _READER,
                "self._lost = max(self._lost, segment.lost)",
                "self._lost = segment.lost",
            ),
        ),
    ),
    Mutant(
        "JN2",
        "a close does not wait for a writer that has drawn a slot",
        _J1,
        (
            Edit(
                _SUPPLY,
                "            self._await_stragglers(used)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "JN3",
        "a close does not wait for writers of the current segment",
        _J1,
        (
            Edit(
                _SUPPLY,
                "            self.current.whole(used)\n            and all(",
                "            all(",
            ),
        ),
    ),
    Mutant(
        "JN4",
        "a close does not wait for writers of retired segments",
        _J1,
        (
            Edit(
                _SUPPLY,
                "            and all(old.whole(old.header.slots) for old in self._retired)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "JN5",
        "a retired segment is sealed though a writer has not come yet",
        _J1,
        (
            Edit(
                _SUPPLY,
                "            if late and len(self._retired) < RETIRED_MAX:\n",
                "            if late and False:\n",
            ),
        ),
    ),
    Mutant(
        "JN6",
        "a death of another boot counts",
        _J1,
        (
            Edit(
                _DEATHS,
                "            and facts[death.journal].boot == one.boot\n",
                "",
            ),
        ),
    ),
    Mutant(
        "JN7",
        "a process records its own death",
        _J1,
        (
            Edit(
                _DEATHS,
                "            death.journal != one.journal\n            and (",
                "            (",
            ),
        ),
    ),
    Mutant(
        "JN8",
        "a journal is conclusive though operations came after its close",
        _J1,
        (
            Edit(
                _READER,
                "return self.complete and not self.late",
                "return self.complete",
            ),
        ),
    ),
    Mutant(
        "JN9",
        "a process that had not begun may have lost anything",
        _J1,
        (
            Edit(
                _READER,
                "        return self.begun and lacks\n",
                "        return lacks\n",
            ),
        ),
    ),
    Mutant(
        "JN10",
        "a process that recorded a name had not begun",
        _J1,
        (
            Edit(
                _READER,
                "begun=not (blank and self._journal.meta.silent),",
                "begun=not blank,",
            ),
        ),
    ),
    Mutant(
        "JN11",
        "a segment that is no segment is no damage",
        _J1,
        (Edit(_READER, "                on_damaged()\n", "                pass\n"),),
    ),
    Mutant(
        "JN12",
        "a seal that counts other records than there are is believed",
        _J1,
        (
            Edit(
                _SEGMENT,
                "        if count != header.seal.count:\n",
                "        if count > header.seal.count:\n",
            ),
        ),
    ),
    Mutant(
        "JN13",
        "a loss during the close is not recorded",
        _J1,
        (
            Edit(
                _INCARNATION,
                "            self._supply.lose()\n            if not self._closed:\n                return\n",
                "            self._supply.lose()\n            return\n",
            ),
        ),
    ),
    Mutant(
        "JN14",
        "the spare is put in place, and nobody makes the next one",
        _J1,
        (
            Edit(
                _INCARNATION,
                "                advanced = self._supply.advance()\n                self._wake_locked()\n",
                "                advanced = self._supply.advance()\n",
            ),
        ),
    ),
    Mutant(
        "JN15",
        "a loss is not recorded once there is room",
        _J1,
        (
            Edit(
                _INCARNATION,
                "                self._recorder.switch(self._supply.current.take)\n            self._tell_lost()\n",
                "                self._recorder.switch(self._supply.current.take)\n",
            ),
        ),
    ),
    Mutant(
        "JN16",
        "the side file is not read again after the records",
        _J1,
        (
            Edit(
                _READER,
                "        self._journal.refresh()\n        blank =",
                "        blank =",
            ),
        ),
    ),
    Mutant(
        "JN17",
        "a lossy journal breaks no rule that was held against something",
        _J1,
        (
            Edit(
                _CHECKER,
                "if verdict is Verdict.NOTHING and lossy:",
                "if verdict is Verdict.NOTHING and lossy and not checked[rule]:",
            ),
        ),
    ),
)
