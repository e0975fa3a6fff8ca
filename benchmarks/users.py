"""Suite ``users``: the bus as the README teaches it, with default settings.

U1 calls with dicts a task of another process, beside REQ and REP of pyzmq with JSON: a
hundred a second, 500 a second, one after another. U2 sends a thousand notifications a
second to subscribers in two processes, beside PUB and SUB. Processor time is that of
all processes of a job, without their start and end.

Each job runs in processes of its own, all of them this file run as a program. The near
process measures: ``python -m benchmarks.users near CONTESTANT JOB SCALE FOLDER``. It
starts the others, which share the folder and print a line when they are ready.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from time import clock_gettime, monotonic_ns, perf_counter, perf_counter_ns, sleep
from typing import TYPE_CHECKING, Any, Final

from benchmarks.condition import BUSY, possible
from benchmarks.contest import Contest, Runs
from benchmarks.figure import OURS
from benchmarks.program import command, run_program, start_program
from bus import open_bus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.condition import Condition
    from benchmarks.suites import Effort

try:
    import zmq
except ModuleNotFoundError:
    _MISSING: list[str] = ["pyzmq is not installed: left out"]
    _RIVALS: list[str] = []
else:
    _MISSING, _RIVALS = [], ["pyzmq"]

__all__ = ["run_job", "suite"]

_MODULE: Final = "benchmarks.users"
_LIMIT_S: Final = 60.0
# Calls a second, None for one after another; and how many of them in a full run.
_PACES: Final = {"100/s": (100, 300), "500/s": (500, 1000), "unpaced": (None, 4000)}
_STREAM_HZ: Final = 1000
_STREAM: Final = 5000
_SUBSCRIBERS: Final = ("one", "two")
_CALL_MUSTS: Final = {"p50": 1.0, "p99": 1.5, "CPU": 1.5}
_STREAM_MUSTS: Final = {"p50": 1.5, "p99": 2.0, "CPU": 2.0}

_Measured = list[float]  # the 50th and 99th percentile, and processor time, in us


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of both figures."""
    conditions, left_out = possible(quick=effort.is_quick)
    contests: list[Contest] = []
    for condition in conditions:
        if condition is not BUSY:
            contests += _contests("U1", "call", _PACES, _CALL_MUSTS, effort, condition)
            contests += _contests(
                "U2", "stream", ("1 kHz to two",), _STREAM_MUSTS, effort, condition
            )
    return contests, [*_MISSING, *left_out]


def _contests(
    figure: str,
    job: str,
    cases: Any,
    musts: dict[str, float],
    effort: Effort,
    condition: Condition,
) -> list[Contest]:
    ours, *others = (
        Runs(partial(run_job, name, job, effort.scale, condition))
        for name in (OURS, *_RIVALS)
    )
    return [
        Contest(
            *(figure, f"{case} {what} {condition.name}", "us", "lower"),
            ours.measure(which),
            {
                name: runs.measure(which)
                for name, runs in zip(_RIVALS, others, strict=True)
            },
            {"pyzmq": musts[what]},
        )
        for which, (case, what) in enumerate(
            (case, what) for case in cases for what in musts
        )
    ]


def run_job(name: str, job: str, scale: float, condition: Condition) -> list[float]:
    """Run a job with a contestant; return its figures in microseconds.

    Returns: the 50th and 99th percentile of the delay and the processor time of all
    processes for each message, for "call" at each pace.

    Raises:
        RuntimeError: the job failed, or was not done in time; names contestant and job.
    """
    with (
        # A short prefix, since the path of a socket must be short.
        tempfile.TemporaryDirectory(prefix="qb-") as folder,
        condition.imposed(),
    ):
        arguments = command(_MODULE, "near", name, job, scale, folder)
        return run_program(f"{name}, {job}", arguments, _LIMIT_S)


# The near process, which measures.


def _measure_calls(name: str, scale: float, folder: str) -> list[float]:
    measured: list[float] = []
    with (
        _other("server", name, folder) as server,
        closing(_CALLERS[name](folder)) as caller,
    ):
        ask = caller.send
        for hz, full in _PACES.values():
            count = max(1, int(full * scale))
            delays_ns = []
            before, start = _processor_s(server), perf_counter()
            for number in range(count):
                begin = perf_counter_ns()
                ask({"a": number})
                delays_ns.append(perf_counter_ns() - begin)
                if hz:
                    sleep(max(0.0, start + (number + 1) / hz - perf_counter()))
            used_s = _processor_s(server) - before
            measured += [*_percentiles_us(delays_ns), used_s / count * 1e6]
        ask(None)
    return measured


def _measure_stream(name: str, scale: float, folder: str) -> list[float]:
    count = int(_STREAM * scale)
    with ExitStack() as stack:
        publisher = stack.enter_context(closing(_PUBLISHERS[name](folder)))
        send = publisher.send
        readers = [
            stack.enter_context(_other(role, name, folder, send))
            for role in _SUBSCRIBERS
        ]
        before, start = _processor_s(*readers), perf_counter()
        for number in range(count):
            send({"n": number, "t": monotonic_ns(), "v": number % 50})
            sleep(max(0.0, start + (number + 1) / _STREAM_HZ - perf_counter()))
        send(None)
        results = [_line(reader) for reader in readers]
        used_s = _processor_s(*readers) - before
        for reader in readers:
            reader.communicate("ended\n")
    lost = [count - got for *_, got in results]
    if any(lost):
        print(f"{name}: {lost} of {count} messages were lost", file=sys.stderr)
    return [
        statistics.mean(p50 for p50, _, _ in results),
        statistics.mean(p99 for _, p99, _ in results),
        used_s / count * 1e6,
    ]


