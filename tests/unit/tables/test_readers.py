"""Tables in files, read in batches."""

import subprocess
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spinney.errors import SchemaError, SettingError, TableError
from spinney.jobs.tables import join_findings
from spinney.tables.frames import columns_of, encode_target
from spinney.tables.readers import Source, findings_of_source, read_table
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable

SCHEMA = Schema(
    (
        Column("age", "number"),
        Column("ward", "category", categories=("eye", "007")),
        Column("smokes", "boolean"),
        Column("grade", "category", categories=(1, 2)),
    ),
    Label("ill", "class", ("no", "yes")),
)
CSV = """age,ward,smokes,grade,ill
30.5,eye,true,1,yes
,007,false,2.0,no
NA,,,NaN,no
"""
VALUES = [[30.5, np.nan, np.nan], [0, 1, np.nan], [1, 0, np.nan], [0, 1, np.nan]]


@pytest.fixture
def csv(tmp_path):
    def written(text=CSV, encoding="utf-8", **facts):
        path = tmp_path / "table.csv"
        path.write_text(text, encoding=encoding, newline="")
        return Source("csv", path=str(path), **facts)

    return written


@pytest.fixture
def parquet(tmp_path):
    def written(data, **facts):
        path = tmp_path / "it's a table.parquet"
        pq.write_table(pa.table(data), path)
        return Source("parquet", path=str(path), **facts)

    return written


def described(source, label, kind, columns=None):
    found = findings_of_source(source, label, kind, columns=columns)
    return join_findings({"here": found}, {"here": Label(label, kind)}, needs_ranges=True)


def read(source, schema=SCHEMA, size=16384):
    batches = list(read_table(source, schema).batches(size))
    assert all(batch.values.flags.c_contiguous for batch in batches)
    values = np.concatenate([batch.values for batch in batches], axis=1)
    return values, np.concatenate([batch.target for batch in batches])


@pytest.mark.parametrize(
    "text",
    [
        CSV,
        CSV.replace(",", ";"),
        CSV.replace(",", "\t"),
        CSV.replace("\n", "\r\n"),
        "\ufeff" + CSV,
        CSV.replace("age", '"age"').replace("eye", '"eye"'),
        CSV.replace("ill", "ill,other").replace("yes", "yes,a").replace("no", 'no,"b,c"'),
    ],
    ids=["comma", "semicolon", "tab", "crlf", "bom", "quotes", "extra column"],
)
@pytest.mark.parametrize("size", [1, 100])
def test_a_csv_file_is_read_as_the_schema_has_it(csv, text, size):
    values, target = read(csv(text), size=size)
    assert np.array_equal(values, VALUES, equal_nan=True)
    assert target.tolist() == [1, 0, 0]


def test_a_text_for_missing_may_be_a_category(csv):
    schema = Schema((Column("land", "category", categories=("NA", "DE")),), Label("y", "number"))
    values, target = read(csv("land,y\nNA,1\nDE,2\nN/A,3\n"), schema)
    assert np.array_equal(values, [[0, 1, np.nan]], equal_nan=True)
    assert target.dtype == np.float64


def test_a_label_may_be_true_or_false(csv):
    schema = Schema((Column("a", "number"),), Label("y", "class", (False, True)))
    assert read(csv("a,y\n1,true\n2,False\n"), schema)[1].tolist() == [1, 0]


def test_long_whole_numbers_stay_apart(csv):
    schema = Schema((Column("a", "category", categories=(2**60, 2**60 + 1)),), Label("y", "number"))
    values, _ = read(csv(f"a,y\n{2**60 + 1},1\n{2**60},2\n"), schema)
    assert values.tolist() == [[1, 0]]


def test_a_query_maps_own_columns_to_the_schema(csv):
    text = (
        "alter;station;raucht;note;krank;tag\n"
        "61;eye;true;1;ja;31/12/2020\n"
        "5;007;False;2;nein;1/1/2021\n"
    )
    query = """
        -- from days to years
        select alter / 2 as age, station as ward, raucht as smokes, note as grade,
               case krank when 'ja' then 'yes' else 'no' end as ill, krank, year(tag)
        from source order by age;
    """
    values, target = read(csv(text, query=query))
    assert values.tolist() == [[2.5, 30.5], [1, 0], [0, 1], [1, 0]]
    assert target.tolist() == [0, 1]


