"""The job of a worker process: it arrives whole, or not at all."""

from __future__ import annotations

import io
import os
from pathlib import Path

from bus.demo.files import FileList
from bus.demo.worker_group import Part
from bus.demo.worker_process import Job

ODD = os.fsdecode(b"caf\xe9")  # not UTF-8
PART = Part("worker/7", dies=True, from_file=2, after_s=1.5)


def _written() -> bytes:
    files = FileList(Path("/root of it"), "files", ("one", ODD))
    pipe = io.BytesIO()
    Job.of(PART, files, Path("/journals"), "ipc:///there", 2**62 - 1).write(pipe)
    return pipe.getvalue()


def test_a_job_is_read_as_it_was_written() -> None:
    job = Job.read(io.BytesIO(_written()))

    assert job is not None
    assert job.part == PART
    assert (job.journals, job.address) == (b"/journals", "ipc:///there")
    assert job.channel == 2**62 - 1
    assert (job.files.root, job.files.paths) == (Path("/root of it"), ("one", ODD))


def test_bytes_after_a_job_are_left_in_the_pipe() -> None:
    pipe = io.BytesIO(_written() + b"more")

    assert Job.read(pipe) is not None
    assert pipe.read() == b"more"


def test_half_a_job_is_none() -> None:
    whole = _written()

    halves = [Job.read(io.BytesIO(whole[:size])) for size in range(len(whole))]

    assert halves == [None] * len(whole)
