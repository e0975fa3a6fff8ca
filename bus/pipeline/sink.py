"""Rows as notifications: ``writeStream.format("queuebroker")`` and ``write``.

The columns are ``value``, ``topic`` and, if there is one, ``key``. Each task stages its
rows in the spool; the commit of the batch makes them ready for the gateway, which
publishes them (`bus.pipeline.spool`). Spark calls each step in any process, and some of
them twice, so nothing is kept between the steps but the files of the spool.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped] # pyarrow ships no types
from pyspark import TaskContext
from pyspark.sql import types as T  # noqa: N812 - the customary alias
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from bus.errors import PipelineError
from bus.model.address import check_module_name
from bus.pipeline.share import require
from bus.pipeline.spool import Batch, Spool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["BatchWriter", "StreamWriter"]

_COLUMNS: Final = ("value", "key", "topic")
_PLAIN: Final = (
    T.BinaryType,
    T.BooleanType,
    T.DoubleType,
    T.FloatType,
    T.IntegralType,
    T.NullType,
    T.StringType,
)

_Messages = "list[WriterCommitMessage | None]"


@attrs.frozen
class _Staged(WriterCommitMessage):
    """The rows that one task staged, by batch and token; no token for no rows."""

    query: str
    number: int
    token: str | None


@attrs.frozen
class _Target:
    """The spool and the topic that the options of a writer name.

    path: absolute, since tasks run in other directories than the driver.
    topic: of all rows; "" if each row has its own.
    """

    path: str
    topic: str

    @classmethod
    def parse(cls, options: Mapping[str, str], schema: T.StructType) -> _Target:
        """Check the options of a user, and the columns of the rows.

        Raises:
            ValueError: one is missing, or cannot be a message.
        """
        path, topic = options.get("path"), options.get("topic", "")
        if not path:
            raise ValueError("name the folder of the gateway: start(folder)")
        names = schema.fieldNames()
        if "value" not in names:
            raise ValueError(f"the rows have no column `value`, only {names}")
        if extra := [name for name in names if name not in _COLUMNS]:
            raise ValueError(
                f"a message has no column {extra[0]!r}: put it into `value`, such as"
                f" struct({', '.join(extra)}).alias('value')"
            )
        if topic:
            check_module_name(topic, what="topic")
        elif "topic" not in names:
            raise ValueError(
                "no topic: give the option topic=NAME, or the rows a column `topic`"
            )
        for name in ("value", "key"):
            if name in names:
                _check_type(name, schema[name].dataType)
        # The driver makes the folder, so that an executor without it is noticed.
        return cls(str(Spool.at(path).path), topic)

    def stage(self, query: str, number: int, rows: Iterator[pa.RecordBatch]) -> _Staged:
        require(self.path)
        spool = Spool.at(self.path)
        prepared = (self._prepared(each) for each in rows if each.num_rows)
        return _Staged(query, number, spool.stage(query, number, prepared))

    def hand_over(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        for batch in _batches(messages):
            Spool.at(self.path).hand_over(batch)

    def discard(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        for batch in _batches(messages):
            Spool.at(self.path).discard(batch)

    def _prepared(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the columns of `_COLUMNS`, whose topics are legal.

        Raises:
            PipelineError: a topic is missing or not legal.
        """
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        count = rows.num_rows
        if self.topic:
            columns["topic"] = pa.array([self.topic] * count, pa.string())
        else:
            for topic in pc.unique(columns["topic"]).to_pylist():
                _check_topic(topic)
        columns.setdefault("key", pa.nulls(count))
        arrays = [columns[name] for name in _COLUMNS]
        return pa.RecordBatch.from_arrays(arrays, names=list(_COLUMNS))


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream: each batch is published once."""

    def __init__(self, options: Mapping[str, str], schema: T.StructType) -> None:
        self._target = _Target.parse(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        number = context.getLocalProperty("streaming.sql.batchId")
        assert query is not None
        assert number is not None
        return self._target.stage(query, int(number), iterator)

    def commit(self, messages: _Messages, batchId: int) -> None:  # type: ignore[valid-type]  # noqa: ARG002, N803 - theirs
        """Hand the batch over to the gateway."""
        self._target.hand_over(messages)

    def abort(self, messages: _Messages, batchId: int) -> None:  # type: ignore[valid-type]  # noqa: ARG002, N803 - theirs
        """Remove the rows of a batch that failed."""
        self._target.discard(messages)


class BatchWriter(DataSourceArrowWriter):
    """The writer of a table; each call of `save` is a query of its own."""

    def __init__(self, options: Mapping[str, str], schema: T.StructType) -> None:
        self._target = _Target.parse(options, schema)
        self._query = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        return self._target.stage(self._query, 0, iterator)

    def commit(self, messages: _Messages) -> None:  # type: ignore[valid-type]
        """Hand the rows over to the gateway."""
        self._target.hand_over(messages)

    def abort(self, messages: _Messages) -> None:  # type: ignore[valid-type]
        """Remove the rows of a write that failed."""
        self._target.discard(messages)


def _batches(messages: Sequence[WriterCommitMessage | None]) -> Iterator[Batch]:
    """Yield the one batch that tasks have staged, none if there are no rows."""
    staged = [each for each in messages if isinstance(each, _Staged)]
    tokens = tuple(each.token for each in staged if each.token is not None)
    if tokens:
        yield Batch(staged[0].query, staged[0].number, tokens)


def _check_topic(topic: str | None) -> None:
    if topic is None:
        raise PipelineError("a row has no topic: its column `topic` is null")
    try:
        check_module_name(topic, what="topic")
    except ValueError as error:
        raise PipelineError(f"a row cannot be published: {error}") from None


def _check_type(name: str, kind: T.DataType) -> None:
    """Raise ValueError unless a message can carry the values of a column."""
    if isinstance(kind, T.StructType):
        for field in kind.fields:
            _check_type(f"{name}.{field.name}", field.dataType)
    elif isinstance(kind, T.ArrayType):
        _check_type(f"{name}[]", kind.elementType)
    elif not isinstance(kind, _PLAIN):
        raise ValueError(
            f"a message cannot carry {name} of type {kind.simpleString()}: cast it to"
            " a string or a number"
        )
