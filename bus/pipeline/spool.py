"""`Spool`: the folder through which a query hands its batches to the gateway.

    <folder>/staged/<query>/<batch>/<token>.arrow    rows, as one task wrote them
    <folder>/ready/<query>.json                      the batch to publish next
    <folder>/claimed/<query>.json                    the last batch that was claimed

Each step is one change of a name, and durable before the next one begins:

* A task stages its rows under a random token. A second attempt of the same task gets a
  token of its own, so that neither can spoil the other.
* The query commits: the batch, with the tokens of the successful tasks, becomes ready,
  unless one of this query is ready. If that one has the same number, the query repeats
  a commit after a crash, and the earlier one holds. Otherwise it waits: so at most one
  batch of a query waits, and a query cannot fill the disk while no gateway runs.
* The gateway claims: the ready batch replaces the claimed one, before its first message
  is published. A batch with a number that was claimed is removed instead.

So a crash of the query loses and repeats nothing, and a crash of the gateway may lose
messages of the claimed batch, but repeats none. This module needs no Spark.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types

from bus.errors import PipelineError
from queuebroker import _files, _sync
from queuebroker.waiting.parking import pause

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Batch", "Spool"]

POLL_S: Final = 0.005
# A query fails if no gateway takes its batch within this time.
WAIT_S: Final = 60.0


@attrs.frozen
class Batch:
    """The rows of one batch of a query.

    query: the id of the query. number: that of the batch in it, from 0.
    tokens: of the staged files, in the order of their partitions.
    """

    query: str
    number: int
    tokens: tuple[str, ...]


@attrs.frozen
class Spool:
    """The folder between queries and a gateway; see the module."""

    path: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Spool:
        """Return the spool in a folder, which is made if it is missing.

        Raises:
            PipelineError: the folder cannot be made or written.
        """
        spool = cls(Path(os.path.abspath(path)))
        try:
            for name in ("staged", "ready", "claimed"):
                (spool.path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"cannot write to {error.filename or path}: {error.strerror}"
            raise PipelineError(msg) from None
        return spool

    # Steps of a query.

    def stage(
        self, query: str, number: int, rows: Iterator[pa.RecordBatch]
    ) -> str | None:
        """Write rows that are not published yet; return their token, None if none."""
        first = next(rows, None)
        if first is None:
            return None
        token = secrets.token_hex(8)
        path = self._staged(query, number) / f"{token}.arrow"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file, pa.ipc.new_stream(file, first.schema) as stream:
            for each in itertools.chain([first], rows):
                stream.write_batch(each)
        _sync_to_disk(path)
        for folder in path.parents[:4]:  # down from the spool
            _files.sync_folder(folder)
        return token

    def discard(self, batch: Batch) -> None:
        """Remove the staged rows of a batch, unless they were handed over.

        Spark aborts a batch also if its commit was killed after that.
        """
        # In this order: the gateway moves the batch from the one to the other.
        for path in self._ready(batch.query), self._claimed(batch.query):
            other = _read(path)
            if other is not None and not set(other.tokens).isdisjoint(batch.tokens):
                return
        for path in self._files(batch):
            path.unlink(missing_ok=True)

    def hand_over(self, batch: Batch) -> None:
        """Let the gateway publish a batch once; the caller may have done so before.

        Returns when the batch is ready, and durable.

        Raises:
            PipelineError: no gateway has taken the batch before this one.
        """
        ready = self._ready(batch.query)
        draft = self.path / "ready" / f".{secrets.token_hex(8)}"
        _write(draft, batch)
        until = _sync.monotonic() + WAIT_S
        try:
            while not _link(draft, ready):
                other = _read(ready)
                if other is not None and other.number >= batch.number:
                    self.discard(batch)
                    return
                if other is not None and _sync.monotonic() >= until:
                    raise PipelineError(
                        f"batch {other.number} of query {batch.query} was not taken"
                        f" from {self.path} within {WAIT_S:g} s: start its gateway,"
                        f" bus pipeline gateway {self.path}, and then the query again"
                    )
                pause(POLL_S)
            _files.sync_folder(ready.parent)
        finally:
            draft.unlink(missing_ok=True)

    # Steps of the gateway.

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other gateways out until the end of the block.

        Raises:
            PipelineError: another gateway has the spool.
        """
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT)
        try:
            try:
                _files.lock(lock)
            except BlockingIOError:
                msg = f"cannot publish from {self.path}: another gateway does so"
                raise PipelineError(f"{msg}; stop it, or name another folder") from None
            yield
        finally:
            os.close(lock)

    def ready(self) -> list[Batch]:
        """Return the batches that wait, at most one of each query."""
        paths = sorted((self.path / "ready").glob("*.json"))
        return [batch for path in paths if (batch := _read(path)) is not None]

    def claim(self, batch: Batch) -> bool:
        """Take a ready batch for publication; False if it was claimed before.

        A claimed batch is never ready again, even if this process is killed at once.
        """
        ready = self._ready(batch.query)
        last = _read(self._claimed(batch.query))
        if last is not None and last.number >= batch.number:
            ready.unlink()
            self.finish(batch)
            return False
        ready.replace(self._claimed(batch.query))
        _files.sync_folder(self.path / "claimed")
        return True

    def rows(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch, in the order of its partitions."""
        for path in self._files(batch):
            with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
                yield from stream

    def finish(self, batch: Batch) -> None:
        """Remove the rows of a published batch, and of failed attempts before it."""
        folder = self._staged(batch.query, batch.number).parent
        for each in folder.iterdir():
            if int(each.name) <= batch.number:
                shutil.rmtree(each, ignore_errors=True)

    def interrupted(self) -> list[Batch]:
        """Return the batches that a gateway claimed and did not finish.

        Call it under the lock, before the first claim.
        """
        last = map(_read, sorted((self.path / "claimed").glob("*.json")))
        return [
            batch
            for batch in last
            if batch is not None and any(path.exists() for path in self._files(batch))
        ]

    def _files(self, batch: Batch) -> Iterator[Path]:
        folder = self._staged(batch.query, batch.number)
        return (folder / f"{token}.arrow" for token in batch.tokens)

    def _staged(self, query: str, number: int) -> Path:
        return self.path / "staged" / query / str(number)

    def _ready(self, query: str) -> Path:
        return self.path / "ready" / f"{query}.json"

    def _claimed(self, query: str) -> Path:
        return self.path / "claimed" / f"{query}.json"


def _link(draft: Path, path: Path) -> bool:
    """Give a file its name; False if a file has it, which a rename would replace."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    return True


def _write(path: Path, batch: Batch) -> None:
    path.write_text(json.dumps(attrs.asdict(batch)), encoding="ascii")
    _sync_to_disk(path)


def _read(path: Path) -> Batch | None:
    """Return a batch, None if there is no such file any more."""
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    return Batch(fields["query"], fields["number"], tuple(fields["tokens"]))


def _sync_to_disk(path: Path) -> None:
    with path.open("rb+") as file:  # Windows syncs only a file that it may write
        os.fsync(file.fileno())
