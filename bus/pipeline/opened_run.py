"""`open_run`: the tables of a finished run as DataFrames, for queries of your own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bus.errors import PipelineError
from bus.pipeline.folder import OutFolder
from bus.pipeline.session import build_session, running_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["OpenedRun", "open_run"]


def open_run(
    out: str | os.PathLike[str], spark: SparkSession | None = None
) -> OpenedRun:
    """Open the tables that ``bus pipeline all`` or ``check`` wrote to a folder.

    spark: None for the running session of this process, else a new one on this machine.

    Raises:
        PipelineError: the folder holds no finished run, or Spark cannot run here.
    """
    folder = OutFolder(Path(out).absolute())
    # A run writes this file last.
    if not folder.about.exists():
        msg = f"no finished run in {out}: run `bus pipeline all --out {out}` first"
        raise PipelineError(msg)
    if spark is None:
        spark = running_session() or build_session(log=folder.log)
    return OpenedRun(folder, spark)


class OpenedRun:
    """The tables of a run; each one is an attribute: ``run.messages``.

    A later run that finds new records replaces the tables: open it again then.
    """

    def __init__(self, folder: OutFolder, spark: SparkSession) -> None:
        self.folder = folder
        self.spark = spark

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return sorted(path.name for path in self.folder.table("").iterdir())

    @property
    def events(self) -> DataFrame:
        """One row for each record; see `bus.pipeline.schemas.EVENTS`."""
        from bus.pipeline import bronze  # noqa: PLC0415 - needs pyarrow

        # Not all files of its folder: a killed run may have left others.
        return bronze.events(self.spark, self.folder)

    def __getattr__(self, name: str) -> Any:
        """Return a table.

        Raises:
            AttributeError: the run has no such table.
        """
        if name.startswith("_") or name not in self.tables:
            has = ", ".join(self.tables)
            msg = f"no table {name!r} in {self.folder.path}; it has {has}"
            raise AttributeError(msg)
        return self.folder.read(self.spark, name)
