"""A standalone Spark cluster on the loopback address: one Master, some Workers."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Cluster", "standalone"]

START_S: Final = 60.0
END_S: Final = 10.0
HOST: Final = "127.0.0.1"

_CLASS: Final = "org.apache.spark.deploy"
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_JOINED: Final = "Successfully registered with master"


@attrs.frozen
class Cluster:
    """A running cluster.

    url: the master, as `--master` takes it.
    workers: each one runs its executors below its own directory.
    """

    url: str
    workers: tuple[_Daemon, ...]

    def kill_worker(self) -> None:
        """Kill the first worker, with its executors."""
        self.workers[0].kill()


@contextlib.contextmanager
def standalone(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Run a cluster until the end of the block; each worker has one core.

    folder: for the logs, and for what workers and executors write.

    Raises:
        RuntimeError: a daemon ended or did not report within `START_S`; the message
          quotes the end of its log.
    """
    with contextlib.ExitStack() as stack:

        def daemon(name: str, *arguments: str) -> _Daemon:
            started = _Daemon.start(folder / name, *arguments)
            stack.callback(started.end)
            return started

        where = ("--host", HOST, "--port", "0", "--webui-port", "0")
        master = daemon("master", f"{_CLASS}.master.Master", *where)
        url = master.wait_for(_MASTER)[1]
        names = [f"worker-{number}" for number in range(1, workers + 1)]
        size = ("--cores", "1", "--memory", "1g")
        started = [
            daemon(
                *(name, f"{_CLASS}.worker.Worker", *where, *size),
                *("--work-dir", str(folder / name), url),
            )
            for name in names
        ]
        for worker in started:
            worker.wait_for(re.compile(_JOINED))
        yield Cluster(url, tuple(started))


@attrs.frozen
class _Daemon:
    """One process of the cluster."""

    log: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, folder: Path, *arguments: str) -> _Daemon:
        """Start a class of Spark in a folder of its own."""
        folder.mkdir(parents=True)
        home = Path(pyspark.__file__).parent
        settings = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
        }
        # A worker passes its environment on to its executors: the driver's variables
        # must not reach them.
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYSPARK_", "PYTHONPATH"))
        }
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments],
                cwd=folder,
                env=inherited | settings,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return cls(log, process)

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Wait until the log holds a text."""
        deadline = time.monotonic() + START_S
        while not (found := pattern.search(self.text)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                state = "ended" if self.process.poll() is not None else "is silent"
                msg = f"{self.log.parent.name} {state}: {self.text[-2000:]}"
                raise RuntimeError(msg)
            time.sleep(0.1)
        return found

    @property
    def text(self) -> str:
        """The log so far."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill it, with the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """End it, and wait: a worker ends its executors first."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        self.kill()
