"""`Field`: a number at a fixed offset of a record in the control region."""

from __future__ import annotations

from struct import Struct
from typing import Protocol

__all__ = ["Field", "Record"]


class Record(Protocol):
    """Bytes of the control region that begin at a fixed position."""

    @property
    def region(self) -> memoryview:
        """The control region."""
        ...

    @property
    def at(self) -> int:
        """The position of the first byte."""
        ...


class Field:
    """A little-endian number of a record, read and written in place.

    Args:
        offset: its position in the record, in bytes.
        form: its format, as for `struct`.
    """

    __slots__ = ("_offset", "_pack", "_unpack")

    def __init__(self, offset: int, form: str = "<I") -> None:
        number = Struct(form)
        self._offset = offset
        self._pack = number.pack_into
        self._unpack = number.unpack_from

    def __get__(self, record: Record, owner: type | None = None) -> int:
        number: int = self._unpack(record.region, record.at + self._offset)[0]
        return number

    def __set__(self, record: Record, number: int) -> None:
        self._pack(record.region, record.at + self._offset, number)
