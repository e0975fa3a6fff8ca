"""A thread that ends before it begins; `_sync.Thread`."""

from __future__ import annotations

import threading
from typing import NoReturn

import pytest

from queuebroker import _sync
from specs.clauses import clause


def no_memory(_: threading.Thread) -> NoReturn:
    raise MemoryError


@clause("QB-CONC-11")
@pytest.mark.parametrize("step", ["_bootstrap_inner", "_set_ident"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_start_of_a_thread_that_dies_at_once_raises(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of `threading.Thread` would wait without limit; the next thread starts."""
    ran = list[int]()
    thread = _sync.Thread(target=lambda: ran.append(0), daemon=True)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, step, no_memory)
        with pytest.raises(RuntimeError, match="ended before it began"):
            thread.start()
    assert not thread.is_alive()
    assert thread not in threading.enumerate()

    following = _sync.Thread(target=lambda: ran.append(1))
    following.start()
    following.join()
    assert ran == [1]


def test_a_thread_starts_once() -> None:
    thread = _sync.Thread(target=int)
    thread.start()
    with pytest.raises(RuntimeError, match="only be started once"):
        thread.start()
    thread.join()