def test_a_parquet_file_reads_like_the_frame_it_was_written_from(parquet):
    random = np.random.RandomState(0)
    frame = pa.table(
        {
            "unused": ["x"] * 50_000,
            "ill": random.choice(["no", "yes"], 50_000),
            "grade": random.choice([1, 2], 50_000),
            "smokes": [True, False, None, False, True] * 10_000,
            "ward": pa.array(["eye", None, "007", "eye"] * 12_500).dictionary_encode(),
            "age": random.normal(size=50_000),
        }
    )
    source = read_table(parquet(frame), SCHEMA)
    columns = columns_of(frame.select(SCHEMA.names), SCHEMA)
    memory = MemoryTable(SCHEMA, columns, encode_target(frame["ill"], SCHEMA.label))
    assert source.n_rows == 50_000
    for size in (16384, 9999):
        keys = [np.concatenate([b.keys for b in table.batches(size)]) for table in (source, memory)]
        assert np.array_equal(keys[0], keys[1])
    values = np.concatenate([batch.values for batch in source.batches()], axis=1)
    assert np.array_equal(values, columns.values(slice(None)), equal_nan=True)


def test_every_pass_over_a_query_gives_the_same_order(parquet):
    data = {"age": np.arange(60_000) % 5000, "ill": ["no", "yes"] * 30_000}
    query = "select age, any_value(ill) as ill from source group by age"
    schema = Schema((Column("age", "number"),), SCHEMA.label)
    table = read_table(parquet(data, query=query), schema)
    first, second = ([batch.values.tolist() for batch in table.batches()] for _ in range(2))
    assert first == second
    assert table.n_rows == 5000


def test_a_file_that_changes_between_passes_is_refused(csv):
    table = read_table(csv(), SCHEMA)
    csv(CSV.replace("30.5", "31.5"))
    with pytest.raises(TableError, match="table changed during the job"):
        list(table.batches())


def test_row_ids_and_content_give_the_keys(csv):
    schema = Schema((Column("age", "number"),), Label("y", "number"))

    def keys(*lines):
        (batch,) = read_table(
            csv("\n".join(["id,age,y", *lines, ""]), row_id="id"), schema
        ).batches()
        return batch.keys.tolist()

    u, v = keys("u,1,2", "v,1,2")
    assert u != v  # the same content
    assert keys("v,1,2", "u,1,2") == [v, u]  # whatever the order
    assert keys("u,1,3", "v,1,2")[0] != u  # an id that two parties number by themselves


def test_a_private_job_takes_unknown_categories_as_missing(csv):
    source = csv(CSV.replace("eye", "ear"))
    with pytest.raises(SchemaError, match="'ward' holds a category that the schema does not name"):
        read_table(source, SCHEMA)
    table = read_table(source, SCHEMA, outside="leave_out")
    (batch,) = table.batches()
    assert np.array_equal(batch.values[1], [np.nan, 1, np.nan], equal_nan=True)
    assert sum(table.changes.values()) == 1  # one was missing


