"""Suite ``pipeline``: recorded traffic to tables and verdicts, and back to a bus.

S1 is the work of a worker that reads journals. S2 takes two million records, half of
queues and half of a bus, to verdicts and a report; beside it stand the plain checker,
and DuckDB with four of the rules on the table `events`. S3 is the processor time of a
record in runs of different size. S4 is the delay from a notification through Spark back
to a task of the bus. S5 is the rate of recording with payloads of 1 KiB, the time
that payloads add to the path of a message, and the rate of a replay.

A rival called `limit` is a number: the requirement itself.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from time import monotonic_ns, perf_counter, process_time, thread_time
from typing import Final

from benchmarks.contest import Contest, Effort, Row, Values
from benchmarks.figure import OURS
from bus import Incoming, open_bus
from bus.journal.writer import Journal
from queuebroker import BrokerManager, QueueBroker
from queuebroker._files import resource

_RECORDS: Final = 2_000_000
_SIZES: Final = (2_000_000, 20_000_000)
_SMALL: Final = 200_000
_FLOWS: Final = 8
_BODY: Final = bytes(1024)
_NOTIFICATIONS: Final = 200_000
_LIVE_HZ: Final = 100
_LIVE_S: Final = 30
_WARM_UP_S: Final = 15
_BUS: Final = (sys.executable, "-m", "bus")
_SUBREAPER: Final = 36  # prctl(2): orphans of our children become our children

# The rules Q2, Q3, Q5 and B1 as queries on the table `events`.
_RULES: Final = (
    """SELECT count(*) FROM (SELECT seq, max(seq) OVER (PARTITION BY flow ORDER BY n
       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last FROM e
       WHERE kind = 'receive') WHERE last >= seq""",
    """SELECT count(*) FROM (SELECT flow, seq FROM e WHERE kind = 'receive'
       GROUP BY ALL HAVING count(*) > 1)""",
    """SELECT count(*) FROM (SELECT flow, seq FROM e
       WHERE kind IN ('send', 'receive', 'drop') AND seq > 0
       GROUP BY ALL HAVING count(*) FILTER (kind = 'send') = count(*))""",
    """SELECT count(*) FROM (SELECT origin, port, flow, flags FROM e
       WHERE kind = 'deliver' GROUP BY ALL HAVING count(*) > 1)""",
)


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of all figures."""
    records = effort.amount(_RECORDS)
    sizes = () if effort.is_quick else _SIZES
    contests = [
        Contest(
            [_limited("S1", "read", "records/s", 300_000)],
            {OURS: lambda: _read(records)},
            once=True,
        ),
        Contest(
            [_limited("S2", "verdicts, report", "s", 60)],
            {
                OURS: lambda: _judged("all", records),
                "bus check": lambda: _judged("check", records),
                "duckdb": lambda: _queried(records),
            },
            once=True,
        ),
        *(
            Contest(
                [Row("S3", f"{size / 1e6:g} million", "us", {"0.2 million": 1.0})],
                {
                    OURS: functools.partial(_cost, size),
                    "0.2 million": functools.partial(_cost, _SMALL),
                },
                once=True,
            )
            for size in sizes
        ),
        Contest(
            [
                _limited("S4", "there and back p50", "ms", 400, "p50"),
                _limited("S4", "there and back p99", "ms", 1500, "p99"),
            ],
            {OURS: _live},
            once=True,
        ),
        Contest(
            [
                _limited("S5", "record 1 KiB", "messages/s", 100_000),
                Row("S5", "path", "us", {"no payloads": 1.5}, "path"),
            ],
            {
                OURS: lambda: _recording(effort.round_s, payloads=True),
                "no payloads": lambda: _recording(effort.round_s, payloads=False),
            },
        ),
        Contest(
            [_limited("S5", "replay 1 KiB", "messages/s", 100_000)],
            {OURS: lambda: _replayed(effort.amount(_NOTIFICATIONS))},
            once=True,
        ),
    ]
    return contests, []


def _limited(
    figure: str, case: str, unit: str, limit: float, value: str = "value"
) -> Row:
    own = {"limit": lambda _: limit}
    return Row(figure, case, unit, {"limit": 1.0}, value, own)


@functools.cache
def _folder() -> Path:
    """Return a folder that is removed at the end of the program."""
    folder = tempfile.TemporaryDirectory(prefix="pipeline-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


@functools.cache
def _recorded(records: int) -> Path:
    """Record so much real traffic, half of it of queues and half of a bus."""
    folder = _folder() / f"journals-{records}"
    with Journal(folder) as journal:
        with BrokerManager(observer=journal.observe) as manager:
            _transfer(manager, records // 2 // 2 // _FLOWS)
        with open_bus("recorded", journal=journal) as bus:
            bus.register("echo", on_command=lambda message: message.payload)
            for number in range(records // 2 // 5):  # a call makes five records
                bus.call("echo", number)
        if journal.lost:
            raise AssertionError(f"the journal lost {journal.lost} records")
    return folder


def _transfer(manager: BrokerManager, count: int) -> None:
    """Send so many messages over each of some queues."""
    left = QueueBroker("left", manager=manager)
    right = QueueBroker("right", manager=manager)

    def send(port: int) -> None:
        with left.connect("right", port, required=True) as queue:
            for _ in repeat(None, count):
                queue.send(b"x" * 64)

    def receive(port: int) -> None:
        with right.accept(port) as queue:
            for _ in repeat(None, count):
                queue.receive()

    threads = [
        threading.Thread(target=act, args=(port,))
        for act in (send, receive)
        for port in range(_FLOWS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _read(records: int) -> Values:
    """Read journals and write the table `events`, as one worker of Spark does."""
    from bus.pipeline.event_file import write_events  # noqa: PLC0415 - needs pyarrow
    from bus.pipeline.share import Share  # noqa: PLC0415 - needs pyarrow

    shares = Share.list_all(_recorded(records))
    with tempfile.TemporaryDirectory() as out:
        begin = process_time()
        rows = write_events(shares, out)
        took = process_time() - begin
    return {"value": sum(row["records"] for row in rows) / took}


def _judged(verb: str, records: int) -> Values:
    """Judge a recording in a new process; return seconds and processor seconds."""
    journals, out = _recorded(records), _folder() / "out"
    spark = ["pipeline", "all", "--journals", str(journals), "--out", str(out)]
    arguments = ["check", str(journals)] if verb == "check" else spark
    if verb == "all":
        shutil.rmtree(out, ignore_errors=True)  # a later run reads new records only
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    cpu, begin = _children_s(), perf_counter()
    done = subprocess.run(
        [*_BUS, *arguments], check=False, capture_output=True, text=True
    )
    seconds = perf_counter() - begin
    if done.returncode:
        raise RuntimeError(f"bus {arguments[0]} failed: {done.stderr or done.stdout}")
    return {"value": seconds, "cpu": _children_s() - cpu}


def _children_s() -> float:
    """Wait for the processes that a command has left; return the time of all so far."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return float(used.ru_utime + used.ru_stime)


@functools.cache
def _cost(records: int) -> Values:
    """Return the processor time of a record, of which Java's start takes a part."""
    return {"value": _judged("all", records)["cpu"] / records * 1e6}


def _queried(records: int) -> Values:
    """Query the table of the last run of Spark with DuckDB."""
    try:
        import duckdb  # noqa: PLC0415 - may be missing
    except ImportError:
        raise RuntimeError("duckdb is not installed") from None
    begin = perf_counter()
    events = str(_folder() / "out" / "tables" / "events" / "*.parquet")
    with duckdb.connect() as database:
        database.sql(f"CREATE VIEW e AS FROM read_parquet('{events}')")
        for rule in _RULES:
            if database.sql(rule).fetchall() != [(0,)]:
                raise RuntimeError(f"{records} sound records break {rule}")
    return {"value": perf_counter() - begin}


def _live() -> Values:
    """Send notifications through Spark and a gateway; return the delays in ms."""
    from bus.pipeline.session import build_session  # noqa: PLC0415 - needs Spark
    from bus.pipeline.source import register  # noqa: PLC0415 - needs Spark

    folder = _folder() / "live"
    delays: list[float] = []

    def arrive(message: Incoming) -> None:
        sent = int(message.payload["value"])
        delays.append((monotonic_ns() - sent) / 1e6)

    spark = build_session(log=_folder() / "spark.log", master="local[2]")
    register(spark)
    with (
        Journal(folder / "journals", payloads="sensor") as journal,
        open_bus("live", journal=journal) as bus,
        _program("pipeline", "gateway", str(folder / "spool"), "--bus", "live"),
    ):
        here = bus.here()
        bus.subscribe("sensor", lambda _: None)
        bus.register("reader").subscribe("result", arrive, capacity=100_000)
        sensor = bus.register("sensor")
        stream = spark.readStream.format("queuebroker").options(
            view="messages", subscribe="sensor"
        )
        rows = stream.load(str(folder / "journals")).selectExpr(
            "CAST(value AS STRING) AS value", "'result' AS topic"
        )
        query = (
            rows.writeStream.format("queuebroker")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start(str(folder / "spool"))
        )
        count = (_WARM_UP_S + _LIVE_S) * _LIVE_HZ
        begin = perf_counter()
        for number in range(count):
            sensor.notify(monotonic_ns())
            while (wait := begin + number / _LIVE_HZ - perf_counter()) > 0:
                here.poll(wait)
        while len(delays) < count and query.isActive:
            here.poll(0.1)
        query.stop()
    spark.stop()
    if len(delays) != count:
        raise RuntimeError(f"{len(delays)} of {count} notifications came back")
    quantiles = statistics.quantiles(delays[_WARM_UP_S * _LIVE_HZ :], n=100)
    return {"p50": quantiles[49], "p99": quantiles[98]}


def _recording(seconds: float, *, payloads: bool) -> Values:
    """Send commands within a thread; return their rate and the time of each."""
    received: list[bytes] = []
    with (
        tempfile.TemporaryDirectory(prefix="journal-") as folder,
        Journal(folder, payloads=payloads) as journal,
        open_bus("recorded", journal=journal) as bus,
    ):
        here = bus.here()
        bus.register(
            "sink",
            thread=here,
            on_command=lambda message: received.append(message.payload),
        )
        source = bus.register("source", thread=here)
        begin, cpu = perf_counter(), thread_time()
        count = 0
        while (took := perf_counter() - begin) < seconds:
            for _ in repeat(None, 64):
                source.command("sink", _BODY)
            while here.poll():
                pass
            count += 64
            received.clear()
        path = (thread_time() - cpu) / count * 1e6
        if journal.lost:
            raise AssertionError(f"the journal lost {journal.lost} records")
    return {"value": count / took, "path": path}


def _replayed(count: int) -> Values:
    """Replay notifications at full rate to a subscriber in another process."""
    folder = _folder() / "replayed"
    with (
        Journal(folder, payloads=True) as journal,
        open_bus("source", journal=journal) as bus,
    ):
        bus.subscribe("sensor", lambda _: None)
        sensor = bus.register("sensor")
        here = bus.here()
        for number in range(count):
            sensor.notify(_BODY)
            if number % 512 == 0:
                here.poll()
    got = 0

    def arrive(_: Incoming) -> None:
        nonlocal got
        got += 1

    with open_bus("replay") as bus:
        bus.register("reader").subscribe("sensor", arrive, capacity=100_000)
        here = bus.here()
        replay = ("replay", str(folder), "--rate", "max", "--bus", "replay", "--json")
        with _program(*replay) as program:
            while program.poll() is None:
                here.poll(0.05)
            assert program.stdout is not None
            facts = json.loads(program.stdout.read())
        while here.poll():
            pass
    if got != count:
        raise RuntimeError(f"{got} of {count} notifications arrived")
    return {"value": count / facts["seconds"]}


@contextmanager
def _program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``bus`` with some arguments, until the end of the block."""
    with subprocess.Popen(
        [*_BUS, *arguments], stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            yield program
        finally:
            program.terminate()
