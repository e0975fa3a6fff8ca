"""``python -m bus``, the same as the command ``bus``."""

from __future__ import annotations

from bus.cli import main

__all__: list[str] = []

main(prog_name="bus")
