"""The registry reads every clause, and the decorator ties tests to clauses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specs.clauses import (
    Clause,
    clause,
    index_pages,
    is_clause_id,
    load_clauses,
    natural_key,
    parse_page,
)

# The numbers of the groups that are built, counted by hand.
NUMBERS = {
    "QB-NAME": range(1, 13),
    "QB-RDV": range(1, 18),
    "QB-SEND": range(1, 11),
    "QB-RECV": range(1, 10),
    "QB-FIFO": range(1, 7),
    "QB-BUF": range(1, 11),
    "QB-CHAN": range(1, 8),
    "QB-DISC": range(1, 16),
    "QB-ERR": range(1, 11),
    "QB-TIME": range(1, 11),
    "QB-CONC": range(1, 12),
    "QB-PY": range(1, 14),
    "QB-BULK": range(1, 4),
    "QB-BOOK": range(1, 6),
    "QB-WAIT": (1,),
    "AMO": range(1, 30),
    # 4 and 6, the receivers and the contents of a search, are not built yet.
    "B": (1, 2, 3, 4, 5, 6),
    "BP": range(1, 22),
    "QB-SOCK": range(1, 12),
    # The ones that processes decide; the rest comes with sockets and discovery. 7, to
    # send past the comm thread, is only an optimization.
    "BUS-CHAN": tuple(range(1, 10)),
    "BUS-DEREG": range(1, 15),
    "BUS-DISC": range(1, 15),
    "BUS-ENT": (*range(1, 9), *range(10, 15), 16, 17, 18),
    "BUS-FLOW": range(1, 10),
    "BUS-PAGE": range(1, 6),
    "BUS-INIT": range(1, 18),
    "BUS-MOVE": range(1, 11),
    "BUS-MSG": range(1, 22),
    "BUS-NAME": range(1, 9),
    "BUS-RELAY": range(1, 13),
    # 16, messages by way of the masters, is optional.
    "BUS-ROUTE": range(1, 22),
    "BUS-SEC": range(1, 11),
    "BUS-WIRE": range(1, 5),
    "J": (1,),
    "MC": [*range(1, 42)],
    "OPEN": (1, 2, 3, 10, 12, 15, 19, 20, 21),
    # 6, causality across machines, is not built yet.
    "Q": (1, 2, 3, 4, 5, 6, 7, 8),
}


def test_every_clause_of_every_group_is_read() -> None:
    read: dict[str, list[int]] = {}
    for name, each in load_clauses().items():
        assert each.id == name
        read.setdefault(each.group, []).append(natural_key(name)[1])

    assert read == {group: list(numbers) for group, numbers in NUMBERS.items()}


def test_only_default_timeouts_are_withdrawn() -> None:
    withdrawn = [each.id for each in load_clauses().values() if each.withdrawn]

    assert withdrawn == ["QB-TIME-10"]


def test_every_clause_has_a_text_and_says_where_it_comes_from() -> None:
    for each in load_clauses().values():
        assert len(each.text) > 30, each.id
        assert each.source.startswith(("[", "ours")), each.id
        assert each.source.endswith("."), each.id


def test_a_clause_knows_where_it_stands() -> None:
    page = (
        "# Title\n\nWords.\n\n* **QB-X-1** A rule\n  on two lines.\n  *Source: ours.*\n"
    )

    (read,) = parse_page("x.md", page)

    assert read == Clause(
        "QB-X-1", "QB-X", "A rule on two lines.", "ours.", False, "x.md", 5
    )


def test_a_clause_may_be_a_list_item_or_a_paragraph() -> None:
    page = (
        "* **QB-X-1** One. *Source: ours.*\n"
        "- **QB-X-2** (withdrawn) Two. *Source: ours.*\n"
        "\n"
        "**J3** Three. *Source: [Over];\nA1.*"
    )

    read = list(parse_page("x.md", page))

    assert [(each.id, each.withdrawn, each.source) for each in read] == [
        ("QB-X-1", False, "ours."),
        ("QB-X-2", True, "ours."),
        ("J3", False, "[Over]; A1."),
    ]


def test_a_number_inside_a_sentence_or_a_code_block_is_no_clause() -> None:
    page = "See **QB-X-1** there.\n\n    * **QB-X-2** Sample. *Source: ours.*\n"

    assert list(parse_page("x.md", page)) == []


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("\n* **QB-X-1** A rule.\n", "clause QB-X-1 has no source: x.md:2"),
        ("* **QB-X-1** *Source: ours.*", "clause QB-X-1 has no text: x.md:1"),
    ],
)
def test_a_clause_without_text_or_source_is_refused(page: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(parse_page("x.md", page))


def test_a_clause_that_stands_twice_is_refused() -> None:
    page = "* **QB-X-1** A rule. *Source: ours.*\n"

    with pytest.raises(ValueError, match=r"QB-X-1 stands twice: a\.md:1 and b\.md:1"):
        index_pages([("a.md", page), ("b.md", page)])


def test_clauses_are_sorted_by_group_and_number() -> None:
    page = "".join(
        f"* **{name}** A rule. *Source: ours.*\n"
        for name in ("QB-B-10", "QB-B-2", "Q1", "QB-A-3", "J1")
    )

    assert list(index_pages([("x.md", page)])) == [
        "J1",
        "Q1",
        "QB-A-3",
        "QB-B-2",
        "QB-B-10",
    ]


@pytest.mark.parametrize(
    "good", ["QB-RDV-1", "QB-TIME-10", "BUS-ROUTE-3", "MC-1", "Q7"]
)
def test_numbers_of_clauses_are_recognised(good: str) -> None:
    assert is_clause_id(good)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "QB-RDV",
        "QB-RDV-0",
        "QB-RDV-01",
        "qb-rdv-1",
        "QB_RDV_1",
        "RDV1",
        "Q-1 ",
        "1",
    ],
)
def test_other_words_are_refused_as_numbers(bad: str) -> None:
    assert not is_clause_id(bad)
    with pytest.raises(ValueError, match="must look like QB-RDV-3"):
        clause(bad)


@given(st.text())
def test_no_text_crashes_the_reading_of_a_page(text: str) -> None:
    assert list(parse_page("x.md", text)) == []


def test_the_decorator_gives_back_the_function_itself() -> None:
    def check() -> str:
        return "ran"

    tied = clause("QB-RDV-1", "QB-RDV-2")(check)

    assert tied is check
    assert tied() == "ran"
    assert vars(tied)["__clauses__"] == ("QB-RDV-1", "QB-RDV-2")


def test_used_twice_the_decorator_adds_up() -> None:
    def check() -> None: ...

    tied = clause("QB-RDV-1")(clause("QB-RDV-2")(check))

    assert vars(tied)["__clauses__"] == ("QB-RDV-1", "QB-RDV-2")


def test_a_derived_test_class_does_not_take_over_clauses() -> None:
    class Base: ...

    class Derived(Base): ...

    clause("QB-RDV-1")(Base)
    clause("QB-RDV-2")(Derived)

    assert vars(Base)["__clauses__"] == ("QB-RDV-1",)
    assert vars(Derived)["__clauses__"] == ("QB-RDV-2",)


def test_the_decorator_wants_at_least_one_clause() -> None:
    with pytest.raises(ValueError, match="no clause is named"):
        clause()


def test_the_decorator_wants_strings() -> None:
    with pytest.raises(TypeError, match="clause id must be a str, got int"):
        clause(1)  # type: ignore[arg-type] # under test