@pytest.mark.parametrize(
    ("text", "error", "wording"),
    [
        (CSV + "1,eye,t\n", TableError, r"more or fewer cells.*Line 5\. Expected 5 cells, found 3"),
        (CSV + "1,eye,t,1,no,9\n", TableError, r"more or fewer cells.*Line 5\."),
        (CSV + "old,eye,t,1,no\n", SchemaError, "'age' of the CSV file holds text that cannot be"),
        (CSV + "1,eye,maybe,1,no\n", SchemaError, "'smokes'.*cannot be read as booleans"),
        (CSV + '1,"eye,t,1,no\n', TableError, "a quote that is never closed"),
        (CSV + '1,"eye"s,t,1,no\n', TableError, "not well formed|never closed"),
        (CSV + "inf,eye,t,1,no\n", TableError, "'age' holds a number that is infinite"),
        (CSV + "1,eye,t,1,maybe\n", SchemaError, "'ill' holds a class that the schema does not"),
        (CSV + "1,eye,t,1,\n", TableError, "'ill' is missing"),
        (CSV.replace("age", "years"), SchemaError, "no column 'age'.*It has: years, ward, smokes"),
        (",,,,\n1,2,3,4,5\n", TableError, "no header with a name for every column"),
        (CSV.replace("ill", "age"), TableError, "more than one column called 'age'"),
        ("", TableError, "The CSV file is empty"),
        ("age,ward,smokes,grade,ill\n", TableError, "has no rows"),
    ],
)
def test_a_bad_csv_file_is_refused_in_one_sentence(csv, text, error, wording):
    with pytest.raises(error, match=wording) as caught:
        read_table(csv(text), SCHEMA)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["header", "cell", "far below"])
def test_a_csv_file_in_another_encoding_is_refused(csv, place):
    text = CSV.replace("ward", "wärd") if place == "header" else CSV.replace("eye", "Äuge")
    if place == "far below":
        text = CSV + "1,eye,true,1,yes\n" * 10_000 + "1,Äuge,true,1,yes\n"
    with pytest.raises(TableError, match=r"not UTF-8 text\. Save it as UTF-8"):
        read_table(csv(text, encoding="latin-1"), SCHEMA)


def test_a_ragged_file_is_named_as_such_also_under_a_query(csv):
    source = csv(CSV + "1,2\n", query="select * from source")
    with pytest.raises(TableError, match="more or fewer cells"):
        read_table(source, SCHEMA)
    with pytest.raises(TableError, match="more or fewer cells"):
        findings_of_source(csv(CSV + "1,2\n"), "ill", "class")


@pytest.mark.parametrize(
    ("query", "error", "wording"),
    [
        ("drop table source", TableError, "not a single SELECT"),
        ("select * from source; select 1", TableError, "not a single SELECT"),
        ("copy (select 1) to 'x'", TableError, "not a single SELECT"),
        ("", SchemaError, "no column"),
        ("select nope from source", TableError, 'query failed.*says: Binder Error.*"nope"'),
        ("select * from sauce", TableError, "query failed.*sauce"),
        ("select * from source where", TableError, "query failed"),
        ("select * from source where age > 1e9", TableError, "has no rows"),
        ("select age from source", SchemaError, "no column 'ward', 'smokes', 'grade', 'ill'"),
        ("select *, 1 as age from source", TableError, "more than one column called 'age'"),
        ("select * replace (date '2020-01-01' as age) from source", TableError, "dates or times"),
        ("select * replace (error('x') as age) from source", TableError, "query failed"),
    ],
)
def test_a_bad_query_is_refused_in_one_sentence(csv, query, error, wording):
    text = CSV if query else "a\n1\n"
    with pytest.raises(error, match=wording) as caught:
        read_table(csv(text, query=query or None), SCHEMA)
    assert "\n" not in str(caught.value)


def test_a_query_cannot_reach_python(csv):
    frame = pa.table({"age": [1]})
    assert len(frame) == 1
    with pytest.raises(TableError, match="query failed"):
        read_table(csv(query="select * from frame"), SCHEMA)


def test_a_missing_or_foreign_file_is_refused(tmp_path):
    for format_ in ("csv", "parquet"):
        with pytest.raises(TableError, match="does not exist") as caught:
            read_table(Source(format_, path=str(tmp_path / "none")), SCHEMA)
        assert str(tmp_path) not in caught.value.public
        assert str(tmp_path) in caught.value.local
    foreign = tmp_path / "foreign.parquet"
    foreign.write_text(CSV)
    for query in (None, "select * from source"):
        with pytest.raises(TableError, match="Parquet file cannot be read"):
            read_table(Source("parquet", path=str(foreign), query=query), SCHEMA)


def test_a_wrong_query_over_a_parquet_file_is_not_blamed_on_the_file(parquet):
    with pytest.raises(TableError, match=r"query failed.*parquet_rows"):
        read_table(parquet({"age": [1]}, query="select parquet_rows from source"), SCHEMA)


