"""Whole journals damaged at random: ``python -m tests.journal.damage --count N``.

`damage` damages one file of a journal as a disk, a power cut or an editor may: bytes
are flipped, cut off, zeroed or inserted; numbers of the side file and of records become
extreme; headers are rewritten with a valid checksum; files are removed, emptied or
replaced by folders. `attempt` does so to two journals and gives them to every verb that
reads journals without Spark. A verb ends with one of its exit codes and reports the
unreadable parts; a traceback is a failure, and so is a `bus check --json` that cannot
be parsed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from click.testing import CliRunner

from bus.cli import main as bus_main
from bus.journal.format import FIELDS, RECORD_BYTES, mark
from bus.journal.header import HEADER_BYTES, SEAL_OFFSET
from tests.journal.bus_history import clean_bus
from tests.journal.histories import Condition, clean, store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from tests.journal.histories import History

__all__ = ["CONDITIONS", "NUMBERS", "VERBS", "attempt", "damage", "main"]

VERBS: Final = (
    ("check",),
    ("check", "--json"),
    ("journal", "ls"),
    ("journal", "cat"),
    ("journal", "cat", "--json"),
    ("journal", "cat", "--around", "3"),
    ("journal", "verify"),
)

# Numbers as they may appear in a line of JSON: integers at the limits of their
# columns, and others that JSON readers turn into floats.
NUMBERS: Final = (
    *("0", "-1", "-0", "1.5", "1e999", "-1e999", "1e3", "NaN", "Infinity", "null"),
    *("true", '"7"', "[]", "{}", "1" * 5000),
    *(
        str(edge + step)
        for edge in (0, 2**15, 2**16, 2**31, 2**32, 2**63, 2**64, 10**24)
        for step in (-1, 0, 1)
    ),
    *(str(-(2**63) - 1), str(-(2**63)), str(-(10**24))),
)
CONDITIONS: Final = (
    *(Condition(), Condition(), Condition(late=True)),
    *(Condition(closed=False, sealed=False), Condition(lost=2)),
    *(Condition(holes=(3, 4)), Condition(beginning=1)),
)

_CODES: Final = frozenset({0, 1, 3, 4})
_SLOTS: Final = 16
_EXTREMES: Final = (0, 1, 2**7, 2**8 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
_WIDTHS: Final = {"u1": "B", "<u2": "<H", "<u4": "<I", "<u8": "<Q", "<i8": "<Q"}


def damage(folder: Path, rng: Random) -> str:
    """Damage one file of a journal's folder; return a description for people."""
    path = rng.choice(sorted(each for each in folder.iterdir() if each.is_file()))
    in_lines = path.suffix == ".jsonl"
    how = rng.choice(_ANYWHERE + (_IN_LINES * 2 if in_lines else _IN_SEGMENTS))
    how(path, rng)
    return f"{how.__name__.strip('_')} {path.name}"


def _flip(path: Path, rng: Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 2, 50]) if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _cut(path: Path, rng: Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])


def _zero(path: Path, rng: Random) -> None:
    data = bytearray(path.read_bytes())
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    data[start:end] = bytes(end - start)
    path.write_bytes(data)


def _insert(path: Path, rng: Random) -> None:
    data = path.read_bytes()
    at = rng.randrange(len(data) + 1)
    path.write_bytes(data[:at] + rng.randbytes(rng.choice([1, 80, 4096])) + data[at:])


def _remove(path: Path, _: Random) -> None:
    path.unlink()


def _make_folder(path: Path, _: Random) -> None:
    path.unlink()
    path.mkdir()


def _rename(path: Path, rng: Random) -> None:
    target = path.with_name(f"seg-{rng.choice(['00001', '1', '9' * 30])}.qbj")
    if not target.is_dir():
        path.replace(target)


def _edit_number(path: Path, rng: Random) -> None:
    """Replace a number in a line, or a text if it has none, by an extreme one."""
    text = path.read_text("latin-1")
    found = list(re.finditer(r'": *(-?\d+|"[^"]*")', text))
    if found:
        which = rng.choice(found)
        text = text[: which.start(1)] + rng.choice(NUMBERS) + text[which.end(1) :]
        path.write_text(text, "latin-1")


def _insert_line(path: Path, rng: Random) -> None:
    lines = path.read_bytes().split(b"\n")
    one = rng.choice(
        [
            *(
                b"[" * 3000,
                b'{"is":' * 3000,
                b"{}",
                b"null",
                b"0",
                b'"is"',
                b"\xff\xfe",
            ),
            *(b'{"is":[]}', b'{"is":"late"}', b'{"is":"name","id":7}', b"\r", b"\0"),
            b'{"is":"name","id":1,"text":"\\ud800\\u001b[2J"}',
            rng.choice(lines),
        ]
    )
    lines.insert(rng.randrange(len(lines) + 1), one)
    path.write_bytes(b"\n".join(lines))


