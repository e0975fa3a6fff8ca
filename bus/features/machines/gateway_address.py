"""The addresses of processes that other machines reach only through a master."""

from __future__ import annotations

from typing import Final

__all__ = [
    "address_for_master",
    "address_via_master",
    "gateway_address",
    "split_gateway_address",
]

_VIA_MASTER: Final = "by-master "


def gateway_address(master: str, process: str) -> str:
    """Return the address of a process behind the address of its master."""
    return f"{master}/{process}"


def address_via_master(address: str) -> str:
    """Return the address that makes this process ask its own master to dial."""
    return _VIA_MASTER + address


def address_for_master(address: str) -> str | None:
    """Return the address that this process's own master dials; None for another one."""
    if not address.startswith(_VIA_MASTER):
        return None
    return address.removeprefix(_VIA_MASTER)


def split_gateway_address(address: str) -> tuple[str, str | None]:
    """Return the address to dial, and the process to ask for there, if any."""
    scheme, mark, rest = address.partition("://")
    place, slash, process = rest.partition("/")
    if not slash or scheme == "ipc":
        return address, None
    return scheme + mark + place, process
