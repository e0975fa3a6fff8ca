"""`Specification`: the names that a subscription matches, one or a pattern of them.

Names are split by ``/`` into segments. In a pattern ``*`` matches one segment and
``**`` any number of them, including none; every other segment matches itself. A
registered name holds no star, so a text without stars matches one name. No star matches
the first segment of the names reserved for the bus itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import attrs

from bus.model.address import (
    ANY_MACHINE,
    SYSTEM,
    check_bus_name,
    check_machine_name,
    check_module_name,
    is_system,
    split_absolute,
    text_of,
)

__all__ = ["ANY_SEGMENTS", "ONE_SEGMENT", "Specification"]

ONE_SEGMENT: Final = "*"
ANY_SEGMENTS: Final = "**"

# As for addresses: few are in use, and generated ones must not fill memory.
_REMEMBERED: Final = 1024


@attrs.frozen
class Specification:
    """A pattern of names, on one machine, of one bus; a plain name is the simplest.

    pattern: its segments, separated by ``/``.
    machine: None for the caller's machine.
    bus: None for the caller's bus; given only together with a machine.

    Two are equal if their texts are: ``**`` and ``**/**`` are not.

    Raises:
        TypeError, ValueError: a part is not legal (BUS-NAME-6), or a segment has a star
          and something else.
    """

    pattern: str
    machine: str | None = attrs.field(default=None, kw_only=True)
    bus: str | None = attrs.field(default=None, kw_only=True)
    segments: tuple[str, ...] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        _check_pattern(self.pattern)
        if self.machine == ANY_MACHINE:
            raise ValueError(
                "specification must name one machine, or none for the own machine, "
                f"got {ANY_MACHINE!r}; subscribe to or watch each machine by its name"
            )
        if self.machine is not None:
            check_machine_name(self.machine)
        if self.bus is not None:
            check_bus_name(self.bus)
            if self.machine is None:
                raise ValueError(
                    f"specification with a bus must name its machine, "
                    f"got bus {self.bus!r}"
                )
        object.__setattr__(self, "segments", tuple(self.pattern.split("/")))

    @staticmethod
    def parse(text: str) -> Specification:
        """Parse ``pattern``, or ``ism://[bus@]machine/pattern``.

        Recently parsed texts are cached.

        Raises:
            TypeError: ``text`` is no `str`.
            ValueError: ``text`` is no specification; the error gives the reason.
        """
        if not isinstance(text, str):
            raise TypeError(f"specification must be a str, got {type(text).__name__}")
        return _parsed(text)

    def __str__(self) -> str:
        """Return the text that `parse` reads as this specification."""
        return text_of(self.bus, self.machine, self.pattern)

    @property
    def is_plain(self) -> bool:
        """True if it matches one name only."""
        return ONE_SEGMENT not in self.pattern

    def matches(self, name: str) -> bool:
        """Return True if it matches the module ``name``; the machine is ignored."""
        if self.is_plain:
            return self.pattern == name
        if is_system(name) and self.segments[0] != SYSTEM:
            return False
        return _matches(self.segments, name.split("/"))


@lru_cache(maxsize=_REMEMBERED)
def _parsed(text: str) -> Specification:
    try:
        bus, machine, pattern = split_absolute(text)
        return Specification(pattern, machine=machine, bus=bus)
    except ValueError as error:
        raise ValueError(f"{text!r} is no specification: {error}") from None


def _check_pattern(pattern: str) -> None:
    check_module_name(pattern, stars=True)
    for segment in pattern.split("/"):
        if "*" in segment and segment not in {ONE_SEGMENT, ANY_SEGMENTS}:
            raise ValueError(
                f"a segment with a star must be '*' or '**', got {segment!r}"
            )


def _matches(segments: tuple[str, ...], name: list[str]) -> bool:
    """Match a name against a pattern, in time of at most the product of their lengths.

    It backtracks to the last ``**`` only: if the part before it matches at all, its
    earliest match leaves the most for the rest.
    """
    at = here = 0
    behind = -1  # the segment after the last `**` met
    taken = 0  # where the current match of that `**` ends in the name
    while here < len(name):
        segment = segments[at] if at < len(segments) else None
        if segment == ANY_SEGMENTS:
            at += 1
            behind, taken = at, here
        elif segment in {ONE_SEGMENT, name[here]}:
            at += 1
            here += 1
        elif behind >= 0:
            taken += 1
            at, here = behind, taken
        else:
            return False
    return all(segment == ANY_SEGMENTS for segment in segments[at:])
