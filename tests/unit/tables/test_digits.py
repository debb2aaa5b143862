"""Columns of files whose numbers differ only beyond the precision of trees are told of."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from spinney.tables.digits import OneNumber
from spinney.tables.readers import Source, lost_digits_of, read_table
from spinney.tables.schema import Column, Label, Schema

N = 40_000  # more than a batch
ROWS = np.arange(N)
TABLE = {
    "id": 2**60 + ROWS,
    "tiny": np.where(ROWS % 2, 1e-300, 2e-300),
    "late": np.where(ROWS < N - 1, 1.0, 1.0 + 1e-12),
    "plain": ROWS % 3,
    "same": np.full(N, 7),
    "none": np.full(N, np.nan),
}
SCHEMA = Schema(tuple(Column(name, "number") for name in TABLE), Label("y", "number"))


@pytest.fixture(params=["csv", "parquet"])
def source(request, tmp_path):
    table, path = pa.table(TABLE | {"y": ROWS % 5}), tmp_path / f"table.{request.param}"
    if request.param == "csv":
        pc.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return Source(request.param, path=str(path))


def test_the_owner_of_a_file_is_told_of_columns_that_only_seem_constant(source):
    table = read_table(source, SCHEMA)
    assert table.alike == ("id", "tiny", "late", "same", "none")
    (told,) = lost_digits_of(source, table)
    assert "The numbers of 'id', 'tiny', 'late' differ, but not in the first seven" in told
    assert "Subtract their mean, or multiply them, first." in told


def test_a_private_job_reads_nothing_twice_to_tell_it(source):
    assert lost_digits_of(source, read_table(source, SCHEMA, outside="leave_out")) == ()


def test_a_column_holds_one_number_until_another_is_seen():
    seen = OneNumber(Schema(SCHEMA.columns[:2], SCHEMA.label))
    for values in ([[1, 1], [np.nan, np.nan]], [[1, np.nan], [3, 3]]):
        seen.see(np.array(values, np.float32))
        assert ", ".join(seen.columns) == "id, tiny"
    seen.see(np.array([[1, 1], [3, 4]], np.float32))
    assert ", ".join(seen.columns) == "id"
    seen.see(np.array([[2, 2], [5, 5]], np.float32))
    assert not seen.columns
