"""`run_callback`: run a callback of a task, and contain its exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.api.reentry import calls_user

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.process.mailbox import Client

__all__ = ["run_callback"]


@calls_user
def run_callback(
    callback: Callable[[Any], object], argument: object, client: Client
) -> None:
    """Call a callback of a task; record its exception with the task (BUS-MSG-13)."""
    try:
        callback(argument)
    except Exception:  # noqa: BLE001 # contained
        client.on_exception(callback)
