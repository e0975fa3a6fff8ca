"""No loop of the library has a jump back that its `with` or `try` does not cover.

On CPython 3.13 and 3.14 there are such jumps (see `_sync.Lock`), and the interpreter
checks for signals there: the exception bypasses a lock or a handler. The test examines
the code compiled by the interpreter that runs it.
"""

from __future__ import annotations

import dis
import sys
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import pytest

import bus
import queuebroker
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] not in {(3, 13), (3, 14)},
    reason="no other interpreter compiles such jumps",
)

# Programs and tools end on an interrupt.
_ELSEWHERE: Final = ("bus/cli", "bus/demo", "bus/pipeline", "queuebroker/testing")

# Function -> why nothing is lost there.
_HARMLESS: Final = {
    "Bus.wait_for": "a watcher that is dropped closes itself",
    "Channel.read_exactly": "it handles other exceptions",
    "CommThread._run": "no signal handler runs in that thread",
    "Driver._run": "no signal handler runs in that thread",
    "GatewayServer._accept": "no signal handler runs in that thread",
    "_forward": "no signal handler runs in that thread",
    "SocketPoller.wait": "no signal handler runs in that thread",
    "Inspector._serve": "no signal handler runs in that thread",
    "Payloads.tend": "it handles other exceptions",
    "Protocol.receive_data": "it handles other exceptions",
    "Segment._sum_up": "a view of the map is released with its last reference",
    "Unsent.send": "it handles other exceptions",
    "_has_ended": "it handles other exceptions",
}


@clause("QB-ERR-9")
def test_each_jump_back_is_covered_by_the_with_or_try_of_its_loop() -> None:
    found = {
        (str(file), line): name
        for package in (bus, queuebroker)
        for folder in package.__path__
        for file in Path(folder).rglob("*.py")
        if not str(file.relative_to(Path(folder).parent)).startswith(_ELSEWHERE)
        and not file.stem.endswith("verb")
        for name, line in _uncovered(compile(file.read_text(), str(file), "exec"))
        if name not in _HARMLESS
    }

    assert not found


def test_such_a_jump_is_found() -> None:
    text = """
def named(lock, items):
    with lock:
        for item in items:
            if item:
                print(item)
"""

    [(name, line)] = _uncovered(compile(text, "", "exec"))

    assert name == "named"
    assert line in {4, 5}


def _uncovered(code: CodeType) -> Iterator[tuple[str, int | None]]:
    """Yield the function and line of each jump outside of its target's handler."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _uncovered(const)
    by_offset: dict[int, Any] = {
        each.offset: each for each in dis.get_instructions(code)
    }
    entries: Any = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]

    def handler(offset: int) -> int | None:
        return next(
            (each.target for each in entries if each.start <= offset < each.end), None
        )

    for each in by_offset.values():
        if each.opname == "JUMP_BACKWARD":
            covers = handler(each.argval)
            if (
                covers is not None
                and covers != handler(each.offset)
                and by_offset[covers].opname == "PUSH_EXC_INFO"  # not a comprehension's
            ):
                lines = [
                    one.positions.lineno
                    for at, one in by_offset.items()
                    if at <= each.offset and one.positions.lineno is not None
                ]
                yield code.co_qualname, lines[-1] if lines else None
