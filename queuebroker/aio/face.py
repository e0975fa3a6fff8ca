"""`Face`: the common part of the faces for coroutines, and `face_of`, which makes them.

A face adds no state and no rules: its plain object has both. The faces of `bus.pattern`
are made of this, too.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from queuebroker.arguments import wrong_type
from queuebroker.closable import Closable

__all__ = ["Face", "face_of"]

P = TypeVar("P", bound=Closable)


class Face(Closable, Generic[P]):
    """The face of a plain object for coroutines; both may be used at once.

    ``with`` and ``async with`` close the object on leaving.
    """

    __slots__ = ("__weakref__", "_plain")

    # The class of the plain objects; `face_of` looks it up.
    _plain_type: ClassVar[type[Closable]]

    def __init__(self, plain: P) -> None:
        self._plain = plain

    @classmethod
    def _of(cls, plain: P) -> Self:
        """Return the face of an existing object; overridden if `__init__` makes one."""
        return cls(plain)

    def __repr__(self) -> str:
        return f"<aio {self._plain!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def face_of(existing: object, wanted: str, *faces: type[Face[Any]]) -> Any:
    """Return the face of an existing object, of the first class that is for it.

    The overloads of each ``wrap`` state the types.

    Raises:
        TypeError: none is; its text names the plain classes, as ``wanted`` does.
    """
    for face in faces:
        if isinstance(existing, face._plain_type):
            return face._of(existing)
    raise wrong_type("object to wrap", wanted, existing)