@contextmanager
def _other(
    role: str, name: str, folder: str, probe: Callable[[Any], object] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start another process of the job; yield it when it is ready.

    probe: sends a message, which the other process awaits; called until it has one.
    """
    with start_program(command(_MODULE, role, name, folder)) as process:
        assert process.stdout is not None
        try:
            while not select.select([process.stdout], [], [], 0.05)[0]:
                if probe is not None:
                    probe({"n": -1})
            _line(process)
            yield process
        except BaseException:
            process.kill()
            raise


def _line(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def _processor_s(*others: subprocess.Popen[str]) -> float:
    """Return the processor time of this process and of others, in seconds."""
    # Linux numbers the clock of a process so; bits 0 to 2 choose the scheduler's clock.
    clocks = [(~pid << 3) | 2 for pid in (os.getpid(), *(each.pid for each in others))]
    return sum(map(clock_gettime, clocks))


def _percentiles_us(delays_ns: list[int]) -> list[float]:
    parts = statistics.quantiles(delays_ns, n=100)
    return [parts[49] / 1e3, parts[98] / 1e3]


# The contestants: those that send have `send` and `close`.


class _BusCaller:
    def __init__(self, _: str) -> None:
        self._bus = open_bus("pair", process="client")
        self._bus.wait_for("echo", timeout=20)
        self.send = partial(self._bus.call, "echo")
        self.close = self._bus.close


class _BusPublisher:
    def __init__(self, _: str) -> None:
        self._bus = open_bus("plant", process="sensor")
        self.send = self._bus.register("sensor").notify
        self.close = self._bus.close


def _bus_server(_: str) -> None:
    done = threading.Event()
    with open_bus("pair", process="server") as bus:

        @bus.task("echo")
        def echo(message: Any) -> Any:
            if message.payload is None:
                done.set()
            return message.payload

        _say(True)
        done.wait()


def _bus_reader(role: str, _: str) -> None:
    reader = _Reader()
    with open_bus("plant", process=role) as bus:
        bus.register(role).subscribe(
            "sensor", lambda message: reader.take(message.payload)
        )
        reader.done.wait()


def _zmq_socket(kind: int, folder: str, *, binds: bool) -> Any:
    socket: Any = zmq.Context.instance().socket(kind)
    socket.set_hwm(100_000)
    (socket.bind if binds else socket.connect)(f"ipc://{folder}/zmq")
    return socket


class _ZmqCaller:
    def __init__(self, folder: str) -> None:
        self._socket = _zmq_socket(zmq.REQ, folder, binds=False)
        self.close = self._socket.close

    def send(self, value: Any) -> Any:
        self._socket.send_json(value)
        return self._socket.recv_json()


class _ZmqPublisher:
    def __init__(self, folder: str) -> None:
        socket = _zmq_socket(zmq.PUB, folder, binds=True)
        self.send = socket.send_json
        self.close = socket.close


def _zmq_server(folder: str) -> None:
    socket = _zmq_socket(zmq.REP, folder, binds=True)
    _say(True)
    while (message := socket.recv_json()) is not None:
        socket.send_json(message)
    socket.send_json(None)


def _zmq_reader(_: str, folder: str) -> None:
    socket = _zmq_socket(zmq.SUB, folder, binds=False)
    socket.subscribe(b"")
    reader = _Reader()
    while not reader.done.is_set():
        reader.take(socket.recv_json())


class _Reader:
    """The delays of a subscriber, from the stamp of a message until its arrival."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self._delays_ns: list[int] = []
        self._probed = False

    def take(self, payload: Any) -> None:
        if payload is None:
            _say([*_percentiles_us(self._delays_ns), len(self._delays_ns)])
            sys.stdin.readline()  # until the processor time has been read
            self.done.set()
        elif payload["n"] >= 0:
            self._delays_ns.append(monotonic_ns() - payload["t"])
        elif not self._probed:
            self._probed = True
            _say(True)


def _say(value: object) -> None:
    print(json.dumps(value), flush=True)


_CALLERS: Final[dict[str, Any]] = {OURS: _BusCaller, "pyzmq": _ZmqCaller}
_PUBLISHERS: Final[dict[str, Any]] = {OURS: _BusPublisher, "pyzmq": _ZmqPublisher}
_SERVERS: Final = {OURS: _bus_server, "pyzmq": _zmq_server}
_READERS: Final = {OURS: _bus_reader, "pyzmq": _zmq_reader}
_JOBS: Final = {"call": _measure_calls, "stream": _measure_stream}


def _main(role: str, name: str, *rest: str) -> None:
    folder = rest[-1]
    os.environ["BUS_RUN_DIR"] = str(Path(folder, "run"))
    if role == "near":
        print(*_JOBS[rest[0]](name, float(rest[1]), folder))
    elif role == "server":
        _SERVERS[name](folder)
    else:
        _READERS[name](role, folder)


if __name__ == "__main__":
    _main(*sys.argv[1:])
