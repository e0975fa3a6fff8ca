"""Files of recorded messages in the formats of other programs.

`create_file` writes one in any format; `read_mcap` reads the only format that has all
that a journal needs. The packages are imported only for their formats.

In MCAP, each sender and kind has a channel, commands and answers one for each receiver.
A payload of plain data is JSON, since viewers show it. JSON has no bytes and no arrays:
other payloads stay MessagePack, which has no schema.
"""

from __future__ import annotations

import csv
import importlib
import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from bus.cli.text import plain, wall_text
from bus.errors import JournalError, PayloadError, WireError
from bus.journal.messages import KINDS
from bus.journal.wording import hex64
from bus.model.payload import decode, encode, freeze
from bus.requirements import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from bus.journal.messages import RecordedMessage

__all__ = ["FORMATS", "ImportedMessage", "MessageFile", "create_file", "read_mcap"]

FORMATS: Final = ("mcap", "jsonl", "csv", "parquet")

_FIELDS: Final = (
    *("time", "wall_ns", "journal", "n", "kind", "sender", "receiver", "mid", "size"),
    *("truncated", "failed", "payload"),
)
# Bounds on the rows of Parquet that are written at a time, and on their payloads.
_ROWS_MAX: Final = 65_536
_ROWS_BYTES_MAX: Final = 32 << 20

# The schemas of MCAP. Viewers show objects only, so any other value stands in one.
_OBJECT: Final = "payload"
_VALUE: Final = "value"
_SCHEMAS: Final[Mapping[str, dict[str, Any]]] = {
    _OBJECT: {"type": "object", "additionalProperties": True},
    _VALUE: {"type": "object", "properties": {"value": {}}},
}
_SEQUENCE_MAX: Final = 2**32 - 1

# Characters that no task name has (BUS-NAME-6), and the greatest length of a name.
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_./-]")
_NAME_MAX: Final = 128


class MessageFile(Protocol):
    """A file being written."""

    def add(self, message: RecordedMessage) -> bool:
        """Write a message; return False if the format cannot hold it."""

    def close(self) -> None:
        """Complete the file."""


class ImportedMessage(NamedTuple):
    """A message from a file; its fields are those that `ImportedJournal.add` takes."""

    wall_ns: int
    kind: str
    sender: str
    receiver: str
    mid: int
    encoded: bytes
    failed: bool


def create_file(form: str, path: Path) -> MessageFile:
    """Create a file of a format; OSError if that fails.

    Raises:
        JournalError: a package for the format is not installed.
    """
    writers: dict[str, Callable[[Path], MessageFile]] = {
        "mcap": _Mcap,
        "jsonl": _JsonLines,
        "csv": _Csv,
        "parquet": _Parquet,
    }
    return writers[form](path)


class _JsonLines:
    """One JSON object a line; `payload` is absent if the message has none."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def add(self, message: RecordedMessage) -> bool:
        fields = _common(message)
        if (payload := _json_payload(message)) is not None:
            fields["payload"] = msgspec.Raw(payload)
        self._file.write(msgspec.json.encode(fields) + b"\n")
        return True

    def close(self) -> None:
        self._file.close()


class _Csv:
    """A head and a row for each message; the payload is JSON, or empty."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._file)
        self._rows.writerow(_FIELDS)

    def add(self, message: RecordedMessage) -> bool:
        fields = _common(message)
        fields["payload"] = (_json_payload(message) or b"").decode()
        self._rows.writerow([fields.get(name, "") for name in _FIELDS])
        return True

    def close(self) -> None:
        self._file.close()


class _Parquet:
    """A row for each message; the payload as JSON, and as the bus encodes it."""

    def __init__(self, path: Path) -> None:
        pa = _package("pyarrow", "Parquet", "pipeline")
        pq = _package("pyarrow.parquet", "Parquet", "pipeline")
        types = dict.fromkeys((*_FIELDS, "encoded"), pa.int64())
        for name in ("journal", "kind", "sender", "receiver", "payload"):
            types[name] = pa.string()
        types["time"] = pa.timestamp("ns", tz="UTC")
        types["truncated"] = types["failed"] = pa.bool_()
        types["encoded"] = pa.binary()
        self._schema = pa.schema(list(types.items()))
        self._batch = pa.RecordBatch.from_pylist
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def add(self, message: RecordedMessage) -> bool:
        payload = _json_payload(message)
        row = _common(message) | {
            "time": message.wall_ns,
            "truncated": message.truncated,
            "failed": message.failed,
            "payload": None if payload is None else payload.decode(),
            "encoded": message.encoded,
        }
        self._rows.append(row)
        self._bytes += len(message.encoded or b"")
        if len(self._rows) >= _ROWS_MAX or self._bytes >= _ROWS_BYTES_MAX:
            self._flush()
        return True

    def close(self) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._rows:
            self._file.write_batch(self._batch(self._rows, schema=self._schema))
        self._rows, self._bytes = [], 0


