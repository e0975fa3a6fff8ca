"""`OutFolder`: where results lie, and the promise to touch nobody else's files.

A folder is ours if it holds `MARKER`; any other folder must be empty or absent before
we take it. What a former run left is removed before a new one begins, so that a run
that fails leaves no verdicts of another one behind. This needs no Spark.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs

from bus.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MARKER", "OutFolder", "claimed"]

MARKER: Final = ".queuebroker-out"

_NOTE: Final = "Results of queuebroker lie here; a later run may replace them.\n"


@attrs.frozen
class OutFolder:
    """A folder of results: tables, verdicts, violations, report."""

    path: Path

    @classmethod
    def claim(cls, path: Path) -> OutFolder:
        """Make the folder, or take it if it is ours or empty.

        Raises:
            PipelineError: it is neither, or cannot be made or written.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (path / MARKER).exists():
                if any(path.iterdir()):
                    raise PipelineError(
                        f"cannot write to {path}: it is not empty, and not a folder"
                        " of results; name another with --out"
                    )
                (path / MARKER).write_text(_NOTE)
        except FileExistsError:
            raise PipelineError(f"cannot write to {path}: it is a file") from None
        except OSError as error:
            msg = f"cannot write to {error.filename or path}: {error.strerror}"
            raise PipelineError(msg) from None
        return cls(path)

    @classmethod
    def reopen(cls, path: Path) -> OutFolder:
        """A folder in which a run has left its tables.

        Raises:
            PipelineError: it is not one.
        """
        if not (path / MARKER).exists() or not (path / "tables").is_dir():
            raise PipelineError(f"no results in {path}: run `bus pipeline all` first")
        return cls(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other run out of it, until the end of the block.

        Raises:
            PipelineError: another run is at work there, or it cannot be written.
        """
        with _told_in_one_line(self.path):
            # A program that is started does not inherit it, and the kernel lets go of
            # it when this process ends, however that happens.
            lock = os.open(self.path / MARKER, os.O_RDWR | os.O_CLOEXEC)
        try:
            with _told_in_one_line(self.path):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A run that failed in a new folder has taken its marker away: to have
                # that one locked keeps nobody out.
                if not os.path.samestat(os.fstat(lock), os.stat(self.path / MARKER)):
                    raise BlockingIOError
            yield
        finally:
            os.close(lock)

    @property
    def verdicts(self) -> Path:
        """The verdicts, JSON."""
        return self.path / "verdicts.json"

    @property
    def violations(self) -> Path:
        """The violations, one JSON object a line."""
        return self.path / "violations.jsonl"

    @property
    def report(self) -> Path:
        """The report, one HTML file."""
        return self.path / "report.html"

    @property
    def about(self) -> Path:
        """The file about the run: command, versions, settings; JSON."""
        return self.path / "run.json"

    @property
    def log(self) -> Path:
        """What Spark itself had to say."""
        return self.path / "spark.log"

    def table(self, name: str) -> Path:
        """The folder of a table's Parquet files."""
        return self.path / "tables" / name

    def clear(self) -> None:
        """Remove what a former run left."""
        for file in (self.verdicts, self.violations, self.report, self.about):
            file.unlink(missing_ok=True)
        if self.table("").exists():
            shutil.rmtree(self.table(""))

    def write(self, rows: DataFrame, name: str) -> None:
        """Replace a table."""
        rows.write.mode("overwrite").parquet(str(self.table(name)))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A table that was written."""
        return spark.read.parquet(str(self.table(name)))


@contextmanager
def claimed(path: Path) -> Iterator[OutFolder]:
    """Claim a folder, in which no other run is at work until the end of the block.

    What an earlier run has left in it stays until `OutFolder.clear`. If the block fails
    and leaves nothing in a folder that was new, no trace of the claim is left either.

    Raises:
        PipelineError: see `OutFolder.claim` and `OutFolder.locked`.
    """
    is_made, is_new = not path.exists(), not (path / MARKER).exists()
    folder = OutFolder.claim(path)
    with folder.locked():
        try:
            yield folder
        except BaseException:
            if is_new:
                _disclaim(path, is_made=is_made)
            raise


def _disclaim(path: Path, *, is_made: bool) -> None:
    """Leave a folder as it was found, unless something lies in it by now."""
    with suppress(OSError):
        if [each.name for each in path.iterdir()] != [MARKER]:
            return
        (path / MARKER).unlink()
        if is_made:
            path.rmdir()


@contextmanager
def _told_in_one_line(path: Path) -> Iterator[None]:
    """Whatever keeps us from writing there, as what a user can look up."""
    try:
        yield
    except BlockingIOError:
        raise PipelineError(
            f"cannot write to {path}: another run is at work there; wait for it, or"
            " name another with --out"
        ) from None
    except OSError as error:
        msg = f"cannot write to {error.filename or path}: {error.strerror}"
        raise PipelineError(msg) from None
