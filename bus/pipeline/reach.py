"""Whether executors reach what the driver lists: the folders of journals and results.

On a cluster a path means one thing on each machine. An executor that finds no file
there would read nothing, and what it did not read would make every verdict UNKNOWN; so
executors are asked before anything is read, and each task asks again. What is sent to
them needs no package but Python's own.
"""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Final

from bus.errors import JournalError, PipelineError
from bus.pipeline.session import is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    _Answer = tuple[str, str]  # host, path

__all__ = ["check_reach", "require"]

TASKS_PER_CORE: Final = 4
_REMEDY: Final = (
    "put the journals and the results on a file system that all executors share,"
    " at the same path"
)


def check_reach(spark: SparkSession, paths: Sequence[str]) -> None:
    """Ask the executors of a cluster whether they find some paths.

    paths: absolute; the driver finds them all.

    Raises:
        PipelineError: an executor does not find one of them.
    """
    context = spark.sparkContext
    if is_local(context.master or ""):
        return
    tasks = TASKS_PER_CORE * max(1, context.defaultParallelism)
    asked = context.parallelize(range(tasks), tasks)
    answers = asked.mapPartitions(_asker(tuple(paths))).distinct().collect()
    for host, path in sorted(answers):
        msg = f"an executor on {host} does not find {path}: {_REMEDY}"
        raise PipelineError(msg)


def require(path: str) -> None:
    """Raise unless a folder is here; called where a task runs.

    Raises:
        JournalError: it is not.
    """
    if not os.path.isdir(path):
        host = platform.node()
        raise JournalError(f"cannot read {path}: it is not on {host}; {_REMEDY}")


def _asker(paths: Sequence[str]) -> Callable[[Iterable[int]], Iterator[_Answer]]:
    # Inside, so that it is pickled itself and not by the name of this module.
    def ask(_: Iterable[int]) -> Iterator[_Answer]:
        for path in paths:
            try:
                found = bool(os.listdir(path))
            except OSError:
                found = False
            if not found:
                yield platform.node(), path
                return

    return ask
