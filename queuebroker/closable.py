"""`Uncopyable`: an object of one process; `Closable`: one that ``with`` closes.

They are the bases of brokers, managers and ends, and of their counterparts in `bus`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Closable", "Uncopyable"]


class Uncopyable:
    """An object that cannot be pickled or copied, since it belongs to its process.

    It holds threads, locks or descriptors: a copy would share half of its state with
    the original (QB-ERR-10).
    """

    __slots__ = ()

    # The alternative to a copy, for the text of the error.
    _in_place_of_copy: ClassVar[str] = "another process creates its own"

    def __reduce__(self) -> NoReturn:
        # pickle, copy and deepcopy call this.
        raise TypeError(
            f"cannot pickle or copy {type(self).__name__}: it belongs to its process;"
            f" {self._in_place_of_copy}"
        )

    # A `msgspec.Struct` has one of its own, which `copy` prefers.
    __copy__ = __reduce__


class Closable(Uncopyable):
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
