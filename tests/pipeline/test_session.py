"""Whether Spark can run here, reported in one line; and the session itself."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from bus.errors import PipelineError
from bus.pipeline.session import (
    _gateway,
    _heap_gib,
    _quietly,
    build_session,
    missing,
    session,
)

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from pathlib import Path

    from pyspark.sql import SparkSession


def java(home: Path, release: str) -> None:
    """Create a fake Java that only prints its version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/false\n")
    program.chmod(0o755)
    (home / "release").write_text(release)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_java_17_and_newer_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java(tmp_path, f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert missing() is None


@pytest.mark.parametrize(("version", "major"), [("11.0.2", 11), ("1.8.0_402", 8)])
def test_an_older_java_is_reported_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int
) -> None:
    java(tmp_path, f'JAVA_VERSION="{version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    lack = missing()

    assert lack is not None
    assert f"Java {major} at {tmp_path}" in lack
    assert "install Java 17" in lack


def test_a_java_of_unknown_version_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, "")
    (tmp_path / "release").unlink()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert missing() is None


def test_without_java_one_line_names_the_version_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    lack = missing()

    assert lack is not None
    assert lack.startswith("no Java found: install Java 17")
    assert "\n" not in lack
    with pytest.raises(PipelineError, match="no Java found"):
        build_session(log=tmp_path / "log")


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def blind(name: str) -> ModuleSpec | None:
        return None if name in ("pyspark", "jinja2") else find(name)

    monkeypatch.setattr(importlib.util, "find_spec", blind)

    with_report, without = missing(), missing(drawing=False)

    assert with_report is not None
    assert with_report.startswith("pyspark, jinja2 not installed: pip install")
    assert without is not None
    assert without.startswith("pyspark not installed: ")


@pytest.mark.parametrize(
    ("limit", "gib"), [(f"{5 * 2**30}\n", 2), ("1\n", 1), (f"{2**63 - 4096}\n", None)]
)
def test_the_heap_is_half_of_the_memory_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, gib: int | None
) -> None:
    unlimited = tmp_path / "unlimited"
    unlimited.write_text("max\n")
    paths = [tmp_path / "missing", unlimited]
    monkeypatch.setattr("bus.pipeline.session._MEMORY_LIMITS", paths)
    whole = _heap_gib()
    paths.append(tmp_path / "limited")
    paths[-1].write_text(limit)

    assert _heap_gib() == (gib or whole)


@pytest.mark.parametrize("strikes", [1, 2])
def test_java_is_started_in_spite_of_an_interrupt_but_not_of_a_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strikes: int
) -> None:
    """An unregistered Java would survive; a registered one ends with this process."""
    starting = pytest.importorskip("pyspark.java_gateway")
    context = pytest.importorskip("pyspark").SparkContext
    gateway = SimpleNamespace(jvm=None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def launch(_: object, *, popen_kwargs: dict[str, Any]) -> object:
        assert popen_kwargs.keys() == {"stdout", "stderr"}
        for _ in range(strikes):
            signal.raise_signal(signal.SIGINT)
        return gateway

    monkeypatch.setattr(starting, "launch_gateway", launch)
    monkeypatch.setattr("bus.pipeline.session._log", None)
    monkeypatch.setattr(context, "_gateway", None)
    monkeypatch.setattr(context, "_jvm", None)

    try:
        with pytest.raises(KeyboardInterrupt):
            _gateway(tmp_path / "log", conf=None)  # type: ignore[arg-type] # not looked at
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)

    assert context._gateway is (gateway if strikes == 1 else None)


def _fail(first: BaseException, logger: logging.Logger) -> None:
    """Log an error that comes while another one is handled."""
    try:
        try:
            raise first
        finally:
            raise BrokenPipeError
    except BrokenPipeError:
        logger.exception("exception while sending command")


@pytest.mark.parametrize("name", ["root", "py4j.java_gateway", "py4j.clientserver"])
def test_of_an_interrupt_py4j_prints_nothing_and_of_other_errors_all(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    logger = logging.getLogger(name)

    with _quietly():
        _fail(KeyboardInterrupt(), logger)
        assert caplog.records == []
        _fail(ValueError(), logger)
    _fail(KeyboardInterrupt(), logger)

    assert len(caplog.records) == 2


@pytest.mark.spark
def test_a_running_session_is_used_and_left_running(
    spark: SparkSession, tmp_path: Path
) -> None:
    with session(log=tmp_path / "log") as used:
        assert used is spark or used.sparkContext is spark.sparkContext

    assert spark.range(3).count() == 3
    assert not (tmp_path / "log").exists()


@pytest.mark.spark
def test_an_overflow_is_an_error_and_not_a_null(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


_REPORT = """
import json, os, sys
from pathlib import Path
from bus.pipeline.session import given_settings, session
with session(log=Path(sys.argv[1]), settings=json.loads(sys.argv[2])) as spark:
    conf = spark.sparkContext.getConf()
    print(json.dumps([dict(conf.getAll()), given_settings(spark),
                      os.environ["PYSPARK_PYTHON"]]))
"""


@pytest.mark.spark
@pytest.mark.deep
def test_the_settings_of_the_user_are_used_and_reported(tmp_path: Path) -> None:
    """Was reported: the pipeline replaced the settings given to spark-submit."""
    if lack := missing(drawing=False):
        pytest.skip(f"Spark cannot run here: {lack}")
    submitted = {
        "spark.master": "local[1]",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.driver.memory": "1g",
        "spark.pyspark.python": f"{sys.executable}",
        "spark.my.token": "12345",
    }
    ours = {"spark.sql.session.timeZone": "Asia/Kabul"}
    words = [f"--conf {name}={value}" for name, value in submitted.items()]
    environment = os.environ | {
        "PYSPARK_SUBMIT_ARGS": " ".join([*words, "pyspark-shell"]),
        "PYSPARK_PYTHON": "/nowhere/python",
    }
    command = [sys.executable, "-c", _REPORT, str(tmp_path / "log"), json.dumps(ours)]

    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )

    used, reported, python = json.loads(ended.stdout)
    wanted = submitted | ours
    assert {name: used[name] for name in wanted} == wanted
    assert reported == wanted | {"spark.my.token": "(hidden)"}
    # All other settings are the pipeline's.
    assert used["spark.sql.parquet.compression.codec"] == "zstd"
    assert python == sys.executable


_KILL = """
import os, signal, sys
from pathlib import Path
from pyspark import SparkContext
from bus.errors import PipelineError
from bus.pipeline.session import running_session, session
log = Path(sys.argv[1])
try:
    with session(log=log) as spark:
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
        spark.range(3).count()
except PipelineError as error:
    print(error)
print(running_session())
with session(log=log) as spark:
    print(spark.range(3).count(), running_session() is spark)
"""


@pytest.mark.spark
@pytest.mark.deep
def test_a_java_that_was_killed_is_reported_and_the_next_session_starts_another(
    tmp_path: Path,
) -> None:
    if lack := missing(drawing=False):
        pytest.skip(f"Spark cannot run here: {lack}")
    log = tmp_path / "log"
    command = [sys.executable, "-c", _KILL, str(log)]

    ended = subprocess.run(command, capture_output=True, text=True, check=True)

    error, *rest = ended.stdout.splitlines()
    assert error.startswith("Java ended by SIGKILL while Spark was in use; its last")
    assert f" is in {log}. Try again, " in error
    assert rest == ["None", "3 True"]
    assert ended.stderr == ""
