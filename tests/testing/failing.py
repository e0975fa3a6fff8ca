"""What an exploration finds wrong with a program, and how it is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, explore

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

__all__ = ["failure_of", "told", "unnumbered"]


def failure_of(program: Callable[[Run], object], **options: Any) -> Failure:
    """What the exploration of a program finds."""
    with pytest.raises(Failure) as caught:
        explore(program, **options)
    return caught.value


def unnumbered(story: str) -> str:
    """A story without the numbers of the lines in these tests."""
    return re.sub(r"(?<![\w/])(?:tests/testing/)?(\w+)\.py:\d+", r"\1", story)


def told(program: Callable[[Run], object], **options: Any) -> str:
    """The story of what an exhaustive search finds, without those numbers."""
    return unnumbered(failure_of(program, random=0, **options).story)
