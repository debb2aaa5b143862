"""Tables in SQLite and PostgreSQL."""

import sqlite3
import sys
from contextlib import closing

import duckdb
import numpy as np
import pytest

from spinney.errors import MissingExtraError, SchemaError, SettingError, TableError
from spinney.tables.databases import stream_of_url
from spinney.tables.describe import column_of
from spinney.tables.readers import Source, findings_of_source, read_table
from spinney.tables.schema import Column, Label, Schema

SCHEMA = Schema(
    (
        Column("age", "number"),
        Column("ward", "category", categories=("eye", "ear")),
        Column("smokes", "boolean"),
    ),
    Label("ill", "class", (0, 1)),
)
ROWS = [(30, "eye", True, 1), (None, "ear", False, 0), (60.5, None, None, 1)]
VALUES = [[30, np.nan, 60.5], [0, 1, np.nan], [1, 0, np.nan]]
QUERY = "select age, ward, smokes, ill from visits order by id;"


@pytest.fixture
def sqlite(tmp_path):
    path = tmp_path / "a table?.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table visits (id integer primary key, age, ward, smokes, ill)")
        database.executemany("insert into visits values (null, ?, ?, ?, ?)", ROWS)
        database.commit()

    def source(query=QUERY, **facts):
        return Source("sql", url=f"sqlite:///{path}", query=query, **facts)

    return source


def described(source):
    found = findings_of_source(source, "ill", "class")
    return tuple(column_of(name, findings) for name, findings in found.columns.items())


def read(source, schema=SCHEMA, size=2):
    table = read_table(source, schema)
    batches = list(table.batches(size))
    assert table.n_rows == sum(len(batch.target) for batch in batches)
    values = np.concatenate([batch.values for batch in batches], axis=1)
    return values, np.concatenate([batch.target for batch in batches]).tolist()


def change(source, statement):
    with closing(sqlite3.connect(source.url.removeprefix("sqlite:///"))) as database:
        database.execute(statement)
        database.commit()


def test_an_sqlite_table_is_read(sqlite):
    values, target = read(sqlite())
    assert np.array_equal(values, VALUES, equal_nan=True)
    assert target == [1, 0, 1]


def test_an_sqlite_table_is_described(sqlite):
    assert described(sqlite()) == (
        Column("age", "number", range=(30, 60.5)),
        Column("ward", "category", categories=("ear", "eye")),
        Column("smokes", "number", range=(0, 1)),
    )


def test_a_column_that_changes_its_type_on_the_way_is_refused(sqlite, monkeypatch):
    monkeypatch.setattr("spinney.tables.readers.BATCH_ROWS", 1)
    change(sqlite(), "update visits set age = 'old' where id = 3")
    with pytest.raises(TableError, match="'age' holds text in some rows and numbers in others"):
        described(sqlite())
    with pytest.raises(SchemaError, match="'age' is a number in the schema, but holds text"):
        read_table(sqlite(), SCHEMA)


def test_a_table_that_changes_between_passes_is_refused(sqlite):
    table = read_table(sqlite(), SCHEMA)
    change(sqlite(), "update visits set age = 31 where id = 1")
    with pytest.raises(TableError, match="table changed during the job"):
        list(table.batches())


@pytest.mark.parametrize(
    ("query", "error", "wording"),
    [
        ("delete from visits", TableError, "not a single SELECT"),
        ("pragma user_version", TableError, "not a single SELECT"),
        ("   -- nothing", TableError, "not a single SELECT"),
        ("select 1; delete from visits", TableError, "query failed.*one statement"),
        ("select nope from visits", TableError, "says: no such column: nope"),
        ("select age from visits", SchemaError, "no column 'ward', 'smokes', 'ill'"),
        (QUERY.replace("visits", "visits where age > 999"), TableError, "has no rows"),
        ("with gone as (select 1) select * from gone where x", TableError, "query failed"),
        ("select *, age from visits", TableError, "more than one column called 'age'"),
    ],
)
def test_a_bad_query_is_refused(sqlite, query, error, wording):
    with pytest.raises(error, match=wording):
        read_table(sqlite(query), SCHEMA)
    assert len(read(sqlite())[1]) == 3


def test_a_query_may_start_with_comments_and_parts(sqlite):
    query = "/* all\n of */ -- them\n with v as (select * from visits) select * from v order by id"
    assert read(sqlite(query))[1] == [1, 0, 1]


