"""One Spark session for all tests marked `spark`: starting one takes seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pipeline.session import build_session, missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two threads, two pieces a shuffle; whatever calls `run_pipeline` shares it."""
    lack = missing()
    if lack is not None:
        pytest.skip(f"Spark cannot run here: {lack}")
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    session = build_session(log=log, master="local[2]")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()