def _edit_record(path: Path, rng: Random) -> None:
    """Put an extreme number into a field of a record; renew the seal's checksum."""
    data = bytearray(path.read_bytes())
    slots = (len(data) - HEADER_BYTES) // RECORD_BYTES
    if slots <= 0:
        return
    for _ in range(rng.choice([1, 3, 30])):
        slot = HEADER_BYTES + rng.randrange(slots) * RECORD_BYTES
        number = rng.randrange(len(FIELDS) - 1)  # not the mark: that makes a hole
        code = _WIDTHS[FIELDS[number][1]]
        at = slot + sum(struct.calcsize(_WIDTHS[kind]) for _, kind in FIELDS[:number])
        extreme = rng.choice(_EXTREMES) % 2 ** (8 * struct.calcsize(code))
        struct.pack_into(code, data, at, extreme)
    _renew_seal(data)
    path.write_bytes(data)


def _edit_header(path: Path, rng: Random) -> None:
    """Put an extreme number into the header, with matching marks and checksums."""
    data = bytearray(path.read_bytes())
    if len(data) < HEADER_BYTES:
        return
    # segment, slots, first_n, mono, wall, lost
    at, code = rng.choice(
        [(8, "<I"), (12, "<I"), (24, "<Q"), (48, "<Q"), (56, "<Q"), (1024, "<Q")]
    )
    extreme = rng.choice(_EXTREMES) % 2 ** (8 * struct.calcsize(code))
    struct.pack_into(code, data, at, extreme)
    struct.pack_into("<I", data, 64, zlib.crc32(data[:64]))
    if at == 24:
        for slot, start in enumerate(range(HEADER_BYTES, len(data) - 79, RECORD_BYTES)):
            struct.pack_into("<I", data, start + 76, mark(extreme + slot))
    _renew_seal(data)
    path.write_bytes(data)


def _renew_seal(data: bytearray) -> None:
    if any(data[SEAL_OFFSET : SEAL_OFFSET + 36]):
        struct.pack_into("<I", data, SEAL_OFFSET + 4, zlib.crc32(data[HEADER_BYTES:]))
        seal = zlib.crc32(data[SEAL_OFFSET : SEAL_OFFSET + 32])
        struct.pack_into("<I", data, SEAL_OFFSET + 32, seal)


_How = tuple["Callable[[Path, Random], None]", ...]
_ANYWHERE: Final[_How] = (_flip, _flip, _cut, _zero, _insert, _remove, _make_folder)
_IN_LINES: Final[_How] = (_edit_number, _edit_number, _edit_number, _insert_line)
_IN_SEGMENTS: Final[_How] = (_edit_record, _edit_record, _edit_header, _rename)


def history(rng: Random) -> History:
    """Return some traffic over two journals, of channels or of a bus."""
    seed = rng.randrange(10**6)
    if rng.random() < 0.5:
        return clean(seed, steps=60, journals=2)
    return clean_bus(seed, journals=2)


def attempt(folder: Path, seed: int) -> None:
    """Damage two journals below a folder and give them to every verb.

    Raises:
        AssertionError: a verb failed; the text describes the damage.
    """
    rng = random.Random(seed)
    conditions = {index: rng.choice(CONDITIONS) for index in range(2)}
    paths = store(history(rng), folder, slots=_SLOTS, conditions=conditions)
    done = []
    for _ in range(rng.choice([1, 1, 2, 4])):
        path = rng.choice(paths)
        if any(each.is_file() for each in path.iterdir()):
            done.append(damage(path, rng))
    for verb in VERBS:
        ran = CliRunner().invoke(bus_main, [*verb, str(folder)])
        case = f"seed {seed}, {', '.join(done)}: {' '.join(verb)}"
        odd = ran.exception is not None and not isinstance(ran.exception, SystemExit)
        assert not odd, f"{case}: {ran.exception!r}"
        assert ran.exit_code in _CODES, f"{case}: exit code {ran.exit_code}"
        if verb == ("check", "--json") and ran.stdout:
            json.loads(ran.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the given number of attempts; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.journal.damage")
    parser.add_argument("--count", type=int, default=1000, help="how many are damaged")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first one")
    options = parser.parse_args(arguments)
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                attempt(Path(folder), seed)
            except AssertionError as error:
                failed += 1
                print(error, flush=True)
    print(f"{options.count} damaged, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
