"""`OutFolder`: the folder of results, which leaves the files of others alone.

A folder is ours if it holds `MARKER`; any other folder must be empty or absent. The
results of an earlier run are removed before a new one begins, so that a failed run
leaves no verdicts of another one behind. This module needs no Spark.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs

from bus.errors import PipelineError
from queuebroker import _files, _platform

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MARKER", "OutFolder", "claimed"]

MARKER: Final = ".queuebroker-out"

_NOTE: Final = "Results of queuebroker are here; a later run may replace them.\n"


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
                (path / MARKER).write_text(_NOTE, encoding="ascii")
        except FileExistsError:
            raise PipelineError(
                f"cannot write to {path}: it is a file; name a folder"
            ) from None
        except OSError as error:
            msg = f"cannot write to {error.filename or path}: {error.strerror}"
            raise PipelineError(msg) from None
        return cls(path)

    @classmethod
    def reopen(cls, path: Path) -> OutFolder:
        """Return a folder that holds the tables of a run.

        Raises:
            PipelineError: it holds none.
        """
        if not (path / MARKER).exists() or not (path / "tables").is_dir():
            raise PipelineError(f"no results in {path}: run `bus pipeline all` first")
        return cls(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other run out of it, until the end of the block.

        Raises:
            PipelineError: another run is active there, or it cannot be written.
        """
        with _told_in_one_line(self.path):
            # A child program does not inherit the lock, and the kernel releases it when
            # this process ends in any way.
            lock = os.open(self.path / MARKER, os.O_RDWR)
        try:
            with _told_in_one_line(self.path):
                _files.lock(lock)
                # A failed run in a new folder has removed its marker: a lock on that
                # file keeps no run out.
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
        """The log of Spark's own output."""
        return self.path / "spark.log"

    def table(self, name: str) -> Path:
        """Return the folder of a table's Parquet files."""
        return self.path / "tables" / name

    @property
    def events(self) -> Path:
        """The folder of the files of the table `events`."""
        return self.table("events")

    @property
    def segments(self) -> Path:
        """The file of the table `segments`, which names the files of `events`."""
        return self.table("segments") / "part-00000.parquet"

    def event_files(self) -> set[str]:
        """Return the names of the files of events, those of killed runs included."""
        try:
            return set(os.listdir(self.events))
        except FileNotFoundError:
            return set()

    def keep_event_files(self, names: Collection[str]) -> None:
        """Remove all files of events but some."""
        for name in self.event_files() - set(names):
            (self.events / name).unlink(missing_ok=True)

    def replace_segments(self, write: Callable[[Path], None]) -> None:
        """Replace the table `segments` by one rename, which a kill cannot split.

        write: called with the path to write the new file to.
        """
        self.segments.parent.mkdir(parents=True, exist_ok=True)
        new = self.segments.with_suffix(".new")
        write(new)
        new.replace(self.segments)

    def clear(self, *, keep: Collection[str] = ()) -> None:
        """Remove the results of an earlier run.

        keep: names of tables that stay.
        """
        # The file about the run is first: its presence proves that the rest is whole.
        for file in (self.about, self.verdicts, self.violations, self.report):
            file.unlink(missing_ok=True)
        if not keep:
            shutil.rmtree(self.table(""), ignore_errors=not self.table("").exists())
        elif self.table("").exists():
            for table in self.table("").iterdir():
                if table.name not in keep:
                    shutil.rmtree(table)

    def write(self, rows: DataFrame, name: str) -> None:
        """Replace a table."""
        rows.write.mode("overwrite").parquet(str(self.table(name)))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """Return a table that was written."""
        return spark.read.parquet(str(self.table(name)))


@contextmanager
def claimed(path: Path) -> Iterator[OutFolder]:
    """Claim a folder, and keep other runs out of it until the end of the block.

    The results of an earlier run stay until `OutFolder.clear`. If the block fails and
    has written nothing to a new folder, the claim is undone as well.

    Raises:
        PipelineError: see `OutFolder.claim` and `OutFolder.locked`.
    """
    is_made, is_new = not path.exists(), not (path / MARKER).exists()
    folder = OutFolder.claim(path)
    with ExitStack() as after, folder.locked():
        try:
            yield folder
        except BaseException:
            if is_new and _platform.SYSTEM == "windows":
                # It removes no open file: not now, and not that of a run to come.
                after.callback(_disclaim, path, is_made=is_made)
            elif is_new:
                _disclaim(path, is_made=is_made)
            raise


def _disclaim(path: Path, *, is_made: bool) -> None:
    """Restore a folder to its former state, unless it holds other files by now."""
    with suppress(OSError):
        if [each.name for each in path.iterdir()] != [MARKER]:
            return
        (path / MARKER).unlink()
        if is_made:
            path.rmdir()


@contextmanager
def _told_in_one_line(path: Path) -> Iterator[None]:
    """Turn an error of a write there into one that a user can look up."""
    try:
        yield
    except BlockingIOError:
        raise PipelineError(
            f"cannot write to {path}: another run is writing there; wait for it, or"
            " name another with --out"
        ) from None
    except OSError as error:
        msg = f"cannot write to {error.filename or path}: {error.strerror}"
        raise PipelineError(msg) from None
