"""`HorizonStore`: what one write stores, and what a failure ends."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from bus import Durability
from bus.errors import HorizonError
from bus.features.durable.format import Owner
from bus.features.durable.horizons import Horizon, Store
from bus.features.durable.store import HorizonStore
from bus.kernel.tasks.actions import Resume
from queuebroker import _files
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWNER = Owner("bus1", "machine", "me", 1000)


@pytest.fixture
def durability(tmp_path: Path) -> Durability:
    return Durability(tmp_path / "horizons", messages_per_sync=8)


@pytest.fixture
def store(durability: Durability) -> Iterator[HorizonStore]:
    store = HorizonStore.open(durability, OWNER)
    yield store
    store.close()


def reopened(store: HorizonStore, durability: Durability) -> HorizonStore:
    store.close()
    later = HorizonStore.open(durability, OWNER)
    later.close()
    return later


@clause("AMO-20")
def test_one_write_stores_all_queued_horizons(
    store: HorizonStore, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round with many frames waits for the storage once."""
    syncs: list[int] = []
    sync = _files.sync

    def synced(file: int) -> None:
        syncs.append(file)
        sync(file)

    monkeypatch.setattr(_files, "sync", synced)
    first, second = Store("a", Horizon(1, 1)), Store("a", Horizon(1, 2))
    third, lock = Store("b", Horizon(1, 9)), threading.Lock()
    store.store(first, [Resume(None), second, third], lock)  # type: ignore[arg-type]
    store.store(second, [third], lock)
    store.store(third, [], lock)

    assert len(syncs) == 1
    later = reopened(store, durability)
    assert later.horizons.of("a") == Horizon(1, 2)
    assert later.horizons.of("b") == Horizon(1, 9)


@clause("AMO-20")
def test_a_failure_is_raised_once_nothing_is_covered(
    store: HorizonStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(_files, "sync", fail)
    action = store.horizons.raise_over("a", 1, 1)
    assert action is not None

    with pytest.raises(HorizonError, match="and start this process again"):
        store.store(action, [], threading.Lock())

    assert store.horizons.failed
    assert not store.horizons.covers("a", 1, 1)


@pytest.mark.parametrize(("sync_on_arrival", "ahead"), [(False, 8), (True, 0)])
def test_the_settings_say_how_far_ahead_a_horizon_is(
    durability: Durability, sync_on_arrival: bool, ahead: int
) -> None:
    settings = Durability(
        durability.directory, messages_per_sync=8, sync_on_arrival=sync_on_arrival
    )
    store = HorizonStore.open(settings, OWNER)
    store.close()

    raised = Store("a", Horizon(1, 1 + ahead))
    assert store.horizons.raise_over("a", 1, 1) == raised
