"""``python -m queuebroker.testing``: see `queuebroker.testing.command`."""

from __future__ import annotations

import sys

from queuebroker.testing.command import main

if __name__ == "__main__":
    sys.exit(main())
