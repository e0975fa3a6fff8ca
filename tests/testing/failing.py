"""Helpers: the failure that an exploration finds, and its story."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, explore

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

__all__ = ["failure_of", "story_of", "unnumbered"]


def failure_of(program: Callable[[Run], object], **options: Any) -> Failure:
    """Return the failure that the exploration of a program finds."""
    with pytest.raises(Failure) as caught:
        explore(program, **options)
    return caught.value


def unnumbered(story: str) -> str:
    """Return a story without the line numbers of these tests."""
    return re.sub(r"(?<![\w/])(?:tests/testing/)?(\w+)\.py:\d+", r"\1", story)


def story_of(program: Callable[[Run], object], **options: Any) -> str:
    """Return the story of an exhaustive search's failure, without line numbers."""
    return unnumbered(failure_of(program, random=0, **options).story)
