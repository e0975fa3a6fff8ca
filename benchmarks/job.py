"""One job in processes of its own: ``python -m benchmarks.job near FILE JOB``.

The near process sends and measures. It starts the far ones, each of which receives:
``python -m benchmarks.job far FILE JOB NUMBER``. Both import a contestant, a module of
`benchmarks.rivals` with two functions:

``far(job, tally)``: listens, calls `Tally.ready`, passes each message to the tally,
  answers those of an "echo", and calls `Tally.finish` before it closes.
``near(job)``: returns the `Sender`. All receivers listen by then.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import repeat
from pathlib import Path
from time import monotonic, monotonic_ns, perf_counter, perf_counter_ns, sleep
from typing import Any, Final, Self

import attrs

from benchmarks.contest import Contest, Row, Values
from benchmarks.tally import CREDIT, DONE, END, HERE, PROBE, READY, Tally
from queuebroker import _net

__all__ = [
    "CAPACITY",
    "Job",
    "Sender",
    "contest",
    "possible_cores",
    "refusal",
    "run_job",
    "start_program",
]

# In messages, of each queue that has a bound.
CAPACITY: Final = 1024

_LIMIT_S: Final = 60.0  # beyond the duration of the job: one of its processes hangs
_START_S: Final = 30.0
_STALL_S: Final = 10.0
_END_S: Final = 5.0
_PROBE_AGAIN_S: Final = 0.005
_OUTSTANDING_BYTES: Final = 8 << 20
_OUTSTANDING_MIN: Final = 4  # messages
_CREDITS_IN_A_WINDOW: Final = 16
_TRIPS_MIN: Final = 10  # of a job, however short
_HOSTS: Final = ("10.0.0.1", "10.0.0.2")  # of the near and the far namespace


@attrs.frozen
class Job:
    """One job, as all its processes know it.

    act: "stream", one way; "bulk", the same by calls that take several messages;
      "echo", there and back; "paced", one way at a pace, with a stamp in each message.
    way: "pair", a connection of two ends; "push", to a task or worker; "publish", to
      all subscribers; "mesh", to all other nodes.
    seconds: the duration.
    size: the length of a message in bytes, at least 64.
    reads: True if each receiver reads all bytes of each message.
    medium: "unix" sockets, "tcp" by the loopback interface, "tls" between two network
      namespaces.
    values: True if the messages are dicts, as a user writes them, and not bytes.
    hz: messages a second, 0 for no pace.
    cores: the number of processors, 0 for all.
    horizons: how a durable receiver keeps them, "step" or "log".
    folder, ports, namespace: set by `run_job`; the far side's port and namespace, and a
      port for the near side.
    """

    act: str
    way: str
    seconds: float
    size: int = 64
    receivers: int = 1
    reads: bool = False
    medium: str = "unix"
    values: bool = False
    hz: float = 0
    cores: int = 0
    horizons: str = ""
    folder: str = ""
    ports: Sequence[int] = (0, 0)
    namespace: str = ""

    @property
    def window(self) -> int:
        """How many messages fit between the sender and the slowest receiver.

        A power of two, since some libraries want that of their buffers.
        """
        room = max(_OUTSTANDING_MIN, _OUTSTANDING_BYTES // self.size)
        return min(CAPACITY, room)

    @property
    def batch(self) -> int:
        """The number of messages that a receiver acknowledges together."""
        if self.act == "paced":
            return max(2, int(self.hz * self.seconds))
        return max(1, self.window // _CREDITS_IN_A_WINDOW)

    @property
    def is_lossy(self) -> bool:
        """True if a sender that is too fast loses messages; then the window holds."""
        return self.way in {"publish", "mesh"}

    def host(self, side: str = "far") -> str:
        """Return the IP address of the machine "near" or "far"."""
        return _HOSTS[side == "far"] if self.medium == "tls" else "127.0.0.1"

    def address(self, number: int = 0) -> str:
        """Return the address at which a receiver listens."""
        if self.medium == "unix":
            return f"ipc://{self.folder}/{number}"
        return f"tcp://{self.host()}:{self.ports[0]}"

    def keys(self, side: str) -> Path:
        """Return the folder of keys of the machine "near" or "far"."""
        return Path(self.folder, f"{side}.keys")


@attrs.frozen
class Sender:
    """The sending side of a contestant.

    send: sends one message. ask: sends one, and waits until it comes back.
    stream: sends batches of messages until a time of `perf_counter`; returns their
      number. trips: asks until then; returns the duration of each in ns. Both only if
      the loops of this module would be slower.
    """

    send: Callable[[Any], object]
    close: Callable[[], object]
    ask: Callable[[Any], object] | None = None
    stream: Callable[[bytes, float], int] | None = None
    trips: Callable[[bytes, float], list[int]] | None = None


def run_job(file: str, job: Job) -> Values:
    """Run a job with the contestant of a file.

    Returns: for "stream" and "bulk" the messages a second, as "value". For "paced" and
    "echo" percentiles of the delays or round trips, "p50", "p90" and "p99", and the
    processor time for each, of all processes "CPU", of either side "CPU near" and "CPU
    far". All times are in us.

    Raises:
        RuntimeError: the job failed, or was not done in time; names contestant and job.
        OSError: the system refuses network namespaces.
    """
    # A short prefix, since the path of a socket must be short. The folder belongs to
    # this process, so that it goes away even if the others are killed.
    with (
        tempfile.TemporaryDirectory(prefix="qb-", ignore_cleanup_errors=True) as folder,
        _machines(job) as (near, far),
    ):
        job = attrs.evolve(job, folder=folder, ports=_free_ports(), namespace=far)
        if job.medium == "tls":
            _make_keys(job)
        what = f"{file}, {job.act} of {job.size} bytes by {job.way} over {job.medium}"
        return _run_program(what, _command(near, "near", file, job), job.seconds)


def contest(rows: Sequence[Row], names: Mapping[str, str], job: Job) -> Contest:
    """Return the contest of one job.

    names: the file of each contestant by its name.
    """
    measures = {name: partial(run_job, file, job) for name, file in names.items()}
    return Contest(rows, measures)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _make_keys(job: Job) -> None:
    # Imported here, since the other jobs need no package to make keys.
    from bus.features.machines.authority import Authority  # noqa: PLC0415

    authority = Authority.create(Path(job.folder, "authority"))
    for side in ("near", "far"):
        authority.issue(side, job.keys(side))


def _command(namespace: str, side: str, file: str, job: Job, *rest: int) -> list[str]:
    inside = ["ip", "netns", "exec", namespace] if namespace else []
    text = json.dumps(attrs.asdict(job))
    program = [sys.executable, "-m", "benchmarks.job", side, file, text]
    return [*inside, *program, *map(str, rest)]


def start_program(arguments: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program that can import the benchmarks, with pipes to and from it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        arguments, env=environment, stdin=pipe, stdout=pipe, **options
    )


def _run_program(what: str, arguments: list[str], seconds: float) -> Values:
    limit_s = seconds + _LIMIT_S
    # A new session, to kill it together with its children.
    with start_program(arguments, start_new_session=True) as process:
        try:
            answer, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{what}: not done after {limit_s:g} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise RuntimeError(f"{what}: ended with exit code {process.returncode}")
    values: Values = json.loads(answer.splitlines()[-1])  # a library may print, too
    return values


# Two machines.


@contextmanager
def _machines(job: Job) -> Iterator[tuple[str, str]]:
    """Make two network namespaces if the job needs them; yield their names.

    They are joined by a veth pair. Processes that are still in them after the block are
    killed.

    Raises:
        OSError: the system refuses; the text has the command and its error.
    """
    if job.medium != "tls":
        yield "", ""
        return
    names = [f"qb-{side}-{os.getpid()}" for side in ("near", "far")]
    made: list[str] = []
    try:
        for name in names:
            _ip("netns", "add", name)
            made.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
        # Made inside, so that the pair never exists outside and ends with them.
        pair = ("veth0", "type", "veth", "peer", "name", "veth0", "netns", names[1])
        _ip("-n", names[0], "link", "add", *pair)
        for name, address in zip(names, _HOSTS, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "veth0")
            _ip("-n", name, "link", "set", "veth0", "up")
        yield names[0], names[1]
    finally:
        for name in made:
            for process in _ip("netns", "pids", name).split():
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            _ip("netns", "delete", name)


def _ip(*arguments: str) -> str:
    command = ["ip", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def refusal() -> str:
    """Return why this process cannot make namespaces; empty if it can."""
    try:
        with _machines(Job("echo", "push", 0, medium="tls")):
            return ""
    except OSError as error:
        return str(error)


def possible_cores(*, quick: bool = False) -> tuple[dict[int, str], list[str]]:
    """Return the numbers of processors to measure with, and a line for each other one.

    quick: at most one.
    """
    names = {2: "two cores", 1: "one core"}
    if not hasattr(os, "sched_setaffinity"):
        return {2: names[2]}, ["one core left out: no choice of processors here"]
    if _net.processors() > 1:
        return ({2: names[2]} if quick else names), []
    return {1: names[1]}, ["two cores left out: this process may use one processor"]


# The near process.


@attrs.define
class _Receiver:
    """A far process, and the signs that it has given; see `Tally`."""

    process: subprocess.Popen[bytes]
    pipe: int
    credits: int = 0
    signs: bytes = b""

    @classmethod
    def started(cls, arguments: list[str]) -> _Receiver:
        process = start_program(arguments)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return cls(process, process.stdout.fileno())

    def read(self) -> bool:
        """Read the signs that are in the pipe; False if none is.

        Raises:
            RuntimeError: the receiver has ended.
        """
        try:
            signs = os.read(self.pipe, 4096)
        except BlockingIOError:
            return False
        if not signs:
            raise RuntimeError("a receiver ended before the job")
        self.credits += signs.count(CREDIT)
        self.signs = (self.signs + signs.replace(CREDIT, b""))[-4:]
        return True


class _Receivers:
    """The far processes of one job, which end with the block."""

    def __init__(self, file: str, job: Job) -> None:
        self._job: Final = job
        self._all: Final = [
            _Receiver.started(_command(job.namespace, "far", file, job, number))
            for number in range(job.receivers)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._all:  # so that they end at the same time
            assert each.process.stdin is not None
            each.process.stdin.close()
        for each in self._all:
            try:
                each.process.wait(_END_S)
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()

    def wait_for(self, count: int) -> None:
        """Wait until all receivers have acknowledged that many messages.

        Raises:
            RuntimeError: a receiver acknowledges nothing more: a message is lost.
        """
        batch = self._job.batch
        if not self._wait(lambda each: each.credits * batch >= count, _STALL_S):
            got = min(each.credits for each in self._all) * batch
            raise RuntimeError(f"{count - got} of {count} messages were not delivered")

    def wait_for_sign(
        self, sign: bytes, send: Callable[[], object] = lambda: None
    ) -> None:
        """Wait until each receiver has given a sign.

        send: called at first, and again if a message may be lost.

        Raises:
            RuntimeError: the sign did not come in time.
        """
        again_s = _PROBE_AGAIN_S if self._job.is_lossy else _START_S
        deadline = monotonic() + _START_S
        while monotonic() < deadline:
            send()
            if self._wait(lambda each: sign in each.signs, again_s):
                return
        raise RuntimeError(f"no sign {sign!r} within {_START_S:g} s")

    def _wait(self, is_done: Callable[[_Receiver], bool], limit_s: float) -> bool:
        for each in self._all:
            while not is_done(each):
                if not (each.read() or select.select([each.pipe], [], [], limit_s)[0]):
                    return False
        return True

    def delays_us(self) -> list[float]:
        """Return the delay of each message at each receiver."""
        reports = Path(self._job.folder).glob("delays-*")
        return [ns / 1e3 for each in reports for ns in json.loads(each.read_text())]

    def processor_s(self) -> float:
        """Return the processor time of all receivers, in seconds."""
        return sum(_processor_s(each.process.pid) for each in self._all)


def _processor_s(process: int) -> float:
    """Return the processor time of a process, in seconds."""
    # Linux numbers the clock of a process so; bits 0 to 2 choose the scheduler's clock.
    return time.clock_gettime((~process << 3) | 2)  # missing on Windows


def _percentiles(values: list[float]) -> dict[str, float]:
    """Return the 50th, 90th and 99th percentile."""
    parts = statistics.quantiles(values, n=100)
    return {f"p{percent}": parts[percent - 1] for percent in (50, 90, 99)}


def _used(near_s: float, far_s: float, count: int) -> dict[str, float]:
    """Return the processor time of one message in us."""
    near, far = near_s / count * 1e6, far_s / count * 1e6
    return {"CPU": near + far, "CPU near": near, "CPU far": far}


def _near(file: str, job: Job) -> dict[str, float]:
    """Run a job as its near process."""
    if job.cores and hasattr(os, "sched_setaffinity"):  # of the receivers, too
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.cores])
    probe, end = ({}, None) if job.values else (PROBE, END)
    measure = {"echo": _trips_us, "paced": _paced_us}.get(job.act, _rate)
    with _Receivers(file, job) as receivers:
        receivers.wait_for_sign(READY)
        sender = _contestant(file).near(job)
        try:
            receivers.wait_for_sign(HERE, lambda: sender.send(probe))
            values = measure(job, sender, receivers)
            receivers.wait_for_sign(DONE, lambda: sender.send(end))
        finally:
            sender.close()
        if job.act == "paced":
            values |= _percentiles(receivers.delays_us())
        return values


def _rate(job: Job, sender: Sender, receivers: _Receivers) -> dict[str, float]:
    # Not zeros, which the system may keep in one page.
    message, send = os.urandom(job.size), sender.send
    batch, sent = job.batch, 0
    began = perf_counter()
    end = began + job.seconds
    if sender.stream is not None:
        sent = batch * sender.stream(message, end)
    while perf_counter() < end:
        if job.is_lossy:
            receivers.wait_for(sent + batch - job.window)
        for _ in repeat(None, batch):
            send(message)
        sent += batch
    receivers.wait_for(sent)
    return {"value": sent / (perf_counter() - began)}


def _trips_us(job: Job, sender: Sender, receivers: _Receivers) -> dict[str, float]:
    message: Any = {"a": 1} if job.values else os.urandom(job.size)
    ask, taken_ns = sender.ask, []
    assert ask is not None
    used_s = _processor_s(os.getpid()), receivers.processor_s()
    began = perf_counter()
    end = began + job.seconds
    if sender.trips is not None:
        taken_ns = sender.trips(message, end)
    while len(taken_ns) < _TRIPS_MIN or perf_counter() < end:
        start = perf_counter_ns()
        ask(message)
        taken_ns.append(perf_counter_ns() - start)
        if job.hz:
            sleep(max(0.0, began + len(taken_ns) / job.hz - perf_counter()))
    near_s = _processor_s(os.getpid()) - used_s[0]
    far_s = receivers.processor_s() - used_s[1]
    percentiles = _percentiles([ns / 1e3 for ns in taken_ns])
    return percentiles | _used(near_s, far_s, len(taken_ns))


def _paced_us(job: Job, sender: Sender, receivers: _Receivers) -> dict[str, float]:
    count, send = job.batch, sender.send
    used_s = _processor_s(os.getpid()), receivers.processor_s()
    began = perf_counter()
    for number in range(count):
        send({"n": number, "t": monotonic_ns(), "v": number % 50})
        sleep(max(0.0, began + (number + 1) / job.hz - perf_counter()))
    receivers.wait_for(count)
    near_s = _processor_s(os.getpid()) - used_s[0]
    return _used(near_s, receivers.processor_s() - used_s[1], count)


def _contestant(file: str) -> Any:
    """Return the module of a contestant; only that one is imported."""
    return importlib.import_module(f"benchmarks.rivals.{file}")


def _main(side: str, file: str, text: str, number: str = "") -> None:
    job = Job(**json.loads(text))
    if side == "near":
        print(json.dumps(_near(file, job)))
    else:
        _contestant(file).far(job, Tally(job, int(number)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
