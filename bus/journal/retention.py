"""`Retention`: the closed files of one journal, and the limits that delete the oldest.

Segments and payload files share one order and one limit. So records and payloads of one
time are deleted at about the same time, and neither kind can displace the other.

One thread at a time calls it: the housekeeper, then the closing thread.
"""

from __future__ import annotations

import errno
import logging
import shutil
from typing import TYPE_CHECKING, Final

from queuebroker import _sync

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Retention"]

_log = logging.getLogger("bus.journal")

# Spare room kept ready for each kind, in bytes: about half a second of the fastest
# writer.
SPARE_BYTES: Final = 32 << 20
SPARES_MAX: Final = 8


class Retention:
    """The files of one incarnation.

    max_bytes, max_age_s, min_free_bytes: as in `bus.journal.writer.Journal`.
    """

    __slots__ = ("_bytes", "_closed", "_folder", "_in_use", "_settings")

    def __init__(
        self,
        folder: Path,
        max_bytes: int | None = None,
        max_age_s: float | None = None,
        min_free_bytes: int | None = None,
    ) -> None:
        self._folder = folder
        self._settings = max_bytes, max_age_s, min_free_bytes
        self._bytes = 0  # of all files, closed or not
        # The closed files, the oldest first: their sizes, and when they were closed.
        self._closed: dict[Path, tuple[int, float]] = {}
        # Those of them that could not be deleted so far.
        self._in_use: set[Path] = set()

    def spares_due(self, file_bytes: int) -> int:
        """Return how many spare files of one kind to keep ready."""
        max_bytes, _, _ = self._settings
        due = min(SPARES_MAX, SPARE_BYTES // file_bytes)
        if max_bytes is not None:
            # Spares take room from the files kept: use at most a quarter for them.
            due = min(due, max_bytes // file_bytes // 4)
        return max(1, due)

    def make_room(self, size: int = 0) -> None:
        """Delete the oldest files, so that the limits hold with one more file.

        size: of that file; 0 for none, to enforce the limits from time to time.

        On Windows no file is deleted that a reader has open: a later call tries again.

        OSError if a new file would leave less than ``min_free_bytes`` free, or if the
        free bytes cannot be determined.
        """
        max_bytes, max_age_s, min_free_bytes = self._settings
        now = _sync.monotonic()
        for oldest, (freed, closed_at) in list(self._closed.items()):
            if not (
                (max_bytes is not None and self._bytes + size > max_bytes)
                or (max_age_s is not None and now - closed_at > max_age_s)
                or (min_free_bytes is not None and self._free() < min_free_bytes + size)
            ):
                return
            try:
                oldest.unlink(missing_ok=True)
            except OSError as error:
                if oldest not in self._in_use:
                    _log.warning("cannot delete %s: %s", oldest, error)
                if isinstance(error, PermissionError):
                    self._in_use.add(oldest)
                    continue
            self._in_use.discard(oldest)
            del self._closed[oldest]
            self._bytes -= freed
        if size and min_free_bytes is not None and self._free() < min_free_bytes + size:
            raise OSError(
                errno.ENOSPC,
                f"less than min_free_bytes={min_free_bytes:,} would be free",
            )

    def opened(self, size: int) -> None:
        """Add a file that was made."""
        self._bytes += size

    def closed(self, path: Path, size: int) -> None:
        """Count a file as closed: it may be deleted. Repeat after an interrupt.

        size: with which it was opened.
        """
        if path not in self._closed:
            try:
                left = path.stat().st_size
            except OSError:
                left = size
            self._closed[path] = left, _sync.monotonic()
            self._bytes += left - size

    def _free(self) -> int:
        return shutil.disk_usage(self._folder).free
