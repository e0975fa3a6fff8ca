"""`Guests`: the simulated processes that belong to another user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from bus.model.rights import Rights

__all__ = ["NO_GUESTS", "Guests"]


@attrs.frozen
class Guests:
    """The guests of a world, and what each process grants them.

    rights: the rights of a guest, by its name and the name of the process that grants
      them; None for all rights.
    """

    names: Container[str]
    rights: Callable[[str, str], Rights | None]


NO_GUESTS = Guests((), lambda _who, _by: None)
