"""A record keeps its id whatever its label is."""

import numpy as np
import pandas as pd
import pytest

from spinney.errors import TableError
from spinney.tables.readers import Source, read_table
from spinney.tables.records import records_of
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.spool import spool

SCHEMA = Schema((Column("age", "number"),), Label("sick", "class", ("no", "yes")))
ROWS = pd.DataFrame({"key": ["a", "b", "c"], "age": [30, 30, 50], "sick": ["no", "yes", "no"]})


@pytest.fixture
def table_of(tmp_path):
    def read(frame, row_id="key"):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
        frame.to_csv(path, index=False)
        return read_table(Source("csv", path=path, row_id=row_id), SCHEMA)

    return read


@pytest.mark.parametrize("row_id", ["key", None])
def test_another_label_is_the_same_record(table_of, row_id):
    before = records_of(table_of(ROWS, row_id))
    after = records_of(table_of(ROWS.assign(sick=["yes", "no", "no"]), row_id))
    assert before.ids.tolist() == after.ids.tolist()
    assert (before.labels.tolist(), after.labels.tolist()) == ([0, 1, 0], [1, 0, 0])


def test_with_an_id_other_cells_are_the_same_record_too(table_of):
    older = records_of(table_of(ROWS.assign(age=[31, 31, 51])))
    assert records_of(table_of(ROWS)).ids.tolist() == older.ids.tolist()


def test_ids_stay_with_rows_that_are_spooled_and_selected(table_of):
    table = table_of(ROWS)
    ids = records_of(table).ids
    chosen = spool(table).select(np.array([2, 0]))
    assert records_of(chosen).ids.tolist() == ids[[2, 0]].tolist()


def test_rows_that_are_alike_and_have_no_id_are_told_apart(table_of):
    found = records_of(table_of(ROWS, None))
    assert np.unique(found.ids).size == 3
    found.require_own_ids()


def test_an_id_that_repeats_is_refused_where_every_record_needs_its_own(table_of):
    found = records_of(table_of(ROWS.assign(key=["a", "b", "a"])))
    assert np.unique(found.ids).size == 3
    with pytest.raises(
        TableError, match=r"The row id repeats, .* Give every record a different id"
    ):
        found.require_own_ids()
