"""`expect` and `require`: assertions of programs with readable messages.

They replace pytest's rewritten ``assert``, since programs also run without pytest, and
under ``python -O``.
"""

from __future__ import annotations

__all__ = ["expect", "require"]


def expect(actual: object, wanted: object, what: str) -> None:
    """Raise an AssertionError that names ``what`` unless the two are equal."""
    if actual != wanted:
        raise AssertionError(f"{what}: expected {_short(wanted)}, got {_short(actual)}")


def require(holds: object, what: str) -> None:
    """Raise an AssertionError with the text ``what`` unless the condition holds."""
    if not holds:
        raise AssertionError(what)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:80]}...{text[-30:]}"
