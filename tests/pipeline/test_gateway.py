"""The spool and the gateway: each batch is published once, after any kill."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types
import pytest

from bus.errors import PipelineError
from bus.model.config import BusConfig
from bus.pipeline import spool as spools
from bus.pipeline.gateway import Gateway
from bus.pipeline.spool import Batch, Spool
from bus.testing import memory_bus
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.api.bus import Bus


@pytest.fixture
def bus() -> Iterator[Bus]:
    with memory_bus() as bus:
        yield bus


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool.at(tmp_path)


def staged(spool: Spool, number: int, *values: Any, topic: str = "mean") -> Batch:
    """Stage a batch of query q as one task for each value does."""
    tokens = []
    for value in values:
        row = {"topic": topic, "key": None, "value": value}
        token = spool.stage("q", number, iter([pa.RecordBatch.from_pylist([row])]))
        assert token is not None
        tokens.append(token)
    return Batch("q", number, tuple(tokens))


def files(spool: Spool) -> list[str]:
    return [path.name for path in spool.path.rglob("*.arrow")]


def test_rows_are_published_in_order_with_the_number_of_their_row(
    spool: Spool, bus: Bus
) -> None:
    got: list[Any] = []
    bus.subscribe("mean", lambda message: got.append(message.payload))
    gateway = Gateway(spool, bus, pytest.fail)

    spool.hand_over(staged(spool, 7, "x", b"y", {"celsius": 1.5}))
    published = gateway.publish()

    until(lambda: len(got) == 3, "the rows were delivered")
    assert published == 3
    assert [row["value"] for row in got] == ["x", b"y", {"celsius": 1.5}]
    keys = [(row["query"], row["batch"], row["row"]) for row in got]
    assert keys == [("q", 7, 0), ("q", 7, 1), ("q", 7, 2)]
    assert files(spool) == []


@pytest.mark.parametrize("taken", [True, False])
def test_a_batch_that_is_committed_again_is_published_once(
    spool: Spool, bus: Bus, taken: bool
) -> None:
    """The query was killed after its commit, before Spark had noted it."""
    gateway = Gateway(spool, bus, pytest.fail)
    spool.hand_over(staged(spool, 1, "first"))
    published = gateway.publish() if taken else 0

    spool.hand_over(staged(spool, 1, "again"))
    published += gateway.publish()
    spool.hand_over(staged(spool, 2, "next"))

    assert published == 1
    assert gateway.publish() == 1
    assert files(spool) == []
    Gateway(spool, bus, pytest.fail)


def test_a_batch_waits_until_the_one_before_is_taken(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "WAIT_S", 0.0)
    spool.hand_over(staged(spool, 1, "first"))

    with pytest.raises(PipelineError, match=r"batch 1 of query q was not taken"):
        spool.hand_over(staged(spool, 2, "second"))
    (ready,) = spool.ready()
    assert spool.claim(ready)
    spool.hand_over(staged(spool, 2, "second"))

    assert [batch.number for batch in spool.ready()] == [2]


def test_a_claimed_batch_is_reported_and_not_repeated_after_a_crash(
    spool: Spool, bus: Bus
) -> None:
    told: list[str] = []
    batch = staged(spool, 3, "half")
    spool.hand_over(batch)
    assert spool.claim(batch)

    gateway = Gateway(spool, bus, told.append)

    assert gateway.publish() == 0
    (line,) = told
    assert line.startswith("batch 3 of query q was published in part")
    assert files(spool) == []


def test_rows_of_failed_attempts_leave_with_their_batch(spool: Spool, bus: Bus) -> None:
    staged(spool, 1, "of a task that was killed")
    spool.discard(staged(spool, 2, "aborted"))
    spool.hand_over(staged(spool, 2, "kept"))

    Gateway(spool, bus, pytest.fail).publish()

    assert files(spool) == []


@pytest.mark.skipif(
    not hasattr(os, "O_DIRECTORY"),
    reason="needs synced folders, which Windows lacks",
)
def test_staged_rows_and_their_names_are_durable_before_the_batch_is_ready(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable: list[Path] = []
    sync = os.fsync

    def fsync(file: int) -> None:
        sync(file)
        durable.append(Path(f"/proc/self/fd/{file}").resolve())

    monkeypatch.setattr("os.fsync", fsync)
    batch = staged(spool, 1, "x")

    (path,) = spool.path.rglob("*.arrow")
    assert {path, *path.parents[:4]} <= {*durable}
    assert path.parents[3] == spool.path.resolve()
    spool.hand_over(batch)
    assert durable[-1] == spool.path / "ready"


@pytest.mark.parametrize("claimed", [True, False])
def test_rows_that_were_handed_over_stay_if_the_batch_is_aborted_then(
    spool: Spool, bus: Bus, claimed: bool
) -> None:
    """Spark aborts a batch whose commit was killed after it was ready."""
    batch = staged(spool, 1, "kept")
    spool.hand_over(batch)
    if claimed:
        assert spool.claim(batch)

    spool.discard(batch)

    assert len(files(spool)) == 1
    if not claimed:
        assert Gateway(spool, bus, pytest.fail).publish() == 1


def test_a_batch_waits_while_another_task_has_its_topic(spool: Spool, bus: Bus) -> None:
    told: list[str] = []
    gateway = Gateway(spool, bus, told.append)
    holder = bus.register("mean")
    spool.hand_over(staged(spool, 1, "x"))

    published = [gateway.publish(), gateway.publish()]
    holder.deregister(final=True)
    published.append(gateway.publish())

    assert published == [0, 0, 1]
    (line,) = told
    assert "waits" in line
    assert "'mean'" in line


def test_a_refused_row_is_counted_and_the_others_published(
    spool: Spool, bus: Bus
) -> None:
    told: list[str] = []
    big = "x" * (BusConfig().message_bytes_max + 1)
    spool.hand_over(staged(spool, 1, "a", big, "b"))

    assert Gateway(spool, bus, told.append).publish() == 2
    (line,) = told
    assert line.startswith(
        "1 of the rows of batch 1 of query q refused; the last, row 1:"
    )


def test_one_gateway_publishes_from_a_spool(spool: Spool) -> None:
    with spool.locked(), pytest.raises(PipelineError, match="another gateway does so"):
        spool.locked().__enter__()
