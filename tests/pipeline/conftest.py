"""One Spark session for all tests marked `spark`: starting one takes seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pipeline.folder import OutFolder
from bus.pipeline.run import run_pipeline
from bus.pipeline.session import build_session, java_end, missing, running_session
from bus.pipeline.svg import draw
from tests.pipeline.recorded import record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matplotlib.axes import Axes
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def fonts() -> None:
    """Matplotlib keeps its font files open: open them before any test."""

    def paint(axes: Axes) -> None:
        axes.text(0, 0, "regular")
        axes.text(0, 0, "bold", weight="bold")

    draw("fonts", "", paint)


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of the session for tests."""
    return tmp_path_factory.mktemp("spark") / "spark.log"


def _started(log: Path) -> SparkSession:
    # Other programs of the run have a Java of their own.
    memory = {"spark.driver.memory": "1g"}
    session = build_session(log=log, master="local[2]", settings=memory)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@pytest.fixture(scope="session")
def spark(spark_log: Path) -> Iterator[SparkSession]:
    """Two threads, two shuffle partitions; every caller of `run_pipeline` shares it."""
    lack = missing()
    if lack is not None:
        pytest.skip(f"Spark cannot run here: {lack}")
    session = _started(spark_log)
    yield session
    if running_session() is not None:
        session.stop()


@pytest.fixture(autouse=True)
def java(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test during which Java ended, and give the later ones another one."""
    yield
    if request.node.get_closest_marker("spark") and (end := java_end()):
        running_session()
        if "spark" in request.fixturenames:
            # All fixtures have this object.
            spark = request.getfixturevalue("spark")
            log = request.getfixturevalue("spark_log")
            end += "\n" + "\n".join(log.read_text(errors="replace").splitlines()[-40:])
            vars(spark).update(vars(_started(log)))
        pytest.fail(end, pytrace=False)


@pytest.fixture(scope="session")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journals that `tests.pipeline.recorded` records."""
    folder = tmp_path_factory.mktemp("recorded") / "journals"
    record(folder)
    return folder


@pytest.fixture(scope="session")
def finished(
    spark: SparkSession, journals: Path, tmp_path_factory: pytest.TempPathFactory
) -> OutFolder:
    """All results of a run over `journals`; read only."""
    out = tmp_path_factory.mktemp("finished") / "out"
    run_pipeline(journals, out)
    return OutFolder(out)
