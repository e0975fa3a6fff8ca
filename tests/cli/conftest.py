"""A live bus of real processes, for the verbs that look at one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.links.real import Far

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def alpha() -> Iterator[Far]:
    """Give the master of a bus, with a task ``echo`` that answers what it gets."""
    with Far("alpha", role="master") as far:
        far.started()
        far("counter('echo')")
        yield far


@pytest.fixture
def beta(alpha: Far) -> Iterator[Far]:
    """Give a slave of that bus, with a task ``far`` that answers what it gets."""
    with Far("beta") as far:
        far.started()
        far("counter('far')")
        yield far
