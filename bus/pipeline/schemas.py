"""The columns of tables read from journals: one definition for Arrow and for Spark.

Spark compares the schema of the first Arrow batch with its own, exactly, and ignores
the later ones. So each batch is made with `arrow_schema` and each DataFrame with `ddl`,
both from one row here. Spark has no unsigned types: 64-bit numbers are stored as the
signed number of the same bits, shorter ones in the next wider type. Compare the former
only for equality, and print them with `bus.journal.wording.hex64`. This module opens no
file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types

__all__ = [
    "EVENTS",
    "MESSAGES",
    "SEGMENTS",
    "Column",
    "arrow_schema",
    "ddl",
    "signed",
    "unsigned",
]

_SPARK_TYPES: Final = {
    "binary": "BINARY",
    "bool": "BOOLEAN",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "string": "STRING",
    "timestamp": "TIMESTAMP",
}


@attrs.frozen
class Column:
    """One column: its name, its type as Arrow spells it, its meaning."""

    name: str
    arrow: str
    meaning: str


EVENTS: Final = (
    Column("journal", "int64", "number of the journal"),
    Column("n", "int64", "number of the record; the key, with `journal`"),
    Column("code", "int16", "kind of the record as a number"),
    Column("kind", "string", "kind of the record"),
    Column("flags", "int16", "flag bits; records of the bus only"),
    Column("reason", "string", "reason for a drop, a refusal or a close"),
    Column("channel", "int64", "number of the channel; 0 if there is none yet"),
    Column("flow", "int64", "channel and direction"),
    Column("seq", "int64", "number of the message in its flow, or the ticket"),
    Column("port", "int64", "port of the rendezvous"),
    Column("size", "int64", "bytes of the message"),
    Column("depth", "int64", "messages in the buffer after the operation"),
    Column("wait_us", "int64", "time for which the call was blocked"),
    Column("mono", "int64", "monotonic clock of the machine, nanoseconds"),
    Column("wall_us", "int64", "wall clock, from the journal's anchors, microseconds"),
    Column("task", "string", "name of the broker on this side"),
    Column("peer", "string", "name of the broker on the other side"),
    Column("thread", "string", "name of the thread"),
    Column("origin", "int64", "registration that sent the bus message"),
    Column("hop", "int16", "relay hop number of a bus message"),
)

SEGMENTS: Final = (
    Column("journal", "int64", "number of the journal; null if unknown"),
    Column("machine", "string", "machine of the process that wrote the journal"),
    Column("process", "string", "incarnation of that process"),
    Column("pid", "int64", "process id on its machine"),
    Column("program", "string", "program that the process ran"),
    Column("boot", "string", "boot of the machine; each boot has one monotonic clock"),
    Column("path", "string", "path of the segment"),
    Column("segment", "int32", "position of the segment in the journal"),
    Column("sealed", "bool", "true if the segment was closed in order"),
    Column("records", "int64", "valid records in the segment"),
    Column("lost", "int64", "records that the journal had lost up to then"),
    Column("damaged", "int32", "1 if the segment contradicts itself"),
    Column("late", "bool", "true if operations were reported after the close"),
    Column("begun", "bool", "true if the process may have recorded an operation"),
    Column("problems", "string", "unreadable parts of the segment, one per line"),
    Column("unnamed", "string", "unreadable parts of the side file, one per line"),
    Column("blank", "bool", "true if it is a first segment without any record"),
    Column("state", "string", "fingerprint of the file and of the code that read it"),
    Column("file", "string", "file in `events` with the records; null if none"),
)


MESSAGES: Final = (
    Column("key", "binary", "null, as a notification has no key"),
    Column("value", "binary", "payload: bytes, text in UTF-8, or else JSON"),
    Column("topic", "string", "name of the task that sent the notification"),
    Column("partition", "int32", "lowest 31 bits of the number of the journal"),
    Column("offset", "int64", "number of the record; the key, with `journal`"),
    Column("timestamp", "timestamp", "wall clock of the sender"),
    Column("timestampType", "int32", "0: the time is that of sending"),
    Column("journal", "int64", "number of the journal"),
)


def arrow_schema(columns: tuple[Column, ...], *, coded: bool = False) -> pa.Schema:
    """Return the columns as an Arrow schema.

    coded: True for texts as codes with a dictionary.
    """
    import pyarrow as pa  # noqa: PLC0415 - loaded where used

    text = pa.dictionary(pa.int32(), pa.string()) if coded else pa.string()
    types = {"bool": pa.bool_(), "string": text}
    types |= {"binary": pa.binary(), "timestamp": pa.timestamp("us", tz="UTC")}
    types |= {"int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}
    return pa.schema([pa.field(one.name, types[one.arrow]) for one in columns])


def ddl(columns: tuple[Column, ...]) -> str:
    """Return the columns as a Spark schema."""
    return ", ".join(f"`{one.name}` {_SPARK_TYPES[one.arrow]}" for one in columns)


def signed(number: int) -> int:
    """Return the signed 64-bit number with the bits of an unsigned one."""
    return number - 2**64 if number >= 2**63 else number


def unsigned(number: int) -> int:
    """Return the unsigned 64-bit number with the bits of a signed one."""
    return number + 2**64 if number < 0 else number
