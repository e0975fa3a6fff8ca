"""Spark itself: a check that it can run here, and a session with our settings.

The rule: none of Spark's output reaches the terminal. The JVM is started with its
output in a log file, once a process, since Spark keeps it for every later session. If
it has ended, the next session starts another one. Only this module has the settings
that must precede the start (the Python of the workers, the memory, the address). Its
defaults never replace a setting that the user gave to `build_session` or to
``spark-submit``. This module depends on no table and no journal.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bus.errors import PipelineError
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from py4j.java_gateway import (  # type: ignore[import-untyped] # ships no types
        JavaGateway,
    )
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

__all__ = [
    "build_session",
    "given_settings",
    "is_local",
    "java_end",
    "missing",
    "missing_packages",
    "running_session",
    "session",
]

JAVA_MAJOR_MIN: Final = 17
HEAP_GIB_MAX: Final = 4
PARTITIONS_MIN: Final = 8
PARTITION_RECORDS: Final = 500_000
SHORT_RECORDS_MAX: Final = 10_000_000

# Nearly half of the processor time of a short run went into optimizing code that was
# about to end; the simple compiler avoids that. Long runs keep the other one.
_SHORT_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"

# The limits of a container, in both versions of control groups. If the heap were
# limited only by the machine's memory, the kernel would kill Java.
_MEMORY_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

_PACKAGES: Final = ("pyspark", "pyarrow", "numpy", "pandas")
_DRAWING: Final = ("matplotlib", "jinja2")

_SETTINGS: Final = {
    "spark.app.name": "queuebroker",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # An overflow or a bad cast is an error of ours: it must not become a null.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
}

LOCAL_MASTER: Final = "local[*]"

# Only for local masters: executors of a cluster could not reach the loopback address.
_LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

# spark-submit itself sets these for a Python program, unless they are given.
_EARLY: Final = {"spark.ui.showConsoleProgress": "false"}
_SHELL: Final = "pyspark-shell"

# Spark sets these in every session.
_OWN_OF_SPARK: Final = re.compile(r"spark\.(app\.submitTime|submit\.|home$)")
_SECRET: Final = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)

# Spark writes kilobytes of JSON to stderr through these for each failed query, though
# the error itself is raised as well.
_LOUD: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

_UNCLEAN: Final = "Unable to cleanly shutdown Spark JVM process"

# The loggers in which py4j reports an interrupt; it uses the root's by mistake.
_PY4J: Final = ("root", "py4j.java_gateway", "py4j.clientserver")

# Java may close its connections some time before its end can be observed.
_END_S: Final = 1
_POLL_S: Final = 0.01

# The log of the JVM of this process; None if another module has started it.
_log: Path | None = None

# The user's settings of the last session that was built.
_given: dict[str, str] = {}


def missing(*, drawing: bool = True) -> str | None:
    """Return which package or program Spark lacks, in one line; None if none.

    drawing: True if the report is needed too, which takes two more packages.
    """
    if lack := missing_packages(drawing=drawing):
        return lack
    java = _java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        place = f" at JAVA_HOME={home}" if home else ""
        return (
            f"no Java found{place}: install Java {JAVA_MAJOR_MIN} or newer (on Debian"
            f" or Ubuntu: apt-get install openjdk-{JAVA_MAJOR_MIN}-jre-headless),"
            " or set JAVA_HOME"
        )
    major = _java_major(java)
    if major is not None and major < JAVA_MAJOR_MIN:
        return (
            f"Java {major} at {java} is too old: install Java {JAVA_MAJOR_MIN} or"
            " newer, or set JAVA_HOME to one"
        )
    return None


def missing_packages(*, drawing: bool = True) -> str | None:
    """Check as `missing` does, but packages only: drawing a report needs no Java."""
    # Executors import this module, too, perhaps without `packaging`.
    from bus.requirements import install, unfit  # noqa: PLC0415 - see above

    extra = install("pipeline")
    wanted = _PACKAGES + (_DRAWING if drawing else ())
    absent = [name for name in wanted if importlib.util.find_spec(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed: {extra}"
    others = [each for each in unfit("pipeline") if each.name in wanted]
    return f"{', '.join(map(str, others))}: {extra}" if others else None


def is_local(master: str) -> bool:
    """Return True if executors are threads of this process's JVM, on the same files."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def given_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings of a session that the user gave; secrets are hidden."""
    return {
        name: "(hidden)" if _SECRET.search(name) else value
        for name, value in sorted(_given.items())
        if spark.sparkContext.getConf().get(name) == value
    }