class _Mcap:
    """The messages whose payload was kept as a whole: MCAP has no others."""

    def __init__(self, path: Path) -> None:
        writer = _package("mcap.writer", "MCAP", "mcap")
        self._file = path.open("wb")
        self._writer = writer.Writer(self._file)
        self._writer.start(library="queuebroker")
        self._schemas: dict[str, int] = {"": 0}
        self._channels: dict[tuple[str, ...], int] = {}

    def add(self, message: RecordedMessage) -> bool:
        if message.encoded is None or message.truncated:
            return False
        schema, data = _mcap_data(message.encoded)
        failed = str(message.failed).lower()
        key = schema, message.kind, message.sender, message.receiver, failed
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = self._channel(*key)
        self._writer.add_message(
            channel,
            log_time=message.wall_ns,
            publish_time=message.wall_ns,
            sequence=message.mid & _SEQUENCE_MAX,
            data=data,
        )
        return True

    def close(self) -> None:
        self._writer.finish()
        self._file.close()

    def _channel(
        self, schema: str, kind: str, sender: str, receiver: str, failed: str
    ) -> int:
        if schema not in self._schemas:
            text = json.dumps(_SCHEMAS[schema]).encode()
            self._schemas[schema] = self._writer.register_schema(
                schema, "jsonschema", text
            )
        topic = sender if kind == "notification" else f"{kind}/{sender}/{receiver}"
        about = {"kind": kind, "sender": sender, "receiver": receiver, "failed": failed}
        encoding = "json" if schema else "msgpack"
        number: int = self._writer.register_channel(
            topic, encoding, self._schemas[schema], about
        )
        return number


def read_mcap(path: Path) -> Iterator[ImportedMessage]:
    """Yield the messages of an MCAP file in the order of their times.

    A topic of another program becomes the name of a task, and its messages become
    notifications. A payload in JSON or MessagePack that a bus can carry is decoded; in
    any other encoding, it is the bytes of the message.

    Raises:
        JournalError: it is not an MCAP file, or damaged; or the package is missing.
    """
    make_reader = _package("mcap.reader", "MCAP", "mcap").make_reader
    try:
        with path.open("rb") as file:
            reader = make_reader(file, validate_crcs=True)
            yield from itertools.starmap(_imported, reader.iter_messages())
    except OSError as error:
        raise JournalError(
            f"cannot read {path}: {error.strerror}; give an MCAP file"
        ) from None
    except Exception as error:  # noqa: BLE001 # those of struct and decompressors, too
        fact = str(error) or type(error).__name__
        raise JournalError(
            f"cannot read {path}: it is no whole MCAP file ({fact})"
        ) from None


def _imported(schema: Any, channel: Any, message: Any) -> ImportedMessage:
    about = channel.metadata
    ours = about.get("kind") in KINDS
    value = ours and schema is not None and schema.name == _VALUE
    return ImportedMessage(
        message.log_time,
        about["kind"] if ours else "notification",
        _task_name(about.get("sender", "") if ours else channel.topic),
        about.get("receiver", "") if ours else "",
        message.sequence,
        _encoded(channel.message_encoding, message.data, value=value),
        ours and about.get("failed") == "true",
    )


def _common(message: RecordedMessage) -> dict[str, Any]:
    """Return all fields but the payload; `truncated` and `failed` only if true."""
    fields: dict[str, Any] = {
        "time": wall_text(message.wall_ns),
        "wall_ns": message.wall_ns,
        "journal": hex64(message.journal),
        "n": message.n,
        "kind": message.kind,
        "sender": message.sender,
        "receiver": message.receiver,
        "mid": message.mid,
        "size": message.size,
    }
    if message.truncated:
        fields["truncated"] = True
    if message.failed:
        fields["failed"] = True
    return fields


def _json_payload(message: RecordedMessage) -> bytes | None:
    """Return a payload as JSON, None if it was not kept as a whole."""
    if message.encoded is None or message.truncated:
        return None
    payload = message.payload()
    return msgspec.json.encode(payload if _is_plain(payload) else plain(payload))


def _mcap_data(encoded: bytes) -> tuple[str, bytes]:
    """Return the schema of a payload and its data; "" for MessagePack."""
    payload = decode(encoded)
    if not _is_plain(payload):
        return "", encoded
    if type(payload) is dict:
        return _OBJECT, msgspec.json.encode(payload)
    return _VALUE, msgspec.json.encode({_VALUE: payload})


def _is_plain(payload: Any) -> bool:
    """Return True if JSON has the same value: no bytes, arrays, infinities or NaN."""
    if type(payload) is float:
        return math.isfinite(payload)
    if type(payload) is tuple:
        return all(map(_is_plain, payload))
    if type(payload) is dict:
        return all(map(_is_plain, payload.values()))
    return payload is None or type(payload) in {bool, int, str}


def _encoded(encoding: str, data: bytes, *, value: bool) -> bytes:
    """Return the payload of a message as the bus encodes it.

    value: True if the payload is the value in a JSON object.
    """
    try:
        if encoding == "json":
            payload = msgspec.json.decode(data)
            return encode(freeze(payload[_VALUE] if value else payload))
        if encoding == "msgpack":
            decode(data)
            return data
    except (ValueError, KeyError, TypeError, RecursionError, PayloadError, WireError):
        pass  # in another encoding, or not a payload that a bus can carry
    return encode(data)


def _task_name(topic: str) -> str:
    """Return a topic as the name of a task: without a slash before it."""
    name = _FOREIGN.sub("_", topic.lstrip("/.-"))[:_NAME_MAX]
    return name or "_"


def _package(name: str, form: str, extra: str) -> Any:
    """Import a module that only one format needs."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        fact = f"{(error.name or '').partition('.')[0]} is not installed"
        raise JournalError(f"cannot use {form}: {fact}; run {install(extra)}") from None
