"""`Job`: the work of a worker process, which its parent writes to its stdin first."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import IO, Final

import msgspec

from bus.demo.files import FileList
from bus.demo.worker_group import Part  # read by `msgspec`

__all__ = ["Job"]

_LENGTH: Final = struct.Struct("<Q")


class Job(msgspec.Struct, frozen=True):
    """The job of one worker.

    journals: the folder it records in. address, channel: of its queue to the collector.
    root, paths: the list of files, as the system encodes their names.
    network: the file with the network of its machine; None if there is only one.
    """

    part: Part
    journals: bytes
    address: str
    channel: int
    root: bytes
    paths: list[bytes]
    network: bytes | None

    @classmethod
    def of(
        cls,
        part: Part,
        files: FileList,
        journals: Path,
        address: str,
        channel: int,
        network: Path | None = None,
    ) -> Job:
        """Build the job of a worker."""
        return cls(
            part,
            os.fsencode(journals.absolute()),
            address,
            channel,
            os.fsencode(files.root.absolute()),
            [os.fsencode(path) for path in files.paths],
            None if network is None else os.fsencode(network),
        )

    @property
    def files(self) -> FileList:
        """The same list as in all other processes."""
        paths = tuple(map(os.fsdecode, self.paths))
        return FileList(Path(os.fsdecode(self.root)), "", paths)

    def write(self, pipe: IO[bytes]) -> None:
        """Send the job to its worker process.

        Raises:
            BrokenPipeError: the process does not read any more.
        """
        data = msgspec.msgpack.encode(self)
        pipe.write(_LENGTH.pack(len(data)) + data)
        pipe.flush()

    @classmethod
    def read(cls, pipe: IO[bytes]) -> Job | None:
        """Receive a job; None if the parent ended before it sent one."""
        head = pipe.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(head)
        data = pipe.read(length)
        return None if len(data) < length else msgspec.msgpack.decode(data, type=cls)
