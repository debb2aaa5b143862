"""Values that a schema does not allow, in private jobs: changed cell by cell, never refused."""

import sqlite3
from collections import Counter
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from spinney.errors import TableError
from spinney.tables.cells import cells_of
from spinney.tables.outside import Changes, changed_columns, changed_target, sentences
from spinney.tables.readers import Source, read_table
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.spool import spool

SCHEMA = Schema(
    (
        Column("age", "number", range=(0.0, 0.1)),
        Column("dose", "number"),
        Column("ward", "category", categories=("eye", "ear")),
        Column("city", "category", categories=("Ulm", "other")),
        Column("grade", "category", categories=(1, 2)),
        Column("smokes", "boolean"),
    ),
    Label("ill", "class", ("no", "yes")),
)
CLEAN = ("0.05", "2", "ear", "Ulm", "2", "true", "yes")
NAMES = (*SCHEMA.names, SCHEMA.label.name)


def csv_of(tmp_path, *rows, name="own.csv", query=None, row_id=None):
    path = tmp_path / name
    path.write_text("\n".join([",".join(NAMES), *(",".join(row) for row in rows)]) + "\n")
    return Source("csv", path=str(path), query=query, row_id=row_id)


def sqlite_of(tmp_path, *rows):
    path = tmp_path / "own.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"create table t ({', '.join(NAMES)})")
        database.executemany(f"insert into t values ({','.join('?' * len(NAMES))})", rows)
        database.commit()
    return Source("sql", url=f"sqlite:///{path}", query="select * from t")


def cells_in(table):
    """Return the cells of a small table, one line per column."""
    return spool(table).columns.values(slice(None))


def with_cell(name, text):
    row = list(CLEAN)
    row[NAMES.index(name)] = text
    return tuple(row)


CHANGED = [  # a cell, what it becomes, and what its party reads
    ("age", "inf", 0.1, "Column 'age': 1 cell is infinite and counts as the ends of the decl"),
    ("age", "-1e300", 0.0, "Column 'age': 1 cell is infinite and counts as the ends of the decl"),
    ("age", "old", np.nan, "Column 'age': 1 cell is no number and counts as missing."),
    ("dose", "-inf", np.nan, "Column 'dose': 1 cell is infinite and counts as missing."),
    ("ward", "nose", np.nan, "Column 'ward': 1 cell is not declared and counts as missing."),
    ("city", "Bern", 1, "Column 'city': 1 cell is not declared and counts as 'other'."),
    ("grade", "3", np.nan, "Column 'grade': 1 cell is not declared and counts as missing."),
    ("grade", "two", np.nan, "Column 'grade': 1 cell is not declared and counts as missing."),
    ("smokes", "maybe", np.nan, "Column 'smokes': 1 cell is not true or false and counts as m"),
    ("smokes", "2", np.nan, "Column 'smokes': 1 cell is not true or false and counts as missing"),
]


@pytest.mark.parametrize("changed", CHANGED)
@pytest.mark.parametrize("query", [None, "select * from source"])
def test_a_cell_outside_the_schema_is_changed_and_no_other(tmp_path, changed, query):
    name, text, becomes, told = changed
    rows = (CLEAN, with_cell(name, text), CLEAN)
    table = read_table(csv_of(tmp_path, *rows, query=query), SCHEMA, outside="leave_out")
    clean = read_table(csv_of(tmp_path, CLEAN, CLEAN, CLEAN, name="clean.csv"), SCHEMA)
    found, wanted = cells_in(table), cells_in(clean)
    assert np.array_equal(found[:, [0, 2]], wanted[:, [0, 2]])
    wanted[NAMES.index(name), 1] = becomes
    assert np.allclose(found, wanted, equal_nan=True)
    said = sentences(table.changes)
    assert [one[: len(told)] for one in said] == [told] or (query and not said)


def test_a_query_s_comparison_of_a_declared_column_fails_for_no_cell(tmp_path):
    query = "select * from source where age < 0.2"
    rows = (CLEAN, with_cell("age", "old"), CLEAN)
    table = read_table(csv_of(tmp_path, *rows, query=query), SCHEMA, outside="leave_out")
    assert table.n_rows == 2


def test_a_clean_file_reads_the_same_in_every_job(tmp_path):
    rng = np.random.default_rng(3)
    rows = [
        (
            repr(float(rng.normal())), f"{rng.normal():.3g}", rng.choice(["eye", "ear", "NA", ""]),
            "Ulm", str(rng.integers(1, 3)), rng.choice(["t", "NO", "true", "0", "", "y"]), "no",
        )
        for _ in range(500)
    ]  # fmt: skip
    source = csv_of(tmp_path, *rows)
    (loose,) = (table := read_table(source, SCHEMA, outside="leave_out")).batches()
    (strict,) = read_table(source, SCHEMA).batches()
    assert np.array_equal(loose.values, strict.values, equal_nan=True)
    assert np.array_equal(loose.target, strict.target)
    assert np.array_equal(loose.keys, strict.keys)
    assert not table.changes


def test_an_infinite_number_becomes_an_end_that_is_inside_its_range(tmp_path):
    source = csv_of(tmp_path, with_cell("age", "inf"))
    found = cells_in(read_table(source, SCHEMA, outside="leave_out"))
    assert 0.0999 < float(found[0, 0]) <= 0.1


