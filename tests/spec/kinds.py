"""The two kinds of end, `fast` and `locked`, as parameters of tests."""

from __future__ import annotations

import pytest

from tests.pairs import look_away

KINDS = {"fast": None, "locked": look_away}
both_kinds = pytest.mark.parametrize("kind", KINDS)
