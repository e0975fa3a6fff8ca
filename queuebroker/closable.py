"""`Closable`: the common base of brokers, managers and ends: ``with`` closes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Closable"]


class Closable:
    """An object that is closed at the end of a ``with`` block, also by an exception."""

    __slots__ = ()

    def close(self) -> None:
        """Close the object; each subclass documents the effect."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