@pytest.mark.parametrize(
    ("facts", "wording"),
    [
        ({"format": "xls", "path": "a"}, "must be csv or parquet or sql; got 'xls'"),
        ({"format": "csv"}, "csv source needs a path"),
        ({"format": "parquet", "url": "sqlite:///x"}, "Give path, not url"),
        ({"format": "sql", "path": "x", "query": "select 1"}, "Give url, not path"),
        ({"format": "sql", "url": "sqlite:///x"}, "needs a query"),
    ],
)
def test_a_source_that_cannot_be_is_refused(facts, wording):
    with pytest.raises(SettingError, match=wording):
        Source(**facts)


def test_a_password_is_not_shown():
    source = Source("sql", url="postgresql://me:secret@host/db", query="select 1")
    assert "secret" not in repr(source)


def test_a_csv_file_is_described(csv):
    schema = described(csv(), "ill", "class")
    assert schema == Schema(
        (
            Column("age", "number", range=(30.5, 30.5)),
            Column("ward", "category", categories=("007", "eye")),
            Column("smokes", "boolean"),
            Column("grade", "number", range=(1, 2)),
        ),
        SCHEMA.label,
    )
    assert read(csv(), schema)[0].shape == (4, 3)


def test_a_description_can_be_steered(csv):
    source = csv("id,a,b,cost\nu,1,2,3.5\nv,2,2,4\n", row_id="id")
    schema = described(source, "cost", "number")
    assert schema == Schema(
        (Column("a", "number", range=(1, 2)), Column("b", "number", range=(2, 2))),
        Label("cost", "number", range=(3.5, 4)),
    )
    assert described(source, "cost", "number", columns=["b"]).names == ("b",)
    with pytest.raises(SchemaError, match="no column 'price'"):
        described(source, "price", "number")
    with pytest.raises(TableError, match="has no rows"):
        described(csv("a,b\n"), "b", "number")


cells = st.one_of(
    st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=4)
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None
)
@given(rows=st.lists(st.tuples(st.none() | st.floats(-1e9, 1e9), cells), min_size=1, max_size=8))
def test_odd_tables_read_the_same_from_parquet_and_from_memory(parquet, rows):
    frame = pa.table(
        {
            "größe 'm'": pa.array([row[0] for row in rows], pa.float64()),
            'a "b"': pa.array([row[1] for row in rows], pa.string()),
            "y": list(range(len(rows))),
        }
    )
    texts = tuple(sorted({row[1] for row in rows if row[1] is not None})) or ("x",)
    schema = Schema(
        (Column("größe 'm'", "number"), Column('a "b"', "category", categories=texts)),
        Label("y", "number"),
    )
    values, target = read(parquet(frame), schema, size=3)
    expected = columns_of(frame.drop_columns("y"), schema).values(slice(None))
    assert np.array_equal(values, expected, equal_nan=True)
    assert target.tolist() == list(range(len(rows)))


def test_a_large_file_is_never_held_whole(tmp_path, monkeypatch):
    path = tmp_path / "large.parquet"
    duckdb.sql("select i as a, i % 2 as y from range(100000) t(i)").write_parquet(str(path))
    schema = Schema((Column("a", "number"),), Label("y", "class", (0, 1)))
    table = read_table(Source("parquet", path=str(path)), schema)
    sizes = [batch.values.shape[1] for batch in table.batches(4096)]
    assert max(sizes) <= 4096
    assert sum(sizes) == 100_000
    found = np.concatenate([batch.values[0] for batch in table.batches()])
    assert np.array_equal(found, np.arange(100_000))


def test_no_reader_draws_a_bar_of_its_own():
    """DuckDB shows a progress bar in `python -c`, after two seconds, on stdout."""
    code = (
        "from spinney.tables.files import connection_to_files\n"
        "with connection_to_files() as found:\n"
        "    sql = \"SELECT current_setting('enable_progress_bar')\"\n"
        "    print(found.execute(sql).fetchall())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert ended.stdout == "[(False,)]\n"
