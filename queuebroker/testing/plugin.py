"""The pytest11 entry point: the option ``--conformance``, and nothing else.

It is loaded with every pytest of whoever has the package installed, so it must stay
this small. The suite that the option is for lies in ``specs/conformance``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["pytest_addoption"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which an implementation is handed to the suite."""
    parser.getgroup("queuebroker").addoption(
        "--conformance",
        metavar="FILE:factory",
        default=None,
        help="implementation of the channel contract to test, as FILE:factory or "
        "module:factory; the suite is specs/conformance (--pyargs specs.conformance)",
    )
