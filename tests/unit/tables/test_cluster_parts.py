"""Parts of a table, and the keys of their rows, without any cluster."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import SettingError, TableError
from spinney.seeds import row_keys
from spinney.tables.cluster.held import HeldPart, Refused, Settled, Unsettled, run_task
from spinney.tables.cluster.parts import ParquetTable, even_parts
from spinney.tables.cluster.repeats import (
    Earlier,
    earlier_of,
    hash_ranges,
    within,
)
from spinney.tables.readers import Source, read_table
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import SourceTable

SCHEMA = Schema((Column("x", "number"),), Label("y", "class", (0, 1)))


@pytest.fixture
def path(tmp_path):
    rows = {"x": np.arange(1000) % 300 / 7, "y": np.arange(1000) % 2, "id": np.arange(1000)}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet", row_group_size=64)
    return str(tmp_path / "rows.parquet")


@given(st.integers(0, 50), st.integers(1, 9))
def test_parts_follow_one_another_and_none_is_empty(n_rows, n_parts):
    parts = even_parts(n_rows, n_parts)
    assert sum(n for _, n in parts) == n_rows
    assert len(parts) == min(n_rows, n_parts)
    assert all(n > 0 for _, n in parts)
    assert all(first + n == following for (first, n), (following, _) in pairwise(parts))


@given(
    st.lists(st.integers(0, 6), max_size=40),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_rows_have_the_keys_that_they_have_in_one_table(rows, cuts):
    hashes = np.array(rows, np.uint64) << np.uint64(61)
    parts = np.split(hashes, sorted(min(cut, hashes.size) for cut in cuts))
    found: list[list[Earlier]] = [[] for _ in parts]
    for low, high in pairwise([0, 2**63, 2**64]):
        ordered = [within(np.sort(part), low, high) for part in parts]
        for own, earlier in zip(found, earlier_of(ordered), strict=True):
            own.append(earlier)
    keys = [
        row_keys(part, Earlier.of_ranges(own).times_of(part))
        for part, own in zip(parts, found, strict=True)
    ]
    assert np.array_equal(np.concatenate(keys), row_keys(hashes))


def test_ranges_hold_all_hashes_and_not_too_many():
    ranges = hash_ranges(10_000_000)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 2**64
    assert all(one[1] == following[0] for one, following in pairwise(ranges))
    ordered = np.array([0, 5, 2**64 - 1], np.uint64)
    assert sum(within(ordered, *each).size for each in ranges) == 3


def test_the_digest_of_a_table_does_not_depend_on_its_cuts(path):
    whole = SourceTable.checked(SCHEMA, Source("parquet", path).stream(SCHEMA))
    for n in (1, 3, 7):
        parts = ParquetTable(path).cut(n)
        digests = [HeldPart(part, SCHEMA, None, None, 1).digest() for part in parts]
        assert sum(digests) % 2**64 == whole.fingerprint


def test_a_part_reads_its_rows_and_no_others(path):
    whole = np.hstack([b.values for b in read_table(Source("parquet", path), SCHEMA).batches()])
    for part in ParquetTable(path).cut(7):
        stream = part.stream(SCHEMA)
        assert stream.names() == ("x", "y", "id")
        cells = np.concatenate([frame.cells[0].numbers() for frame in stream.frames(["x"], 100)])
        rows = whole[0, part.first : part.first + part.n_rows]
        assert np.array_equal(cells.astype(np.float32), rows)


def settled(part, digest, chosen=None):
    return Settled(digest, Earlier.nothing(), chosen, (part.first, 1000))


def test_a_part_gives_the_chosen_rows(path):
    part = ParquetTable(path).cut(2)[1]
    held = HeldPart(part, SCHEMA, "id", None, 1)
    digest = held.digest()
    held.settle(settled(part, digest))
    every = np.hstack([batch.values for batch in held.table.batches()])
    keys = np.concatenate([batch.keys for batch in held.table.batches()])
    chosen = np.arange(500) % 3 == 0
    held.settle(settled(part, digest, chosen))
    assert held.table.n_rows == 167
    assert held.table.place == (500, 1000)
    batches = list(held.table.batches(64))
    assert np.array_equal(np.hstack([batch.values for batch in batches]), every[:, chosen])
    assert np.array_equal(np.concatenate([batch.keys for batch in batches]), keys[chosen])


def test_a_part_that_changed_is_refused_when_it_is_read_again(path):
    part = ParquetTable(path).cut(2)[1]
    held = HeldPart(part, SCHEMA, None, settled(part, 12345), 1)
    with pytest.raises(TableError, match="The table changed during the job"):
        _ = held.table


def test_a_part_travels_as_its_description(path):
    part = ParquetTable(path).cut(2)[1]
    held = HeldPart(part, SCHEMA, None, None, 3)
    make, (name, *facts) = held.__reduce__()
    assert facts == [part, SCHEMA, None, None, 3]
    assert make(name, *facts) is held  # Dask wrote it to disk and wants it back
    elsewhere = make(name, *facts)
    assert elsewhere is not held
    assert elsewhere.digest() == held.digest()


def test_a_part_that_does_not_know_the_whole_table_says_so(path):
    held = HeldPart(ParquetTable(path).cut(2)[1], SCHEMA, None, None, 1)
    assert isinstance(run_task(held, lambda part: part.table, ()), Unsettled)


def test_errors_of_a_worker_keep_their_local_part_apart(path):
    schema = Schema((Column("x", "number"),), Label("y", "class", (0, 7)))
    held = HeldPart(ParquetTable(path).cut(2)[1], schema, None, None, 1)
    answer = run_task(held, HeldPart.digest, ())
    assert isinstance(answer, Refused)
    error = answer.error()
    assert type(error) is answer.kind
    assert error.public == answer.public
    assert error.local == answer.local


def test_a_worker_without_memory_says_so():
    def fail(_):
        raise MemoryError

    error = run_task(None, fail, ()).error()
    assert error.public == (
        "A worker of this party's cluster does not have enough memory for its rows."
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (Source("csv", "rows.csv"), "must be a Parquet file, .*; the source is 'csv'"),
        (Source("sql", url="sqlite:///a", query="select 1"), "the source is 'sql'"),
        (Source("parquet", "a.parquet", query="select 1"), "cannot have a query"),
    ],
)
def test_what_cannot_be_cut_is_refused(source, words):
    with pytest.raises(SettingError, match=words):
        ParquetTable.of(source)


def test_a_file_that_workers_do_not_see_is_refused(tmp_path):
    table = ParquetTable(str(tmp_path / "rows.parquet"))
    with pytest.raises(TableError, match="every worker sees it under the same path") as refused:
        table.cut(2)
    assert str(tmp_path) not in refused.value.public
    (tmp_path / "rows.parquet").write_text("no")
    with pytest.raises(TableError, match="Parquet file cannot be read"):
        table.cut(2)
