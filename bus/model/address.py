"""`Address`: the destination of a message, ``mod`` or ``ism://bus@machine/mod``.

``ism://*/mod`` is the task with that name on any machine of the bus (BUS-NAME-8).

Only this module defines legal names (BUS-NAME-6): names become parts of paths and of
wire frames, so a name outside the three patterns must not pass. If an address names no
machine or bus, the router chooses them: this module does not know where it runs.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Final

import attrs

__all__ = [
    "ANY_MACHINE",
    "SYSTEM",
    "Address",
    "check_bus_name",
    "check_machine_name",
    "check_module_name",
    "fresh_name",
    "is_anywhere",
    "is_system",
    "name_anywhere",
    "names_any_machine",
    "split_absolute",
    "text_of",
]

_SCHEME: Final = "ism://"

# The first segment of the names of tasks that a bus registers for itself.
SYSTEM: Final = "_bus"

# In an address, in place of a machine: any machine of the bus (BUS-NAME-8).
ANY_MACHINE: Final = "*"

_ANYWHERE: Final = f"{_SCHEME}{ANY_MACHINE}/"

# BUS-NAME-6. The ranges spell out ASCII: `\w` would admit other alphabets.
_MACHINE: Final = r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}"
_MODULE: Final = r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}"
_MODULE_WITH_STARS: Final = r"[A-Za-z0-9_*][A-Za-z0-9_*./-]{0,127}"
_BUS: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,31}"

# The same patterns in words.
_IN_WORDS: Final = {
    _MACHINE: "use at most 63 letters, digits, . and -; begin with no . or -",
    _MODULE: "use at most 128 letters, digits, _ . / and -; begin with no . / or -",
    _MODULE_WITH_STARS: "use at most 128 letters, digits, _ * . / and -",
    _BUS: "use at most 32 letters, digits, _ and -; begin with no -",
}

# A program uses few addresses and uses them often. The bound keeps a program that
# generates names, say by a counter, from filling memory. 4,096 entries take 1 to 3 MiB.
_REMEMBERED: Final = 4096


def check_machine_name(name: str) -> None:
    """Raise unless ``name`` is a legal name of a machine (BUS-NAME-6).

    Raises:
        TypeError: it is no `str`.
        ValueError: it is not legal; the text names the broken rule.
    """
    _check("machine", _MACHINE, name)


def check_module_name(name: str, *, stars: bool = False, what: str = "module") -> None:
    """Raise unless ``name`` is a legal name of a module (BUS-NAME-6).

    what: the kind of name, for the error; process names follow the same rule.
    stars: allow ``*`` wherever ``_`` is allowed, as in a pattern of names.

    Raises:
        TypeError, ValueError: as `check_machine_name`.
    """
    if stars:
        _check_type("module", name)
        _check_form("module", _MODULE_WITH_STARS, name)
    else:
        _check(what, _MODULE, name)


def check_bus_name(name: str) -> None:
    """Raise unless ``name`` is a legal name of a bus (BUS-NAME-6).

    Raises:
        TypeError: it is no `str`.
        ValueError: it is not legal; the text names the broken rule.
    """
    _check("bus", _BUS, name)


def fresh_name(prefix: str) -> str:
    """Return a name that no living process on this machine has chosen.

    44 random bits follow the prefix. The name does not contain the process id: two
    containers that share a run directory may have processes of one id (BUS-ENT-16).
    """
    return f"{prefix}{int.from_bytes(os.urandom(6)) >> 4:011x}"


def is_system(name: str) -> bool:
    """Return True if a module's name is reserved for the bus itself."""
    return name.startswith(f"{SYSTEM}/")


def name_anywhere(module: str) -> str:
    """Return the name under which messages wait for a module of any machine."""
    return f"{_SCHEME}{ANY_MACHINE}/{module}"


def is_anywhere(name: str) -> bool:
    """Return True if `name_anywhere` made a name: its machine is ``*``."""
    return name.startswith(_ANYWHERE)


