"""`Plan`: which segments an update of the tables reads, and which rows stay.

The table `segments` names, for each segment, the fingerprint of the file and the file
of `events` with its records. A file of events may hold several segments: it stays only
if each of them is listed and has the fingerprint from then. So the tables always hold
the journals as listed, and nothing else. This module does no input and no output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from bus.pipeline.batches import storable
from bus.pipeline.schemas import signed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from bus.pipeline.share import Share

    _Key = tuple[int, str | None]  # journal, path

__all__ = ["Plan"]


@attrs.frozen
class Plan:
    """The difference between a table `segments` and the segments now listed.

    kept: rows whose segments need no read.
    to_read: segments that are new or changed, or share a file with one that is.
    states: the fingerprint of each listed segment.
    """

    kept: tuple[dict[str, Any], ...]
    to_read: tuple[Share, ...]
    states: Mapping[_Key, str]

    @classmethod
    def of(
        cls,
        rows: Iterable[Mapping[str, Any]],
        listed: Mapping[Share, str],
        files: Collection[str],
    ) -> Plan:
        """Compare.

        rows: of the table `segments`. listed: the fingerprint of each segment.
        files: the names in the folder of `events`.
        """
        rows = list(rows)
        states = {_key_of(share): state for share, state in listed.items()}
        stale = {
            row["file"] for row in rows if states.get(_key(row)) != row["state"]
        } - {None}
        kept = {
            _key(row): dict(row)
            for row in rows
            if states.get(_key(row)) == row["state"]
            and row["file"] not in stale
            and (row["file"] is None or row["file"] in files)
        }
        to_read = tuple(share for share in listed if _key_of(share) not in kept)
        return cls(tuple(kept.values()), to_read, states)

    def state(self, row: Mapping[str, Any]) -> str:
        """Return the fingerprint, before the read, of the segment of a row."""
        return self.states[_key(row)]

    @property
    def files(self) -> set[str]:
        """The files of events that stay."""
        return {row["file"] for row in self.kept} - {None}


def _key(row: Mapping[str, Any]) -> _Key:
    return row["journal"], row["path"]


def _key_of(share: Share) -> _Key:
    return signed(share.journal), share.path and storable(share.path)