def build_session(
    *,
    log: Path,
    master: str | None = None,
    records: int = 0,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or a further session on the JVM that this process already has.

    log: file for Spark's own output; only the call that starts Java decides.
    master: as Spark spells it; ``local[2]`` is two threads of this machine. If None,
      that of ``spark-submit`` or of its file of defaults, else `LOCAL_MASTER`.
    records: the approximate number of records to read; some defaults depend on it.
    settings: of Spark, by name; they override those of ``spark-submit``, which override
      the defaults here.

    Raises `PipelineError` if a program or package is missing or Spark does not start.
    """
    return _session_on(_context(log, master, records, settings or {}))


def _context(
    log: Path, master: str | None, records: int, settings: Mapping[str, str]
) -> SparkContext:
    lack = missing(drawing=False)
    if lack is not None:
        raise PipelineError(lack)
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - loaded where used

    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # The master, too: spark-submit loads different classes for different managers.
    chosen = dict(settings) | ({} if master is None else {"spark.master": master})
    early = SparkConf(loadDefaults=False).setAll(list((_EARLY | chosen).items()))
    local = is_local(master or LOCAL_MASTER)
    with _environment(_for_java(local=local, records=records, settings=settings)):
        gateway = _gateway(log, early)
    # Its defaults are the settings of spark-submit and of its file of defaults.
    conf = SparkConf(_jvm=gateway.jvm)
    _given.clear()
    _given.update(_of_user(dict(conf.getAll())) | chosen)
    for name, value in chosen.items():
        conf.set(name, value)
    conf.setIfMissing("spark.master", LOCAL_MASTER)
    if conf.get("spark.app.name") == _SHELL:
        conf.set("spark.app.name", _SETTINGS["spark.app.name"])
    for name, value in _defaults(conf.get("spark.master", ""), records).items():
        conf.setIfMissing(name, value)
    # Otherwise the workers run the first python3 in PATH, which may have no pyarrow:
    # the session starts, and its first query fails.
    python = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = python or sys.executable
    try:
        return SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        if type(error).__module__.split(".")[0] not in {"py4j", "pyspark"}:
            raise
        msg = f"Spark does not start: {_first_line(error)}; see {log}"
        raise PipelineError(msg) from error


def _of_user(settings: dict[str, str]) -> dict[str, str]:
    """Return those settings of a JVM that a user gave to spark-submit."""
    ours = _EARLY | {
        "spark.app.name": _SHELL,
        "spark.driver.memory": f"{_heap_gib()}g",
    }
    return {
        name: value
        for name, value in settings.items()
        if not _OWN_OF_SPARK.match(name) and value != ours.get(name)
    }


def _defaults(master: str, records: int) -> dict[str, str]:
    """Return the defaults for settings that the user has not given."""
    defaults = _SETTINGS | (_LOCAL_SETTINGS if is_local(master) else {})
    defaults["spark.sql.shuffle.partitions"] = str(_partitions(records))
    root = Path(__file__).parents[2]
    if not {"site-packages", "dist-packages"} & set(root.parts):
        # The workers must find this package even if it is not installed.
        defaults["spark.executorEnv.PYTHONPATH"] = str(root)
    return defaults


def _for_java(
    *, local: bool, records: int, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables from which spark-submit takes settings not given elsewhere.

    It reads them last, so they replace nothing, unlike arguments.
    """
    variables = {"SPARK_DRIVER_MEMORY": f"{_heap_gib()}g"}
    if local:
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    submit_arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    is_chosen = any("JavaOptions" in name for name in settings) or any(
        "java-options" in word or "JavaOptions" in word or "properties-file" in word
        for word in shlex.split(submit_arguments)
    )
    # They are added to the user's options, and Java rejects a second collector.
    if records < SHORT_RECORDS_MAX and not is_chosen:
        variables["SPARK_SUBMIT_OPTS"] = _SHORT_JAVA
    return {k: v for k, v in variables.items() if k not in os.environ}


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set those variables that are unset, within the block."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)


def _first_line(error: Exception) -> str:
    """Return the line of an error that has the reason."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line[2:] for line in lines if line.startswith(": ")), lines[0])


def _session_on(context: SparkContext) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - loaded where used

    context.setLogLevel("ERROR")
    return SparkSession(context)


@contextlib.contextmanager
def session(
    *,
    log: Path,
    master: str | None = None,
    records: int = 0,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Yield the running session of this process, else a new one for the block.

    Raises `PipelineError` if Java ends during the block, too.
    """
    before = signal.getsignal(signal.SIGINT)
    running = running_session()
    if running is not None:
        with _end_of_java_told():
            yield running
        return
    with _quietly(), _end_of_java_told():
        context = _context(log, master, records, settings or {})
        _interrupted_as(before)
        spark = _session_on(context)
        try:
            yield spark
        finally:
            with warnings.catch_warnings():
                # The interrupt may have arrived during a call to the JVM.
                warnings.filterwarnings("ignore", _UNCLEAN, RuntimeWarning)
                spark.stop()


def running_session() -> SparkSession | None:
    """Return the running session of this process; None if there is none any more."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - loaded where used

    _forget_ended_java()
    return SparkSession.getActiveSession()


def java_end(wait_s: float = 0) -> str | None:
    """Return how Java ended, with the remedy; None if it has not ended.

    wait_s: the time to wait for its end.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - loaded where used

    # Any other access asks Java. Without a process, spark-submit has started Java, and
    # ends with it.
    process = vars(SparkContext._gateway or object).get("proc")
    if process is None:
        return None
    latest, held = _sync.monotonic() + wait_s, _sync.Lock()
    held.acquire()
    while (code := process.poll()) is None:
        if _sync.monotonic() >= latest:
            return None
        held.acquire(timeout=_POLL_S)
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    place = "" if _log is None else f"; its last output is in {_log}"
    return (
        f"Java ended {how} while Spark was in use{place}. Try again, which starts it"
        " anew; if memory ran out, limit that of Java with --memory 1g"
    )


def _forget_ended_java() -> None:
    """Let the next session start another JVM if that of this process has ended.

    Spark itself would use the ended one forever.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - loaded where used
    from pyspark.sql import SparkSession  # noqa: PLC0415 - loaded where used

    gateway = SparkContext._gateway
    if gateway is None or java_end() is None:
        return
    if (context := SparkContext._active_spark_context) is not None:
        context._jsc = None  # so that only the part in this process is stopped
        context.stop()
    gateway.close()
    gateway.proc.stdin.close()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


@contextlib.contextmanager
def _end_of_java_told() -> Iterator[None]:
    """If Java ends in the block, raise that, in place of an error caused by it."""
    try:
        yield
    except Exception as error:
        # The error of a call that Java has answered needs no wait.
        is_answer = hasattr(error, "java_exception") or isinstance(error, PipelineError)
        if (end := java_end(0 if is_answer else _END_S)) is None:
            raise
        raise PipelineError(end) from error


def _interrupted_as(
    before: Callable[[int, FrameType | None], object] | int | None,
) -> None:
    """Restore the effect that an interrupt had before Spark started.

    Spark's handler asks the JVM to cancel all jobs. This fails if the interrupt arrives
    during another call to the JVM, as is most likely; stopping a session cancels them.
    """
    with contextlib.suppress(ValueError):  # not the main thread: nothing was changed
        if before is not None:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """In the block, keep py4j from printing tracebacks of an interrupt or Java's end.

    The command reports either in one line.
    """
    loggers = [logging.getLogger(name) for name in _PY4J]
    for logger in loggers:
        logger.addFilter(_worth_telling)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_worth_telling)


def _worth_telling(record: logging.LogRecord) -> bool:
    """Return True if a record reports anything but an interrupt or Java's end."""
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return False
        error = error.__context__
    return java_end(_END_S) is None


def _gateway(log: Path, conf: SparkConf) -> JavaGateway:
    from pyspark import SparkContext  # noqa: PLC0415 - loaded where used
    from pyspark.errors import PySparkException  # noqa: PLC0415 - loaded where used
    from pyspark.java_gateway import (  # noqa: PLC0415 - loaded where used
        launch_gateway,
    )

    global _log  # noqa: PLW0603 - one JVM a process is Spark's rule, not ours
    _forget_ended_java()
    if SparkContext._gateway is None:
        try:
            with log.open("ab") as output, _interrupted_later():
                streams = {"stdout": output, "stderr": output}
                gateway = launch_gateway(  # type: ignore[no-untyped-call] # it has no types
                    conf, popen_kwargs=streams
                )
                _log = log
                SparkContext._ensure_initialized(gateway=gateway)
        except (PySparkException, OSError) as error:
            msg = f"Spark does not start: {error}; see {log}"
            raise PipelineError(msg) from error
    return SparkContext._gateway


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Delay an interrupt until the end of the block; a second one acts at once.

    If its start is interrupted, a JVM finds no process to report its port to, and keeps
    running.
    """
    kept: list[None] = []

    def keep(number: int, frame: FrameType | None) -> None:
        if kept and callable(before):
            before(number, frame)
        kept.append(None)

    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, keep)
    except ValueError:  # not the main thread: no interrupt arrives here
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if kept:
            signal.raise_signal(signal.SIGINT)


def _heap_gib() -> int:
    """Return half of the memory in GiB: the workers and the page cache need the rest.

    At least 1 GiB. The memory is that of the container, if it has a limit.
    """
    limits = [2**31 * HEAP_GIB_MAX]
    if hasattr(os, "sysconf"):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _MEMORY_LIMITS:
        # The file is missing in the other version, and without a limit it has a word.
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(path.read_text(encoding="ascii")))
    return max(1, min(limits) // 2**31)


def _partitions(records: int) -> int:
    """Return a number of shuffle pieces that fit in memory; Spark merges small ones."""
    return max(PARTITIONS_MIN, records // PARTITION_RECORDS)


def _java() -> Path | None:
    """Return the Java that Spark's own start script will use."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    return Path(found).resolve() if found else None


def _java_major(java: Path) -> int | None:
    """Return its version from the file beside it: running Java costs a process."""
    try:
        release = (java.parent.parent / "release").read_text(
            encoding="utf-8", errors="replace"
        )
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(match[1]) if match else None
