"""A process with one worker: ``python -m bus.demo.worker_process``.

It reads its `Job` from stdin, and ends at the end of stdin: then its parent has closed
the pipe, or has ended itself.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
from pathlib import Path
from typing import IO, Final

import msgspec

from bus.api.membership import open_bus
from bus.demo.collector import CONTENT
from bus.demo.files import FileList
from bus.demo.machines import impatient, tls_of
from bus.demo.recorded_queue import RecordedConnector
from bus.demo.worker import Worker
from bus.demo.worker_group import BUS, Part  # `Part` is read by `msgspec`
from bus.features.machines.network import Network
from bus.journal.writer import Journal
from bus.model.config import BusConfig
from bus.model.registration import Role
from queuebroker import BrokerManager
from queuebroker.sockets import SocketQueueBroker

__all__ = ["Job", "main"]

# No delay: the lister must know at once which of its files were begun.
_CONFIG: Final = BusConfig(ack_delay_s=0.0)
_LENGTH: Final = struct.Struct("<Q")


class Job(msgspec.Struct, frozen=True):
    """The job of one worker, which its parent writes to its stdin first.

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


def main(pipe: IO[bytes]) -> None:
    """Work until the pipe ends."""
    job = Job.read(pipe)
    if job is None:
        return
    part, manager = job.part, BrokerManager()
    name = part.name.replace("/", "-")  # of the process on the bus
    network, config, tls = None, _CONFIG, None
    if job.network is not None:
        # On the terminal of both machines: a warning must say from which of them it is.
        logging.basicConfig(format=f"{part.machine}/{name}: %(message)s")
        network, config = Network.read(os.fsdecode(job.network)), impatient(_CONFIG)
        tls = tls_of(network)
    with (
        Journal(Path(os.fsdecode(job.journals)), machine=part.machine) as journal,
        open_bus(
            BUS,
            role=Role.MASTER if part.is_master else Role.SLAVE,
            process=name,
            machine=part.machine,
            config=config,
            network=network,
            journal=journal,
        ) as bus,
        SocketQueueBroker(
            part.name, tls=tls, manager=manager, strict_half=True
        ) as broker,
    ):
        try:
            own = RecordedConnector(broker, journal, job.channel)
            worker = Worker(
                own,
                job.files,
                leaves=part.leaves,
                dies=part.dies,
                from_file=part.from_file,
                after_s=part.after_s,
            )
            worker.connect(job.address, CONTENT)
            worker.register(bus, bus.thread(part.name))
            pipe.read()
        finally:
            # Stops a worker that is still busy: no task waits for its file.
            manager.close(disconnect=True)


if __name__ == "__main__":
    main(sys.stdin.buffer)
