"""The words for a connect that failed, and whether one side refused the other."""

from __future__ import annotations

import errno
import ssl

import pytest

from bus.process.link_helpers import connect_failure
from queuebroker.errors import RendezvousTimeoutError, UnknownBrokerError
from queuebroker.sockets import NotAdmittedError
from specs.clauses import clause

PLACE = "tls://192.0.2.2:7400"


def caused(error: Exception, cause: BaseException) -> Exception:
    """Return an error with a cause."""
    error.__cause__ = cause
    return error


def alert(name: str) -> ssl.SSLError:
    """Return the error for an alert of the other side."""
    error = ssl.SSLError(1, "x")
    error.reason = f"TLSV1_ALERT_{name}"
    return error


@clause("BUS-DISC-13")
@pytest.mark.parametrize(
    ("error", "why", "is_refusal"),
    [
        (RendezvousTimeoutError("x"), f"{PLACE}: no answer in time", False),
        (
            caused(UnknownBrokerError("x"), OSError(errno.EHOSTUNREACH, "No route")),
            f"{PLACE}: no route",
            False,
        ),
        (UnknownBrokerError("x"), f"{PLACE}: nobody listens there", False),
        (
            NotAdmittedError(f"not admitted at {PLACE}"),
            f"not admitted at {PLACE}",
            True,
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", PLACE),
            f"{PLACE}: Permission denied",
            True,
        ),
        (PermissionError("not trusted"), f"{PLACE}: not trusted", True),
        (ValueError("no scheme"), f"{PLACE}: no scheme", True),
        (alert("UNKNOWN_CA"), f"{PLACE}: the other side reports: unknown ca", True),
        (OSError("no descriptor"), f"cannot connect to {PLACE}: no descriptor", False),
    ],
)
def test_a_failed_connect_has_a_reason_with_its_address(
    error: Exception, why: str, is_refusal: bool
) -> None:
    failure = connect_failure(error, PLACE)

    assert (failure.why, failure.is_refusal) == (why, is_refusal)
