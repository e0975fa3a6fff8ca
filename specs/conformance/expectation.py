"""`expect` and `require`: what programs state, in words that a reader understands.

Not pytest's rewritten ``assert``: programs also run where pytest is not, and under
``python -O``.
"""

from __future__ import annotations

__all__ = ["expect", "require"]


def expect(actual: object, wanted: object, what: str) -> None:
    """Raise an AssertionError that names ``what`` unless the two are equal."""
    if actual != wanted:
        raise AssertionError(f"{what}: expected {_short(wanted)}, got {_short(actual)}")


def require(holds: object, what: str) -> None:
    """Raise an AssertionError that says ``what`` was found unless it holds."""
    if not holds:
        raise AssertionError(what)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:80]}...{text[-30:]}"
