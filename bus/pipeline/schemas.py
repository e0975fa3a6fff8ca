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
    "SEGMENTS",
    "Column",
    "arrow_schema",
    "ddl",
    "signed",
    "unsigned",
]

_SPARK_TYPES: Final = {
    "bool": "BOOLEAN",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "string": "STRING",
}


@attrs.frozen
class Column:
    """One column: its name, its type as Arrow spells it, its meaning."""

    name: str
    arrow: str
    meaning: str


EVENTS: Final = (
    Column("journal", "int64", "number of the journal"),
    Column("n", "int64", "record number in the journal; the key with `journal`"),
    Column("code", "int16", "kind of the record as a number"),
    Column("kind", "string", "kind of the record"),
    Column("flags", "int16", "bits of the bus's records"),
    Column("reason", "string", "why something was dropped, refused or closed"),
    Column("channel", "int64", "number of the channel, 0: none yet"),
    Column("flow", "int64", "channel and direction"),
    Column("seq", "int64", "number of the message in its flow, or the ticket"),
    Column("port", "int64", "port of the rendez-vous"),
    Column("size", "int64", "bytes of the message"),
    Column("depth", "int64", "messages in the buffer after the operation"),
    Column("wait_us", "int64", "how long the call was blocked"),
    Column("mono", "int64", "monotonic clock of the machine, nanoseconds"),
    Column("wall_us", "int64", "wall clock by the journal's anchors, microseconds"),
    Column("task", "string", "name of the broker on this side"),
    Column("peer", "string", "name of the broker on the other side"),
    Column("thread", "string", "name of the thread"),
    Column("origin", "int64", "task incarnation a bus message comes from"),
    Column("hop", "int16", "relay hop number of a bus message"),
)

SEGMENTS: Final = (
    Column("journal", "int64", "number of the journal; null if it cannot be told"),
    Column("machine", "string", "machine that wrote it"),
    Column("process", "string", "incarnation of the process that wrote it"),
    Column("pid", "int64", "that process, as its system numbers it"),
    Column("program", "string", "what that process ran"),
    Column("boot", "string", "boot of the machine: one monotonic clock"),
    Column("path", "string", "where the segment is"),
    Column("segment", "int32", "its place in the journal"),
    Column("sealed", "bool", "whether it was closed in order"),
    Column("records", "int64", "valid records in it"),
    Column("lost", "int64", "records the journal had lost so far"),
    Column("damaged", "int32", "1 if it contradicts itself"),
    Column("late", "bool", "whether operations were reported after the close"),
    Column("begun", "bool", "whether its process may have recorded an operation"),
    Column("problems", "string", "what of it could not be read, a line each"),
)


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the columns as an Arrow schema."""
    import pyarrow as pa  # noqa: PLC0415 - loaded where used

    types = {"bool": pa.bool_(), "string": pa.string()}
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
