"""`Specification`: the meaning of a pattern, against the plainest definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.model.specification import Specification
from specs.clauses import clause

SEGMENTS = ["a", "b", "c"]
NAMES = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=7).map("/".join)
PATTERNS = st.lists(
    st.sampled_from([*SEGMENTS, "*", "**"]), min_size=1, max_size=6
).map("/".join)


def means(pattern: list[str], name: list[str]) -> bool:
    """Whether a pattern matches a name, by the definition, without optimization."""
    if not pattern:
        return not name
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        return any(means(rest, name[taken:]) for taken in range(len(name) + 1))
    return bool(name) and first in {"*", name[0]} and means(rest, name[1:])


@pytest.mark.parametrize(
    ("pattern", "meant", "not_meant"),
    [
        ("a", ["a"], ["b", "a/a", "A"]),
        ("a/b", ["a/b"], ["a", "a/b/c"]),
        ("*", ["a", "b"], ["a/b"]),
        ("a/*", ["a/b", "a/c"], ["a", "a/b/c", "b/b"]),
        ("*/b", ["a/b"], ["b", "a/a/b"]),
        ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
        ("**", ["a", "a/b", "a/b/c"], []),
        ("a/**", ["a", "a/b", "a/b/c"], ["b", "b/a"]),
        ("**/c", ["c", "a/c", "a/c/c"], ["c/a", "a"]),
        ("a/**/c", ["a/c", "a/b/c", "a/c/b/c"], ["a", "c", "a/c/b"]),
        ("**/**", ["a", "a/b"], []),
        ("**/*/**", ["a", "a/b"], []),
        ("*/**/*", ["a/b", "a/b/c"], ["a"]),
        ("**/b/**/b", ["b/b", "a/b/c/b"], ["b", "a/b/c"]),
    ],
)
def test_a_pattern_matches_its_names_and_no_others(
    pattern: str, meant: list[str], not_meant: list[str]
) -> None:
    specification = Specification(pattern)

    assert [name for name in meant if not specification.matches(name)] == []
    assert [name for name in not_meant if specification.matches(name)] == []


@given(pattern=PATTERNS, name=NAMES)
def test_a_specification_matches_according_to_the_definition(
    pattern: str, name: str
) -> None:
    expected = means(pattern.split("/"), name.split("/"))

    assert Specification(pattern).matches(name) == expected


def test_many_stars_in_a_row_cost_no_more_than_their_product() -> None:
    """The literal definition would try more than 10**15 ways."""
    specification = Specification("**/a/" * 20 + "b")

    assert not specification.matches("/".join("a" * 60))
    assert specification.matches("/".join("a" * 60 + "b"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", Specification("a")),
        ("a/*", Specification("a/*")),
        ("ism://m/**/x", Specification("**/x", machine="m")),
        ("ism://b@m/*", Specification("*", machine="m", bus="b")),
    ],
)
def test_it_is_read_and_written_as_an_address(
    text: str, expected: Specification
) -> None:
    assert Specification.parse(text) == expected
    assert str(expected) == text
    assert Specification.parse(text) is Specification.parse(text)


@given(pattern=PATTERNS)
def test_it_is_plain_if_it_means_one_name_only(pattern: str) -> None:
    assert Specification(pattern).is_plain == ("*" not in pattern)


@clause("BUS-NAME-6")
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a*", r"must be '\*' or '\*\*', got 'a\*'"),
        ("x/*b", r"got '\*b'"),
        ("***", r"got '\*\*\*'"),
        ("**/a**", r"got 'a\*\*'"),
        ("", "module name"),
        ("*/", "empty segment"),
        ("*//a", "empty segment"),
        ("/*", "module name"),
        ("*/..", r"'\.\.'"),
        ("é/*", "module name"),
        ("*/" * 64 + "a", "module name"),
        ("ism://*/a", "must name one machine"),
        ("ism://*@m/a", "bus name"),
        ("ism://m", "must have a module"),
    ],
)
def test_an_invalid_specification_raises_value_error(text: str, what: str) -> None:
    """The error names the whole text, and the faulty part."""
    with pytest.raises(ValueError, match=what) as caught:
        Specification.parse(text)

    assert repr(text) in str(caught.value)


def test_a_bus_needs_a_machine() -> None:
    with pytest.raises(ValueError, match="must name its machine, got bus 'b'"):
        Specification("*", bus="b")


@pytest.mark.parametrize("wrong", [None, 7, b"*", ["*"]], ids=repr)
def test_a_specification_that_is_no_text_raises_type_error(wrong: object) -> None:
    with pytest.raises(TypeError, match="specification must be a str"):
        Specification.parse(wrong)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match="must be a str"):
        Specification(wrong)  # type: ignore[arg-type]  # on purpose
