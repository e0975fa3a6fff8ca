"""`within`: wait until a rule is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kills.member import MemberError
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["within"]


def within(faults: Callable[[], list[str]], what: str, limit_s: float) -> None:
    """Wait until there is no fault any more.

    Raises:
        AssertionError: there still is one after ``limit_s`` seconds.
        MemberError: a process could not report its faults.
    """
    found: list[str] = []

    def none() -> bool:
        found[:] = faults()
        return not found

    try:
        until(none, what, limit_s=limit_s)
    except MemberError:
        raise  # it is an AssertionError, too, and nothing is known about faults
    except AssertionError:
        raise AssertionError(f"{what} after {limit_s:g} s: {found}") from None
