"""Every message arrives once and in order, while threads work at the same time."""

from __future__ import annotations

import pytest

from tests.parallel.rounds import Round


@pytest.mark.parametrize("seed", range(1, 5))
def test_each_message_of_a_drawn_round_is_received_once_and_in_order(seed: int) -> None:
    assert Round(seed, 200).run() > 0