def names_any_machine(text: str) -> bool:
    """Return True if a text begins as an address of any machine, with or without bus.

    The rest is not checked.
    """
    authority, _, _ = text.removeprefix(_SCHEME).partition("/")
    machine = authority.rpartition("@")[2]
    return text.startswith(_SCHEME) and machine == ANY_MACHINE


def _check(what: str, legal: str, name: str) -> None:
    _check_type(what, name)
    _check_known(what, legal, name)


def _check_type(what: str, name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{what} name must be a str, got {type(name).__name__}")


def _check_form(what: str, legal: str, name: str) -> None:
    if re.fullmatch(legal, name) is None:
        raise ValueError(
            f"{what} name must match {legal}, got {name!r}; {_IN_WORDS[legal]}"
        )
    if ".." in name:
        raise ValueError(f"{what} name must not contain '..', got {name!r}")
    if legal not in {_MACHINE, _BUS} and (name.endswith("/") or "//" in name):
        raise ValueError(f"{what} name must have no empty segment, got {name!r}")


# Names arrive in every frame and are few; patterns vary, so they are not cached.
_check_known: Final = lru_cache(_REMEMBERED)(_check_form)


@attrs.frozen
class Address:
    """A destination: a module, on a machine, of a bus (BUS-NAME-1, BUS-NAME-5).

    machine: None for the sender's machine; ``*`` for any machine of the bus, such as in
      ``ism://*/log`` (BUS-NAME-8). If several machines have the name, the sender's own
      one is used, else the one with the smallest name.
    module: the name under which a task is registered.
    bus: None for the sender's bus; given only together with a machine, since the text
      of an address has no other place for it.

    Raises:
        TypeError, ValueError: a name is not legal (BUS-NAME-6), or a bus is given
          without a machine.
    """

    module: str
    machine: str | None = attrs.field(default=None, kw_only=True)
    bus: str | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_module_name(self.module)
        if self.machine not in {None, ANY_MACHINE}:
            check_machine_name(self.machine)
        if self.bus is not None:
            check_bus_name(self.bus)
            if self.machine is None:
                raise ValueError(
                    f"address with a bus must name its machine, got bus {self.bus!r}"
                )

    def __str__(self) -> str:
        """Return the text that `parse` reads as this address."""
        return text_of(self.bus, self.machine, self.module)

    @staticmethod
    def parse(text: str) -> Address:
        """Parse ``mod``, ``ism://[bus@]machine/mod`` or ``ism://[bus@]*/mod``.

        Recently parsed texts are cached.

        Raises:
            TypeError: ``text`` is no `str`.
            ValueError: ``text`` is no address; the error names the part and the reason.
        """
        # Before the cache lookup, which raises another error for an unhashable value.
        if not isinstance(text, str):
            raise TypeError(f"address must be a str, got {type(text).__name__}")
        return _parsed(text)


@lru_cache(maxsize=_REMEMBERED)
def _parsed(text: str) -> Address:
    try:
        bus, machine, module = split_absolute(text)
        return Address(module, machine=machine, bus=bus)
    except ValueError as error:
        raise ValueError(f"{text!r} is no address: {error}") from None


def split_absolute(text: str) -> tuple[str | None, str | None, str]:
    """Return bus, machine and rest of ``ism://[bus@]machine/rest``, unchecked.

    A text without the scheme is all rest.

    Raises:
        ValueError: nothing follows the machine.
    """
    if not text.startswith(_SCHEME):
        return None, None, text
    authority, slash, rest = text.removeprefix(_SCHEME).partition("/")
    if not slash:
        raise ValueError(f"{_SCHEME}machine/module must have a module")
    bus, at, machine = authority.rpartition("@")
    return (bus if at else None), machine, rest


def text_of(bus: str | None, machine: str | None, rest: str) -> str:
    """Return the text that `split_absolute` splits into these parts."""
    if machine is None:
        return rest
    return f"{_SCHEME}{machine if bus is None else f'{bus}@{machine}'}/{rest}"
