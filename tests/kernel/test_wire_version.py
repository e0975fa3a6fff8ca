"""`negotiate`: the highest version that both support, whichever side asks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import VersionMismatchError
from bus.kernel.wire import VERSIONS, negotiate
from specs.clauses import clause

RANGES = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(
    lambda pair: (min(pair), max(pair))
)


@clause("BUS-WIRE-3")
@given(ours=RANGES, theirs=RANGES)
def test_it_is_the_highest_that_both_speak(
    ours: tuple[int, int], theirs: tuple[int, int]
) -> None:
    both = set(range(ours[0], ours[1] + 1)) & set(range(theirs[0], theirs[1] + 1))

    if both:
        assert negotiate(ours, theirs) == negotiate(theirs, ours) == max(both)
        return
    with pytest.raises(VersionMismatchError) as failed:
        negotiate(ours, theirs)
    assert (failed.value.ours, failed.value.theirs) == (ours, theirs)


@clause("BUS-WIRE-3")
def test_a_process_speaks_with_its_like() -> None:
    assert negotiate(VERSIONS, VERSIONS) == VERSIONS[1]
