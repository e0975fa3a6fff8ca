"""`bus.model.address`: the grammar of addresses; any other text is rejected."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.model.address import (
    Address,
    check_bus_name,
    check_machine_name,
    check_module_name,
    split_absolute,
)
from specs.clauses import clause

# The patterns of the clause, repeated here.
LEGAL = {
    check_machine_name: r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}",
    check_module_name: r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}",
    check_bus_name: r"[A-Za-z0-9_][A-Za-z0-9_-]{0,31}",
}

# Names near the border between legal and illegal.
ALMOST = st.text("aZ09_.-/ @:*~é\n\0", max_size=6) | st.builds(
    lambda first, rest, last: first + rest + last,
    st.sampled_from(["", "a", "."]),
    st.sampled_from(["x" * length for length in (30, 31, 61, 62, 126, 127)]),
    st.sampled_from(["", "y", "/", "\n"]),
)


def is_legal(pattern: str, name: str) -> bool:
    """Return True if a name is legal in the words of BUS-NAME-6."""
    return (
        re.fullmatch(pattern, name) is not None
        and ".." not in name
        and "" not in name.split("/")
    )


def names(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(pattern, fullmatch=True).filter(
        lambda name: is_legal(pattern, name)
    )


machines, modules, buses = map(names, LEGAL.values())


@clause("BUS-NAME-1")
@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("a", Address("a")),
        ("a/b-c/_d.e", Address("a/b-c/_d.e")),
        ("ism", Address("ism")),
        ("ism://m/a", Address("a", machine="m")),
        ("ism://m.local/a/b", Address("a/b", machine="m.local")),
        ("ism://bus1@m/a", Address("a", machine="m", bus="bus1")),
    ],
)
def test_an_address_is_read_and_written(text: str, address: Address) -> None:
    """A name, or ism://machine/module, or the same with a bus."""
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.deep
@clause("BUS-NAME-1")
@given(module=modules, machine=machines, bus=buses, parts=st.integers(1, 3))
def test_a_formatted_address_parses_to_an_equal_address(
    module: str, machine: str, bus: str, parts: int
) -> None:
    """Round trip, for every legal name."""
    address = Address(
        module,
        machine=machine if parts > 1 else None,
        bus=bus if parts > 2 else None,
    )

    assert Address.parse(str(address)) == address


@clause("BUS-NAME-1", "BUS-NAME-6")
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "module name"),
        ("ism:/m/a", "empty segment|module name"),
        ("ism://", "must have a module"),
        ("ism://m", "must have a module"),
        ("ism://m/", "module name"),
        ("ism:///a", "machine name"),
        ("ism://@m/a", "bus name"),
        ("ism://b@/a", "machine name"),
        ("ism://b@c@m/a", "bus name"),
        ("ism://m//a", "module name"),
        ("ISM://m/a", "module name"),
        ("ism://m_/a", "machine name"),
        ("ism://m/../a", "module name"),
        ("a/../b", r"'\.\.'"),
        ("a..b", r"'\.\.'"),
        ("a//b", "empty segment"),
        ("a/", "empty segment"),
        ("/a", "module name"),
        ("a\n", "module name"),
        ("é", "module name"),
        ("a*", "module name"),
        ("x" * 129, "module name"),
    ],
)
def test_nothing_else_is_an_address(text: str, what: str) -> None:
    """The error names the whole text, and the invalid part."""
    with pytest.raises(ValueError, match=what) as caught:
        Address.parse(text)

    assert repr(text) in str(caught.value)


@clause("BUS-NAME-6")
@pytest.mark.parametrize("check", LEGAL, ids=lambda check: check.__name__)
@given(name=ALMOST)
def test_a_name_is_legal_if_and_only_if_the_clause_says_so(
    check: object, name: str
) -> None:
    """Machine, module and bus each have a pattern; no '..', no empty segment."""
    assert callable(check)
    if is_legal(LEGAL[check], name):
        check(name)
    else:
        with pytest.raises(ValueError, match=re.escape(repr(name))):
            check(name)


@clause("BUS-NAME-6")
@given(text=st.text("aB1_./-@:", max_size=12).map("ism://".__add__) | ALMOST)
def test_a_text_is_an_address_if_and_only_if_its_parts_are_legal(text: str) -> None:
    """By a pattern of the whole, made of those of its parts."""
    machine, module, bus = LEGAL.values()
    whole = re.fullmatch(f"(?:ism://(?:({bus})@)?({machine})/)?({module})", text)
    legal = whole is not None and all(
        is_legal(".*", part) for part in whole.groups() if part is not None
    )
    try:
        address = Address.parse(text)
    except ValueError:
        assert not legal
    else:
        assert legal
        assert whole is not None
        assert (address.bus, address.machine, address.module) == whole.groups()


@clause("BUS-NAME-6")
def test_capitals_matter() -> None:
    """Two addresses that differ in case only are two."""
    assert Address.parse("ism://M/a") != Address.parse("ism://m/a")
    assert Address.parse("A") != Address.parse("a")


def test_a_bus_needs_a_machine() -> None:
    with pytest.raises(ValueError, match="must name its machine, got bus 'b'"):
        Address("a", bus="b")


@pytest.mark.parametrize("wrong", [None, 7, b"a", ["a"]], ids=repr)
def test_an_address_that_is_not_a_str_raises_a_type_error(wrong: object) -> None:
    with pytest.raises(TypeError, match="address must be a str"):
        Address.parse(wrong)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match="module name must be a str"):
        Address(wrong)  # type: ignore[arg-type]  # on purpose


def test_an_address_that_was_read_lately_is_the_same_object() -> None:
    assert Address.parse("ism://m/a") is Address.parse("ism://m/a")


def test_a_text_without_a_scheme_is_all_rest() -> None:
    assert split_absolute("a@b/c") == (None, None, "a@b/c")
