"""`connect_failure`: why a connect to an address of another process failed."""

from __future__ import annotations

from bus.core.remote.master_dialler import DialFailure
from queuebroker import _net
from queuebroker.errors import (
    QueueBrokerError,
    RendezvousTimeoutError,
    UnknownBrokerError,
)

__all__ = ["connect_failure"]


def connect_failure(error: Exception, address: str) -> DialFailure:
    """Return the failure of a dial, from the exception that the connect has raised."""
    if isinstance(error, RendezvousTimeoutError):
        return DialFailure(f"{address}: no answer in time")
    if isinstance(error, UnknownBrokerError):
        cause = error.__cause__
        system = isinstance(cause, OSError) and cause.strerror
        return DialFailure(f"{address}: {(system or 'nobody listens there').lower()}")
    if isinstance(error, _net.TlsError):  # one side rejects the keys of the other
        return DialFailure(f"{address}: {_net.tls_reason(error)}", is_refusal=True)
    if isinstance(error, (PermissionError, ValueError)):
        # ValueError: an invalid address from another process. Only an error of a broker
        # names the address itself.
        words = getattr(error, "strerror", None) or str(error)
        named = isinstance(error, QueueBrokerError)
        return DialFailure(words if named else f"{address}: {words}", is_refusal=True)
    return DialFailure(f"cannot connect to {address}: {error}")
