"""What was taken is said as one number, and never says too much."""

from __future__ import annotations

from random import Random

import pytest

from bus.core.receipts import Receipts
from specs.clauses import clause


@clause("BUS-RELAY-9")
@pytest.mark.parametrize("seed", range(20))
def test_all_up_to_the_number_said_was_taken(seed: int) -> None:
    """In whatever order; and no more is left out than what lies above a gap."""
    random = Random(seed)
    numbers = sorted(random.sample(range(1, 100), 20))
    receipts = Receipts()
    for number in numbers:
        receipts.expect(number)
    taken: set[int] = set()

    for number in random.sample(numbers, len(numbers)):
        before = receipts.extracted
        rose = receipts.take([number])
        taken.add(number)
        below = [each for each in numbers if each <= receipts.extracted]
        assert set(below) <= taken
        assert rose == (receipts.extracted > before)
        above = [each for each in numbers if each > receipts.extracted]
        assert not above or above[0] not in taken

    assert receipts.extracted == numbers[-1]
