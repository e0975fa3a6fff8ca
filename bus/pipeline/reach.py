"""Checks that executors find the folders that the driver lists: journals and results.

On a cluster a path may lead to a different folder on each machine. An executor that
does not find a file would read nothing, and the missing records would make every
verdict UNKNOWN. So the driver checks the executors before the read, and each task
checks again. The code that it sends to them needs only Python's own packages.
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
    """Check that the executors of a cluster find some paths.

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
    """Raise unless this machine has a folder; called on the executor of a task.

    Raises:
        JournalError: it has no such folder.
    """
    if not os.path.isdir(path):
        host = platform.node()
        raise JournalError(f"cannot read {path}: it is not on {host}; {_REMEDY}")


def _asker(paths: Sequence[str]) -> Callable[[Iterable[int]], Iterator[_Answer]]:
    # A nested function, so that it is pickled by value, not by its module's name.
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
