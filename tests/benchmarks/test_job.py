"""Jobs in processes of their own: each ends, loses nothing, or is named."""

from __future__ import annotations

import os
import select
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from benchmarks import job, rivals, tally
from benchmarks.hops import files_of, measure
from benchmarks.job import Job, run_job
from benchmarks.tally import CREDIT, DONE, END, HERE, PROBE, Tally
from benchmarks.threads import stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.threads import Link


@pytest.mark.deep
@pytest.mark.parametrize(
    ("file", "given"),
    [
        ("our_queue", Job("stream", "pair", 0.05)),
        ("connection", Job("echo", "pair", 0.05, cores=1)),
        ("bare", Job("stream", "publish", 0.05, size=4096, receivers=2, reads=True)),
    ],
    ids=["our_queue", "connection", "bare"],
)
def test_a_job_ends_and_its_values_are_named(file: str, given: Job) -> None:
    values = run_job(file, given)

    times = {"p50", "p90", "p99", "CPU", "CPU near", "CPU far"}
    assert {*values} == (times if given.act == "echo" else {"value"})
    assert min(values.values()) > 0


@pytest.mark.skipif(
    not hasattr(os, "killpg"), reason="needs groups of processes, which Windows lacks"
)
def test_a_contestant_that_hangs_is_ended_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job, "_LIMIT_S", -99.9)

    with pytest.raises(RuntimeError, match=r"^our_queue, stream .*: not done after 0"):
        run_job("our_queue", Job("stream", "pair", 100))


def test_a_contestant_that_fails_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """The output of the contestant comes first."""
    with pytest.raises(RuntimeError, match=r"^nobody, echo .* ended with exit code 1"):
        run_job("nobody", Job("echo", "push", 0.05))
    assert "nobody" in capfd.readouterr().err


def test_percentiles_are_those_of_the_values() -> None:
    values = [float(number) for number in range(1, 100)]

    assert job._percentiles(values) == {"p50": 50.0, "p90": 90.0, "p99": 99.0}


def test_processor_time_is_that_of_one_message_in_us() -> None:
    used = job._used(0.5, 0.25, count=1000)

    assert used == {"CPU": 750.0, "CPU near": 500.0, "CPU far": 250.0}


class _Receivers(job._Receivers):
    """Receivers that have acknowledged some batches, and give no sign any more."""

    def __init__(self, given: Job, *batches: int) -> None:
        self._job = given  # type: ignore[misc]
        self._all = [_Silent(each) for each in batches]  # type: ignore[misc]


class _Silent(job._Receiver):
    def __init__(self, batches: int) -> None:
        self.credits, self.pipe = batches, 0

    def read(self) -> bool:
        return False


def test_a_message_that_one_receiver_lacks_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(select, "select", lambda *_: ([], [], []))
    receivers = _Receivers(Job("stream", "publish", 1, size=1 << 20), 9, 7)

    receivers.wait_for(7)
    with pytest.raises(RuntimeError, match="2 of 9 messages were not delivered"):
        receivers.wait_for(9)


def _tally(monkeypatch: pytest.MonkeyPatch, given: Job) -> tuple[Tally, list[bytes]]:
    """Return a tally and its signs."""
    signs: list[bytes] = []
    monkeypatch.setattr(os, "dup", lambda _: 1)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    monkeypatch.setattr(Tally, "_sign", lambda _, sign: signs.append(sign))
    return Tally(given, 0), signs


@pytest.mark.parametrize("plain", [True, False])
def test_each_batch_is_acknowledged_and_the_end_is_no_message(
    plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Job("stream", "pair", 1, size=1 << 18)
    made, signs = _tally(monkeypatch, given)
    batch = [bytes(given.size)] * given.batch
    messages = iter([PROBE, *batch, *batch, END])

    made.loop(lambda: next(messages), plain=plain)

    assert given.batch == 2
    assert signs == [HERE, CREDIT, CREDIT, DONE]
    assert made.done


def test_the_delay_of_a_stamped_value_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tally, "monotonic_ns", lambda: 1_700)
    given = Job("paced", "publish", 1, hz=2, values=True, folder=str(tmp_path))
    made, signs = _tally(monkeypatch, given)

    for value in ({}, {"t": 1_000}, {"t": 1_500}, None):
        made.take_value(value)

    assert signs == [HERE, CREDIT, DONE]
    assert _Receivers(given).delays_us() == [0.7, 0.2]


def test_between_threads_no_message_is_left_out_and_lost_bytes_are_noticed() -> None:
    received: list[bytes] = []
    cut = 0

    @contextmanager
    def counting(_: int) -> Iterator[Link]:
        there: SimpleQueue[bytes] = SimpleQueue()

        def receive() -> bytes:
            received.append(there.get()[cut:])
            return received[-1]

        yield (there.put, receive), (there.put, receive)

    stream(counting, workers=4)(10)
    # Ten is not divisible by four: each of the four does three.
    assert received == [bytes(64)] * 12
    cut = 1
    with pytest.raises(AssertionError, match="64 bytes were sent, 63 came"):
        stream(counting)(3)


def test_a_rival_that_is_not_installed_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {"nats": object()}.get
    monkeypatch.setattr("benchmarks.rivals.importlib.util.find_spec", found)
    monkeypatch.setenv("PATH", "")

    names, missing = rivals.found("our_bus", "pyzmq", "nats", "connection")

    assert [*names] == ["ours", "multiprocessing.connection"]
    assert missing == [
        "pyzmq is not installed: pyzmq left out",
        "nats-server is not installed: nats left out",
    ]


@pytest.mark.deep
def test_a_lone_command_passes_no_comm_thread() -> None:
    """With both comm threads its way is 271 calls in 64 files."""
    near, far = measure()
    if len(near + far) > 170:  # a deadline of the comm thread may have passed meanwhile
        near, far = measure()

    assert "bus/api/task.py:Task.command" in near
    assert "queuebroker/sockets/queue.py:SocketMessageQueue.send" in near
    assert "bus/api/receiver.py:Receiver.handle" in far
    assert len(near + far) <= 170
    assert len(files_of(near + far)) <= 55
