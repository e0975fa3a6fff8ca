"""Which instructions are switch points: the tables, on code of every version."""

from __future__ import annotations

import dis
import sys
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import instructions
from queuebroker.testing.instructions import looks_of, nested, points_of

if TYPE_CHECKING:
    from types import CodeType


def _code(text: str) -> CodeType:
    """Return the code of a function with this body and the parameters a, b, c."""
    names: dict[str, Any] = {}
    body = "\n    ".join(text.splitlines())
    exec(f"def function(a, b, c):\n    {body}", names)
    code: CodeType = names["function"].__code__
    return code


def _variables(text: str) -> list[str]:
    """Return the variables of a body's switch points, in order; * for anything."""
    return [point.variable or "*" for point in points_of(_code(text)).values()]


@pytest.mark.parametrize(
    "text",
    [
        "a = b; b = c; del c",
        "return a, [b], (b, c), {1: a}, {a}",
        "while True:\n  if a is None: break\n  a = b",
        "return a is not b",
        "return a if b is c else b",
        "return (lambda: 1)",
    ],
)
def test_an_instruction_within_its_own_frame_is_no_switch_point(text: str) -> None:
    assert _variables(text) == []


@pytest.mark.parametrize(
    ("text", "touched"),
    [
        ("return a.b", ["attribute b"]),
        ("a.b = c", ["attribute b"]),
        ("del a.b", ["attribute b"]),
        ("a.b += 1", ["attribute b", "*", "attribute b"]),
        ("a.b(c)", ["attribute b", "*"]),
        ("return len", ["global len"]),
        ("global d; d = a", ["global d"]),
        ("return a[b]", ["*"]),
        ("a[b] = c", ["*"]),
        ("return a in b", ["*"]),
        ("return a == b", ["*"]),
        ("for a in b: pass", ["*", "*"]),
        ("a, b = c", ["*"]),
        ("with a: pass", ["*", "*", "*"]),
        ("yield a", ["*"]),
        ("if a: return b", ["*"]),
        ("return not a", ["*"]),
        ("raise a", ["*"]),
        ("assert a is b", ["*"]),  # the raise
        ("return f'{a}'", ["*"]),
    ],
)
def test_an_instruction_that_other_tasks_could_notice_is_a_switch_point(
    text: str, touched: list[str]
) -> None:
    found = _variables(text)

    # Versions split an instruction differently, but the variables are the same.
    assert set(found) == set(touched)
    if "*" not in touched:
        assert found == touched


@pytest.mark.parametrize(
    ("text", "on_3_11"),
    [
        ("a.b += 1", 3),
        ("a.b = c.d", 2),
        ("a.b(c)", 2),
        ("a[b] = a[c]", 2),
        ("if a in b: a.c = 1", 2),
        ("for a in b: a.c = 1", 3),
        ("with a: b.c = 1", 5),
        ("return [a.b for a in b]", 2),
        ("return a.b if a.c else len(b)", 5),
        ("try:\n  a.b()\nexcept ValueError:\n  a.c = 1", 4),
    ],
)
def test_no_version_has_fewer_switch_points_in_a_line(text: str, on_3_11: int) -> None:
    """From 3.12 on a comprehension is part of its function, with its loop."""
    found = len(_variables(text))

    assert found >= on_3_11
    if sys.version_info < (3, 12):
        assert found == on_3_11


def test_a_truth_test_is_a_switch_point_unless_its_value_is_a_bool() -> None:
    """The truth of a list depends on its length, which others may change."""
    asked = len(_variables("if a: return b"))

    assert asked == 1
    assert len(_variables("if a in b: return c")) == 1  # the lookup in b
    assert len(_variables("if not a is b: return c")) == 0
    assert len(_variables("if (a in b) if c else b: return c")) == 3


def test_to_write_is_more_than_to_read() -> None:
    points = points_of(_code("a.b = c.d")).values()

    assert [(point.text, point.writes) for point in points] == [
        ("LOAD_ATTR d", False),
        ("STORE_ATTR b", True),
    ]


def test_an_instruction_with_a_long_argument_is_one_switch_point() -> None:
    many = "; ".join(f"a.b{number} = b" for number in range(300))

    points = points_of(_code(many))

    assert [point.variable for point in points.values()] == [
        f"attribute b{number}" for number in range(300)
    ]


def test_an_unknown_instruction_is_a_switch_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = _code("a = b")
    monkeypatch.setattr(instructions, "_LOCAL_NAMES", frozenset())

    assert len(points_of(code)) == len(list(dis.get_instructions(code)))


def test_no_instruction_is_in_two_tables() -> None:
    names = " ".join(instructions._LOCAL.values()).split()

    assert len(names) == len(set(names))
    assert not instructions._ASKS & instructions._LOCAL_NAMES


def test_interrupts_are_looked_for_after_calls_and_jumps_back() -> None:
    def looks(text: str) -> list[str]:
        code = _code(text)
        by_offset = {each.offset: each.opname for each in dis.get_instructions(code)}
        found = looks_of(code)
        assert all(following in by_offset for following in found.values())
        return [by_offset[at].partition("_")[0] for at in found]

    assert looks("a.b = c") == []
    assert looks("a(b)") == ["CALL"]
    assert looks("a(*b)") == ["CALL"]
    assert looks("a(b=c)") == ["CALL"]
    assert looks("for a in b: pass") == ["JUMP"]
    assert len(looks("while a is b: c = b")) == 1


def test_lambdas_and_comprehensions_belong_to_their_function() -> None:
    code = _code("return [lambda: (d := e) for e in (lambda: a)()]")

    names = [each.co_name for each in nested([code])]

    assert names.count("<lambda>") == 2
    assert names[0] == "function"
