"""``bus journal export``, ``import``, ``snapshot`` and ``diff``: recorded messages."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped] # pyarrow ships no types
import pytest
from click.testing import CliRunner
from mcap.reader import make_reader
from mcap.writer import Writer

from bus.cli import main
from bus.cli.message_files import FORMATS
from bus.journal.checker import check
from bus.journal.follower import EARLIEST, Follower
from bus.journal.imported import ImportedJournal
from bus.journal.messages import read_messages
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.journal.stored_segment import StoredSegment, read_segment
from bus.journal.writer import Journal
from bus.model.payload import encode, freeze
from bus.testing import memory_bus
from queuebroker import _files
from specs.clauses import clause
from tests.journal.bus_by_hand import bus, sent
from tests.journal.histories import store
from tests.journal.telling import has_spare
from tests.kit.systems import needs_resource_limits
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

ZSTANDARD = bytes.fromhex("28b52ffd")  # how the compressed part of a file begins

BEGIN = 1_800_000_000 * 10**9

# Payloads with and without a form in JSON.
PLAIN: list[Any] = [
    {"celsius": 17.5, "of": {"a": (1, None, True)}},
    (1, 2.0),
    "é",
    None,
]
OTHER: list[Any] = [
    b"\xff",
    float("inf"),
    {"data": b""},
    memoryview(bytearray(4)).cast("i"),
]


def invoke(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["journal", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def recorded(folder: Path, *, skip: int = -1, payload: Any = None) -> Path:
    """Record a notification a second for each payload, then a call that fails.

    skip: a notification to leave out. payload: in place of the first of `OTHER`.
    """
    with ImportedJournal(folder, program="test", begin_ns=BEGIN) as journal:
        for place, each in enumerate([*PLAIN, *OTHER]):
            value = payload if payload and place == len(PLAIN) else each
            if place != skip:
                at = BEGIN + place * 10**9
                body = encode(freeze(value))
                journal.add(at, "notification", f"sensor/{place % 2}", encoded=body)
        at = BEGIN + 60 * 10**9
        journal.add(at, "command", "asker", receiver="oven", encoded=encode(1), mid=9)
        no = encode("ValueError: no")
        journal.add(
            at, "answer", "oven", receiver="asker", encoded=no, failed=True, mid=9
        )
    return folder


def contents(folder: Path) -> list[tuple[object, ...]]:
    """Return the recorded messages without the numbers of their journals."""
    return [
        (m.wall_ns, m.kind, m.sender, m.receiver, m.mid, m.encoded, m.failed)
        for m in read_messages(folder)
    ]


def test_mcap_holds_all_messages_and_is_imported_without_a_change(
    tmp_path: Path,
) -> None:
    source, file, copy = recorded(tmp_path / "a"), tmp_path / "a.mcap", tmp_path / "b"

    exported = invoke("export", source, "--to", "mcap")
    imported = invoke("import", file, "--out", copy)

    assert exported.stdout == f"{file}: 10 messages\n"
    assert imported.stdout.endswith(": 10 messages\n")
    assert contents(copy) == contents(source)
    with file.open("rb") as opened:
        found = list(make_reader(opened).iter_messages())
    (schema, channel, message), *_ = found
    assert schema is not None
    assert (schema.name, schema.encoding) == ("payload", "jsonschema")
    assert (channel.topic, channel.message_encoding) == ("sensor/0", "json")
    assert json.loads(message.data) == {"celsius": 17.5, "of": {"a": [1, None, True]}}
    assert (message.log_time, message.publish_time, message.sequence) == (
        BEGIN,
        BEGIN,
        1,
    )
    encodings = [channel.message_encoding for _, channel, _ in found]
    assert encodings == ["json"] * 4 + ["msgpack"] * 4 + ["json"] * 2
    # A viewer shows only objects.
    assert all(
        type(json.loads(message.data)) is dict
        for _, channel, message in found
        if channel.message_encoding == "json"
    )


def test_an_imported_journal_passes_all_checks(tmp_path: Path) -> None:
    recorded(tmp_path)

    result = check(open_journals(tmp_path))

    assert (result.problems, result.violations) == ((), ())
    assert result.verdict is Verdict.PASS
    (row,) = map(json.loads, invoke("ls", tmp_path, "--json").stdout.splitlines())
    assert (row["state"], row["opened"]) == ("closed", "2027-01-15T08:00:00.000000Z")
    lines = invoke(
        "cat", tmp_path, "--payloads", "--kind", "notify"
    ).stdout.splitlines()
    assert lines[0].endswith(' payload {"celsius": 17.5, "of": {"a": [1, null, true]}}')
    assert lines[4].endswith(' payload {"base64": "/w=="}')


def test_imported_journals_have_clocks_of_their_own(tmp_path: Path) -> None:
    """The times of one begin with its first message: they say nothing of another."""
    for name in ("a", "b"):
        recorded(tmp_path / name)

    one, other = (journal.facts() for journal in open_journals(tmp_path))

    assert one.boot != other.boot


def test_messages_of_another_program_become_notifications(tmp_path: Path) -> None:
    with (tmp_path / "foreign.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        for topic, encoding, data in (
            ("/camera/front", "cdr", b"\0\1"),
            ("grösse", "json", b"[1, 2]"),
            ("/", "json", b"{"),
            ("-x", "msgpack", b"\x81\xa1a\x01"),
        ):
            channel = writer.register_channel(topic, encoding, 0)
            writer.add_message(channel, log_time=5, publish_time=4, data=data)
        writer.finish()  # type: ignore[no-untyped-call] # it has no types

    invoke("import", tmp_path / "foreign.mcap", "--out", tmp_path / "out")

    found = list(read_messages(tmp_path / "out"))
    assert {one.kind for one in found} == {"notification"}
    assert {one.wall_ns for one in found} == {5}
    assert {one.sender: one.payload() for one in found} == {
        "camera/front": b"\0\1",
        "gr_sse": (1, 2),
        "_": b"{",
        "x": {"a": 1},
    }


def test_json_lines_and_csv_and_parquet_hold_the_same_messages(tmp_path: Path) -> None:
    source = recorded(tmp_path / "a")

    for form in ("jsonl", "csv", "parquet"):
        invoke("export", source, "--to", form, "--out", tmp_path / form)

    due = list(read_messages(source))
    lines = (tmp_path / "jsonl").read_text(encoding="utf-8").splitlines()
    objects = list(map(json.loads, lines))
    with (tmp_path / "csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(tmp_path / "parquet").to_pylist()
    assert objects[0]["payload"] == {"celsius": 17.5, "of": {"a": [1, None, True]}}
    assert objects[4]["payload"] == {"base64": "/w=="}
    for one, line, row, cells in zip(due, objects, rows, table, strict=True):
        assert one.wall_ns == line["wall_ns"] == int(row["wall_ns"]) == cells["wall_ns"]
        for name in ("kind", "sender", "receiver"):
            assert getattr(one, name) == line[name] == row[name] == cells[name]
        assert line["payload"] == json.loads(row["payload"])
        assert line["payload"] == json.loads(cells["payload"])
        assert cells["encoded"] == one.encoded
        assert one.failed == line.get("failed", False) == bool(row["failed"])


def test_a_part_is_exported_by_time_name_and_kind(tmp_path: Path) -> None:
    source = recorded(tmp_path / "a")

    def exported(*options: str) -> list[int]:
        out = tmp_path / "out.jsonl"
        invoke("export", source, "--to", "jsonl", "--out", out, *options)
        lines = map(json.loads, out.read_text(encoding="utf-8").splitlines())
        out.unlink()
        return [(line["wall_ns"] - BEGIN) // 10**9 for line in lines]

    assert exported("--since", "+6s") == [6, 7, 60, 60]
    assert exported("--since", "+1.5s", "--until", "57s") == [2]
    assert exported("--until", "2027-01-15T08:00:01") == [0]
    assert exported("--until", "2027-01-15T09:00:01+01:00") == [0]
    assert exported("--only", "*/1", "--only", "oven") == [1, 3, 5, 7, 60, 60]
    assert exported("--kind", "command", "--kind", "answer") == [60, 60]
    assert exported("--since", "1ms", "--kind", "notification") == []


def test_records_are_chosen_by_time_and_name(tmp_path: Path) -> None:
    recorded(tmp_path / "a")

    def numbers(*options: str) -> list[str]:
        lines = invoke("cat", tmp_path, *options).stdout.splitlines()
        return [line.split()[2] for line in lines]

    assert numbers("--since", "0s") == [
        *["register"] * 2,
        "command",
        "respond",
        "close",
    ]
    assert numbers("--only", "oven") == ["register", "command", "respond"]
    assert numbers("--until", "+1s", "--only", "**") == ["register", "notify"]
    assert numbers("--only", "nobody") == []


def test_mcap_leaves_out_and_counts_messages_without_payload(
    tmp_path: Path,
) -> None:
    store(bus(*sent(1), *sent(2)), tmp_path / "bare")

    result = invoke("export", tmp_path / "bare", "--to", "mcap", code=4)

    assert result.stdout == f"{tmp_path / 'bare'}.mcap: 0 messages\n"
    assert result.stderr.startswith("bus: left out 2 messages without a whole payload:")
    invoke("export", tmp_path / "bare", "--to", "jsonl")
    line, _ = (tmp_path / "bare.jsonl").read_text(encoding="utf-8").splitlines()
    assert "payload" not in json.loads(line)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("export {a} --to jsonl --out {a}", 4, "it exists; remove it, or give another"),
        ("export {empty} --to csv", 4, "no journal in"),
        ("export {text} --to csv", 4, "Not a directory; give a folder with journals"),
        ("export {b}.mcap --to csv", 4, "make a journal of it with bus journal import"),
        ("export {a} --to csv --out {b}/c", 4, "b/c: No such file or directory; give"),
        ("export {a} --to csv --since soon", 2, "'soon' is no time: give a date and"),
        ("export {a} --to csv --since 5", 2, "such as 5m, or one after"),
        ("export {a} --to csv --only x*", 2, "a segment with a star must be"),
        ("import {text} --out {b}", 4, "cannot read"),
        ("import {a} --out {b}", 4, "a: Is a directory; give an MCAP file"),
        ("snapshot {a} --last +5m --out {b}", 2, "'+5m' is no duration"),
        ("snapshot {a} --last 5 --out {b}", 2, "'5' is no duration"),
        ("snapshot {a} --last 5m --out {a}/b", 4, "give a folder outside"),
        ("snapshot {a} --last 5m --out {empty}", 4, "it exists; remove it"),
    ],
)
def test_a_wrong_argument_is_one_line_and_leaves_no_file(
    tmp_path: Path, arguments: str, code: int, message: str
) -> None:
    recorded(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no MCAP", encoding="ascii")
    before = sorted(tmp_path.iterdir())
    names = {name: tmp_path / name for name in ("a", "b", "empty", "text")}

    result = invoke(*arguments.format(**names).split(), code=code)

    assert message in " ".join(result.stderr.split())
    assert sorted(tmp_path.iterdir()) == before


@needs_resource_limits
@pytest.mark.parametrize(
    "arguments",
    [
        "export {a} --to csv",
        "export {a} --to parquet",
        "import {m} --out {b}",
        "snapshot {a} --last 5m --out {b}",
    ],
)
def test_a_full_disk_is_reported_with_the_output_and_no_part_is_left(
    tmp_path: Path, arguments: str
) -> None:
    """A limit on the length of files stands for the full disk."""
    names = {name: tmp_path / name for name in ("a", "b", "m")}
    recorded(names["a"])
    invoke("export", names["a"], "--to", "mcap", "--out", names["m"])
    before = sorted(tmp_path.rglob("*"))
    resource = _files.resource
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (400, limits[1]))
    try:
        result = invoke(*arguments.format(**names).split(), code=4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert result.stderr.startswith(f"bus: cannot write {tmp_path}/")
    assert result.stderr.endswith("; make room, or give another --out\n")
    left = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {path for path in before if path.is_file()}


@pytest.mark.parametrize(
    ("form", "package"), [("mcap", "mcap"), ("parquet", "pyarrow")]
)
def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, package: str
) -> None:
    recorded(tmp_path / "a")
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)

    result = invoke("export", tmp_path / "a", "--to", form, code=4)

    extra = {"mcap": "mcap", "parquet": "pipeline"}[form]
    assert f'{package} is not installed; run pip install ".[{extra}]"' in result.stderr


@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_name_is_exported_with_escapes(tmp_path: Path, form: str) -> None:
    """The side file is JSON, which can hold characters that UTF-8 cannot."""
    with ImportedJournal(tmp_path / "a", program="", begin_ns=0) as journal:
        journal.add(0, "command", "a\ud800", receiver="b\udfff", encoded=encode(1))

    invoke("export", tmp_path / "a", "--to", form)

    exported = (tmp_path / f"a.{form}").read_bytes()
    assert b"ud800" in exported
    assert b"udfff" in exported


def test_a_damaged_file_is_reported_and_no_journal_is_left(tmp_path: Path) -> None:
    recorded(tmp_path / "a")
    invoke("export", tmp_path / "a", "--to", "mcap")
    whole = (tmp_path / "a.mcap").read_bytes()
    part, out = tmp_path / "part.mcap", tmp_path / "b"
    damaged = bytearray(whole)
    damaged[whole.index(ZSTANDARD) + 40] ^= 0xFF

    for data in (
        bytes(damaged),
        *(whole[:length] for length in range(0, len(whole), 199)),
    ):
        part.write_bytes(data)
        result = invoke("import", part, "--out", out, code=4)
        assert result.stderr.startswith(f"bus: cannot read {part}: it is no whole MCAP")
        assert not list(out.rglob("*.qbj"))


def test_diff_finds_the_first_difference_of_each_sender(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a")
    missing = recorded(tmp_path / "missing", skip=2)
    changed = recorded(tmp_path / "changed", payload=b"\xfe")

    equal = invoke("diff", a, recorded(tmp_path / "same"))
    fewer = invoke("diff", a, missing, code=1)
    other = invoke("diff", a, changed, "--kind", "notification", "--json", code=1)

    assert equal.stdout.splitlines()[-1] == "4 sequences compared, 0 different"
    assert [line.split()[-1] for line in equal.stdout.splitlines()[1:5]] == [
        "equal"
    ] * 4
    lines = fewer.stdout.splitlines()
    assert [line.split()[2:] for line in lines[1:5]] == [
        ["1", "1", "1", "equal"],
        ["1", "1", "1", "equal"],
        ["4", "3", "1", "different"],
        ["4", "4", "4", "equal"],
    ]
    assert lines[5] == "notification 2 of sensor/0 differs:"
    assert lines[6].startswith("  A: 2027-01-15T08:00:02.000000Z, 3 bytes, record ")
    assert lines[-1] == "4 sequences compared, 1 different"
    first, _ = map(json.loads, other.stdout.splitlines())
    assert (first["sender"], first["equal"], first["different"]) == (
        "sensor/0",
        2,
        True,
    )
    assert first["first_in_a"]["size"] == first["first_in_b"]["size"] == 3
    assert invoke("diff", a, missing, "--only", "sensor/1").stdout.endswith(
        "0 different\n"
    )


def test_diff_compares_messages_without_payload_by_size(tmp_path: Path) -> None:
    store(bus(*sent(1), *sent(2)), tmp_path / "bare")

    result = invoke("diff", tmp_path / "bare", tmp_path / "bare")

    assert "2 messages compared by size only" in result.stdout


def test_diff_compares_a_truncated_payload_with_a_whole_one_by_size(
    tmp_path: Path,
) -> None:
    for name, kept, payload in (
        ("part", 10, b"a" * 99),
        ("same", 10, b"a" * 98 + b"b"),
        ("whole", 200, b"a" * 99),
        ("longer", 200, b"a" * 100),
    ):
        with (
            Journal(
                tmp_path / name, payloads="sender", payload_bytes_max=kept
            ) as journal,
            memory_bus(journal=journal) as one,
        ):
            one.subscribe("sender", lambda _: None)
            one.register("sender").notify(payload)

    def diff(other: str, code: int = 0) -> str:
        return invoke("diff", tmp_path / "part", tmp_path / other, code=code).stdout

    assert "1 message compared by size only" in diff("whole")
    assert "by size only" not in diff("same")
    assert "1 different" in diff("longer", code=1)


@clause("J1")
def test_a_snapshot_of_a_running_program_has_its_last_messages(tmp_path: Path) -> None:
    live, copy = tmp_path / "live", tmp_path / "copy"
    small = 64 << 10
    with (
        Journal(
            live, segment_bytes=small, payloads=True, payload_bytes_max=100
        ) as journal,
        memory_bus(journal=journal) as one,
    ):
        one.register("echo", on_command=lambda message: message.payload)
        for number in range(400):
            until(lambda: has_spare(journal), "a spare segment is ready")
            one.call("echo", number)
        assert journal.lost == 0
        result = invoke("snapshot", live, "--last", "0s", "--out", copy)

    assert result.stderr == ""
    found = list(read_messages(copy, kinds=["command"]))
    count = len(found)
    assert 0 < count < 200
    told = [(one.receiver, one.payload()) for one in found]
    assert told == [("echo", number) for number in range(400 - count, 400)]
    (incomplete,) = check(open_journals(copy)).violations
    assert (incomplete.rule, incomplete.case) == ("J1", "beginning")
    assert invoke("verify", copy).stderr == ""


def test_records_that_become_final_during_a_snapshot_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(tmp_path / "live", segment_bytes=64 << 10) as journal:
        journal.emit(99)

        def growing(path: Path, number: int) -> StoredSegment:
            segment = read_segment(path, number)
            journal.emit(99)
            assert journal._incarnation is not None
            journal._incarnation._supply.publish(0.0)
            return segment

        monkeypatch.setattr("bus.journal.reader.read_segment", growing)
        invoke("snapshot", tmp_path / "live", "--last", "1h", "--out", tmp_path / "new")
        monkeypatch.undo()

    follower = Follower(str(tmp_path / "new"))
    (end,) = follower.ends().values()
    ((each,),) = follower.plan(EARLIEST, follower.ends())
    found = each.read()
    assert found is not None
    assert found.count == end > 2


def test_a_segment_that_is_sealed_during_the_copy_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "live")
    journal.emit(99)

    def closed(path: Path, journal: int) -> StoredSegment:
        segment = read_segment(path, journal)
        live.close()
        return segment

    live = journal
    monkeypatch.setattr("bus.journal.reader.read_segment", closed)
    invoke("snapshot", tmp_path / "live", "--last", "1h", "--out", tmp_path / "copy")
    monkeypatch.undo()

    assert check(open_journals(tmp_path / "copy")).verdict is Verdict.PASS