def test_a_missing_or_foreign_database_is_refused(tmp_path):
    foreign = tmp_path / "foreign.db"
    foreign.write_text("hello " * 500)
    for path, wording in ((tmp_path / "none.db", "does not exist"), (foreign, "not an SQLite")):
        with pytest.raises(TableError, match=wording) as caught:
            read_table(Source("sql", url=f"sqlite:///{path}", query=QUERY), SCHEMA)
        assert str(tmp_path) not in caught.value.public


def test_an_unknown_database_is_refused():
    for url in ("mysql://me:secret@host/db", "sqlite:visits.db", "host"):
        with pytest.raises(
            SettingError, match="must start with sqlite:///, duckdb:/// or postgresql://"
        ) as got:
            read_table(Source("sql", url=url, query=QUERY), SCHEMA)
        assert "secret" not in str(got.value)


def test_postgres_needs_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    source = Source("sql", url="postgresql://host/db", query=QUERY)
    with pytest.raises(MissingExtraError, match=r"pip install 'spinney-trees\[postgres\]'"):
        read_table(source, SCHEMA)


@pytest.fixture(scope="module")
def postgres(postgres_server):
    """Fill a table on a real server."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(
            "create table visits (id serial, age numeric, ward text, smokes bool, ill int, "
            "at date default '2020-01-01')"
        )
        insert = "insert into visits (age, ward, smokes, ill) values (%s, %s, %s, %s)"
        connection.cursor().executemany(insert, ROWS)
    return postgres_server


def test_a_postgres_table_is_read_and_described(postgres):
    source = Source("sql", url=postgres, query=QUERY, row_id=None)
    values, target = read(source)
    assert np.array_equal(values, VALUES, equal_nan=True)
    assert target == [1, 0, 1]
    assert described(source) == (
        Column("age", "number", range=(30, 60.5)),
        Column("ward", "category", categories=("ear", "eye")),
        Column("smokes", "boolean"),
    )


@pytest.mark.parametrize(
    ("query", "error", "wording"),
    [
        ("delete from visits", TableError, "not a single SELECT"),
        ("with x as (delete from visits returning *) select * from x", TableError, "query failed"),
        ("select nope from visits", TableError, 'says: column "nope" does not exist'),
        ("select 1; delete from visits", TableError, "query failed"),
        ("select age from visits", SchemaError, "no column 'ward'"),
        (QUERY.replace("age,", "at as age,"), TableError, "'age' holds dates or times"),
        (QUERY.replace("age,", "1 / (ill - 1) as age,"), TableError, "query failed.*by zero"),
    ],
)
def test_a_bad_postgres_query_is_refused_and_changes_nothing(postgres, query, error, wording):
    with pytest.raises(error, match=wording) as caught:
        read_table(Source("sql", url=postgres, query=query), SCHEMA)
    assert "\n" not in str(caught.value)
    assert len(read(Source("sql", url=postgres, query=QUERY))[1]) == 3


def test_a_postgres_server_that_does_not_answer_is_named():
    pytest.importorskip("psycopg")
    source = Source("sql", url="postgresql://me:secret@127.0.0.1:1/db", query=QUERY)
    with pytest.raises(TableError, match="database does not answer") as caught:
        read_table(source, SCHEMA)
    assert "secret" not in str(caught.value)


@pytest.fixture
def duckdb_file(tmp_path):
    """A DuckDB database with the visits."""
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("create table visits (age double, ward varchar, ill boolean)")
        rows = [(float(age), "eye" if age % 2 else "ear", age > 5) for age in range(10)]
        database.executemany("insert into visits values (?, ?, ?)", rows)
    return path


def test_a_duckdb_file_is_read_in_order_and_in_batches(duckdb_file):
    stream = stream_of_url(f"duckdb:///{duckdb_file}", "select age, ward from visits;")
    assert stream.names() == ("age", "ward")
    ages = [frame.cells[0] for frame in stream.frames(["age"], 4)]
    assert [len(batch) for batch in ages] == [4, 4, 2]


def test_a_duckdb_query_reads_nothing_but_its_file(duckdb_file, tmp_path):
    (tmp_path / "secret.csv").write_text("a\n1\n")
    query = f"select * from read_csv('{tmp_path / 'secret.csv'}')"
    with pytest.raises(TableError, match="The query failed"):
        stream_of_url(f"duckdb:///{duckdb_file}", query).names()
    with pytest.raises(TableError, match="does not exist"):
        stream_of_url(f"duckdb:///{tmp_path / 'none.duckdb'}", "select 1").names()
