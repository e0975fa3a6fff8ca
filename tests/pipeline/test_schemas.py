"""One table of columns for Arrow, for Spark and for the record."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from bus.journal.format import dtype
from bus.pipeline.schemas import (
    EVENTS,
    SEGMENTS,
    Column,
    arrow_schema,
    ddl,
    signed,
    unsigned,
)


@pytest.mark.spark
@pytest.mark.parametrize("columns", [EVENTS, SEGMENTS], ids=["events", "segments"])
def test_arrow_and_spark_agree(spark: object, columns: tuple[Column, ...]) -> None:
    assert from_arrow_schema(arrow_schema(columns)) == StructType.fromDDL(ddl(columns))


def test_every_number_of_a_record_fits_in_its_column() -> None:
    """Unsigned ones need the next wider type; those of 64 bits keep their bits."""
    layout = dtype()
    columns = {column.name: column.arrow for column in EVENTS}
    columns |= {"kind": columns["code"], "mid": columns["port"]}

    for name in set(layout.names or ()) & set(columns):
        field = layout[name]
        if columns[name] == "string":
            continue
        column = np.dtype(columns[name])
        assert np.can_cast(field, column) or field.itemsize == column.itemsize == 8, (
            name
        )


def test_names_of_columns_are_unique_and_explained() -> None:
    for columns in (EVENTS, SEGMENTS):
        names = [column.name for column in columns]
        assert len(names) == len(set(names))
        assert all(column.meaning for column in columns)


@pytest.mark.parametrize(
    ("bits", "number"),
    [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)],
)
def test_64_bits_keep_their_identity(bits: int, number: int) -> None:
    assert signed(bits) == number
    assert unsigned(number) == bits
