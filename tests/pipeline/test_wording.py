"""The wording of numbers, times and names."""

from __future__ import annotations

import pytest

from bus.pipeline.wording import count, duration, moment, short, size


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1000, "1 µs"),
        (1234, "1.23 µs"),
        (5_000_000, "5 ms"),
        (61e9, "61 s"),
    ],
)
def test_a_duration_has_the_unit_people_use(ns: float, text: str) -> None:
    assert duration(ns) == text


def test_counts_and_sizes_have_three_digits() -> None:
    assert [count(n) for n in (0, 950, 1500, 12_345_678)] == [
        *("0", "950", "1.5 k", "12.3 M")
    ]
    assert [size(n) for n in (0, 1023, 1536, 3 * 2**30)] == [
        *("0 B", "1023 B", "1.5 KiB", "3 GiB")
    ]


def test_a_moment_is_in_utc_to_the_millisecond() -> None:
    assert moment(1_000_000_000_123_999) == "2001-09-09 01:46:40.123 UTC"


def test_a_name_is_one_line_of_moderate_length() -> None:
    assert short("worker-1") == "worker-1"
    assert short("a\nb\x1b[31m") == "a\\nb\\x1b[31m"
    assert short("a" * 14 + "b" * 15) == "a" * 13 + "…" + "b" * 13
    assert short("abcdefgh", 5) == "ab…gh"