@pytest.mark.parametrize("label", ["perhaps", "", "7"])
def test_a_row_without_a_declared_class_is_left_out(tmp_path, label):
    source = csv_of(tmp_path, CLEAN, with_cell("ill", label), CLEAN)
    table = read_table(source, SCHEMA, outside="leave_out")
    assert table.n_rows == 2
    clean = read_table(csv_of(tmp_path, CLEAN, CLEAN, name="clean.csv"), SCHEMA)
    (batch,), (expected,) = table.batches(), clean.batches()
    assert np.array_equal(batch.keys, expected.keys)
    assert "Label 'ill': 1 row has no label and is left out." in sentences(table.changes)


def test_a_row_without_a_class_is_kept_where_others_may_count_rows(tmp_path):
    rows = [(f"0.0{n}", *CLEAN[1:-1], "perhaps") for n in range(10)]
    table = read_table(csv_of(tmp_path, *rows), SCHEMA, outside="keep")
    first, again = spool(table).target.tolist(), spool(table).target.tolist()
    assert first == again  # drawn by the row
    assert set(first) == {0, 1}
    assert sentences(table.changes)[-1] == (
        "Label 'ill': 10 rows have no label and are given a class at random."
    )


def test_a_declared_class_other_takes_undeclared_classes():
    label = Label("ill", "class", ("no", "other"))
    changes: Changes = Counter()
    draws = np.zeros(3, np.uint64)
    target, kept = changed_target(cells_of(["no", "yes", None]), label, draws, "leave_out", changes)
    assert target[kept].tolist() == [0, 1]
    assert kept.tolist() == [True, True, False]


def test_labels_that_are_numbers_are_clipped_left_out_or_put_in_the_middle():
    label = Label("cost", "number", range=(0.0, 8.0))
    cells, draws = cells_of([1.0, np.inf, -np.inf, np.nan, 9.0]), np.zeros(5, np.uint64)
    changes: Changes = Counter()
    target, kept = changed_target(cells, label, draws, "leave_out", changes)
    assert target[kept].tolist() == [1.0, 8.0, 0.0, 9.0]
    assert sentences(changes) == [
        "Label 'cost': 2 labels are infinite and count as ends.",
        "Label 'cost': 1 row has no label and is left out.",
    ]
    target, kept = changed_target(cells, label, draws, "keep", Counter())
    assert kept.all()
    assert target.tolist() == [1.0, 8.0, 0.0, 4.0, 9.0]


def test_no_cell_of_a_database_decides_how_others_are_read(tmp_path):
    plain = (0.05, 2, "ear", "Ulm", 2, True, "yes")
    odd = (b"x", "text", 7, 3.5, "x", "text", None)
    table = read_table(sqlite_of(tmp_path, plain, odd, plain), SCHEMA, outside="keep")
    first, second, third = cells_in(table).T
    assert np.array_equal(first, third)
    assert np.array_equal(second, [np.nan, np.nan, np.nan, 1, np.nan, np.nan], equal_nan=True)


def test_dates_and_lists_are_missing():
    frame = pd.DataFrame({"age": pd.to_datetime(["2020-01-01", None]), "ward": [["eye"], "ear"]})
    schema = Schema(
        (Column("age", "number"), Column("ward", "category", categories=("eye", "ear"))),
        SCHEMA.label,
    )
    cells = [cells_of(frame["age"]), cells_of(frame["ward"])]
    changes: Changes = Counter()
    values = changed_columns(cells, schema, changes).values(slice(None))
    assert np.array_equal(values, [[np.nan, np.nan], [np.nan, 1]], equal_nan=True)
    assert sum(changes.values()) == 2


def test_a_missing_row_id_is_made_from_the_cells(tmp_path):
    rows = (CLEAN, with_cell("age", "0.02"), with_cell("age", "0.03"))
    ids = (("a",), ("",), ("",))
    path = tmp_path / "own.csv"
    lines = (",".join((*row, *own)) for row, own in zip(rows, ids, strict=True))
    path.write_text("\n".join([",".join((*NAMES, "id")), *lines]) + "\n")
    table = read_table(Source("csv", path=str(path), row_id="id"), SCHEMA, outside="leave_out")
    found = spool(table).ids
    assert found is not None
    assert len(set(found.tolist())) == 3
    assert sentences(table.changes) == ["Row ids: 2 rows have none: content stands for it."]


def test_a_table_without_rows_is_a_table(tmp_path):
    table = read_table(csv_of(tmp_path), SCHEMA, outside="leave_out")
    assert (table.n_rows, spool(table).n_rows) == (0, 0)


@pytest.mark.parametrize(
    "text", ["1,2\n", "1,2,3,4,5,6,7,8\n", '"1,2,3,4,5,6,7\n', "1,2,\xff,4,5,6,7\n"]
)
def test_a_file_that_is_not_a_table_is_refused_in_the_same_words(tmp_path, text):
    path = tmp_path / "own.csv"
    path.write_bytes((",".join(NAMES) + "\n").encode() + text.encode("latin-1"))
    with pytest.raises(TableError) as caught:
        read_table(Source("csv", path=str(path)), SCHEMA, outside="leave_out")
    assert caught.value.public == (
        "The table cannot be read. Its party finds the reason in its own log, or with "
        "spinney party check."
    )
    assert caught.value.local
