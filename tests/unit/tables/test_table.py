"""Tables give the same rows with the same keys on every pass."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import SettingError, TableError
from spinney.seeds import row_hashes, row_keys
from spinney.tables.cells import cells_of
from spinney.tables.columns import MatrixColumns
from spinney.tables.opening import Frame
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import BATCH_ROWS, MemoryTable, Remembered, SourceTable, hashes_of_ids

SCHEMA = Schema((Column("a", "number"), Column("b", "number")), Label("y", "class", (0, 1)))


def memory_table(n_rows=10, seed=0, **facts):
    random = np.random.RandomState(seed)
    X = random.randint(0, 3, (n_rows, 2)).astype(float)
    X[random.uniform(size=X.shape) < 0.2] = np.nan
    target = random.randint(0, 2, n_rows).astype(np.int32)
    return MemoryTable(SCHEMA, MatrixColumns(X), target, **facts)


def whole(table, size=16384):
    """Return all of a table's values, targets and keys."""
    batches = list(table.batches(size))
    assert all(len(batch.target) == len(batch.keys) <= size for batch in batches)
    empty = [(np.empty((2, 0), np.float32), np.empty(0, np.int32), np.empty(0, np.uint64))]
    parts = [(batch.values, batch.target, batch.keys) for batch in batches] or empty
    return tuple(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))


def same(left, right):
    return all(
        np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        for one, other in zip(left, right, strict=True)
    )


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_batches_are_the_table_whatever_their_size(n_rows, size, seed):
    table = memory_table(n_rows, seed)
    values, target, keys = whole(table, size)
    assert values.dtype == np.float32
    assert target.dtype == np.int32
    assert keys.dtype == np.uint64
    assert table.n_rows == n_rows == len(set(keys))
    assert same((values, target, keys), whole(table))


def test_keys_are_those_of_the_seeds():
    table = memory_table(40_000)
    values, target, keys = whole(table)
    assert np.array_equal(keys, row_keys(row_hashes(values, target)))


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_a_row_keeps_its_key_however_rows_are_dealt(n_rows, n_parties, seed):
    table = memory_table(n_rows, seed)
    values, target, keys = whole(table)
    party = np.random.RandomState(seed).randint(0, n_parties, n_rows)
    for one in range(n_parties):
        rows = np.flatnonzero(party == one)
        part = table.select(rows)
        assert part.n_rows == len(rows)
        assert part.columns is table.columns
        assert same(whole(part, 3), (values[:, rows], target[rows], keys[rows]))


def test_a_selection_can_be_selected_from():
    table = memory_table(10)
    twice = table.select(np.array([7, 2, 5])).select(np.array([2, 0]))
    assert same(whole(twice), whole(table.select(np.array([5, 7]))))
    assert same(whole(table.select(slice(2, 4))), whole(table.select(np.array([2, 3]))))
    mask = np.arange(10) > 7
    assert same(whole(table.select(mask)), whole(table.select(np.array([8, 9]))))


def test_given_keys_and_rows_are_used():
    keys = np.arange(10, dtype=np.uint64)
    table = memory_table(10, keys=keys, rows=np.array([3, 1]))
    assert table.n_rows == 2
    assert whole(table)[2].tolist() == [3, 1]


def test_a_target_of_another_length_is_refused_and_only_the_party_learns_the_lengths():
    with pytest.raises(TableError, match="one entry per row") as caught:
        MemoryTable(SCHEMA, MatrixColumns(np.zeros((7, 2))), np.zeros(5, dtype=np.int32))
    assert "7" not in caught.value.public
    assert "7 rows" in caught.value.local


def test_a_batch_without_rows_is_refused():
    with pytest.raises(SettingError, match="at least 1 row; got size=0"):
        next(memory_table().batches(0))


def test_ids_give_keys_that_do_not_depend_on_their_type():
    keys = row_keys(hashes_of_ids(["7", "8", "ö"]))
    assert keys.tolist()[0] == 9407870976149377255
    assert row_keys(hashes_of_ids([7, 8])).tolist() == keys.tolist()[:2]
    assert row_keys(hashes_of_ids(np.array([7.0, 8.0]))).tolist() == keys.tolist()[:2]


def test_repeated_ids_still_give_distinct_keys():
    keys = row_keys(hashes_of_ids(["a", "b", "a"]))
    assert len(set(keys)) == 3
    assert keys[0] == row_keys(hashes_of_ids(["a"]))[0]


def test_a_missing_id_is_refused():
    with pytest.raises(TableError, match="row id 'patient' is missing in some rows"):
        hashes_of_ids(["a", None], name="patient")


@dataclass
class ListStream:
    """A stream over lists that a test can change under the table."""

    data: dict[str, list[Any]]

    def names(self):
        return tuple(self.data)

    def frames(self, wanted, size):
        for start in range(0, len(self.data["a"]), size):
            cells = [cells_of(self.data[name][start : start + size]) for name in wanted]
            yield Frame(tuple(wanted), tuple(cells))


def stream():
    return ListStream({"a": [1, 2, None, 1], "b": [5, 6, 7, 5], "y": [0, 1, 1, 0], "id": [*"wxyz"]})


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_source_reads_like_a_table_in_memory(size):
    source = SourceTable.checked(SCHEMA, stream())
    X = np.array([[1, 5], [2, 6], [np.nan, 7], [1, 5]])
    table = MemoryTable(SCHEMA, MatrixColumns(X), np.array([0, 1, 1, 0], dtype=np.int32))
    assert source.n_rows == 4
    assert same(whole(source, size), whole(table))


def test_a_source_takes_its_keys_from_its_rows_and_their_ids():
    """Ids that every party counts from 1 must not make different rows alike."""
    by_content = whole(SourceTable.checked(SCHEMA, stream()))[2]
    by_id = whole(SourceTable.checked(SCHEMA, stream(), "id"), 2)[2]
    assert not np.isin(by_id, by_content).any()
    other = stream()
    other.data |= {"a": [1, 2, 3, 4]}
    there = whole(SourceTable.checked(SCHEMA, other, "id"))[2]
    assert (there == by_id).tolist() == [True, True, False, False]
    renamed = stream()
    renamed.data |= {"id": [*"wabc"]}
    there = whole(SourceTable.checked(SCHEMA, renamed, "id"))[2]
    assert (there == by_id).tolist() == [True, False, False, False]


def test_rows_alike_get_keys_of_their_own_in_one_table_only():
    """The module's docstring describes parties that hold the same row."""
    twice = ListStream({"a": [1, 1], "b": [5, 5], "y": [0, 0], "id": [1, 2]})
    once = ListStream({"a": [1], "b": [5], "y": [0], "id": [1]})
    keys = whole(SourceTable.checked(SCHEMA, twice))[2]
    assert keys[0] != keys[1]
    assert whole(SourceTable.checked(SCHEMA, once))[2].tolist() == keys[:1].tolist()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_keys_are_hashed_on_as_many_threads_as_allowed(n_threads, monkeypatch):
    started = []

    class Noting(ThreadPoolExecutor):
        def __init__(self, n_workers, **how):
            started.append(n_workers)
            super().__init__(n_workers, **how)

    monkeypatch.setattr("spinney.tables.table.ThreadPoolExecutor", Noting)
    table = memory_table(BATCH_ROWS + 1)
    keys = replace(table, n_threads=n_threads).all_keys
    assert started == [n_threads]
    assert np.array_equal(keys, table.all_keys)


@pytest.mark.parametrize(
    "change",
    [
        {"a": [1, 2, None, 9]},
        {"y": [1, 0, 1, 0]},
        {"a": [2, 1, None, 1], "b": [6, 5, 7, 5], "y": [1, 0, 1, 0], "id": [*"xwyz"]},
        {"id": [*"wxya"]},
        {name: cells[:-1] for name, cells in stream().data.items()},
        {name: cells * 2 for name, cells in stream().data.items()},
    ],
)
def test_a_table_that_changes_between_passes_is_refused(change):
    changing = stream()
    table = SourceTable.checked(SCHEMA, changing, "id")
    whole(table)
    changing.data |= change
    with pytest.raises(TableError, match=r"table changed during the job.*ORDER BY"):
        whole(table, 3)


def test_a_source_without_rows_is_refused():
    empty = ListStream({"a": [], "b": [], "y": []})
    with pytest.raises(TableError, match=r"has no rows\. Check the file"):
        SourceTable.checked(SCHEMA, empty)
    with pytest.raises(SettingError, match="at least 1 row"):
        next(SourceTable.checked(SCHEMA, stream()).batches(0))


def test_a_small_table_is_read_once_until_it_is_forgotten():
    class Counted:
        def __init__(self, table):
            self.schema, self.n_rows, self._table, self.n_reads = (
                table.schema,
                table.n_rows,
                table,
                0,
            )

        def batches(self, size=BATCH_ROWS):
            self.n_reads += 1
            return self._table.batches(size)

    counted = Counted(memory_table())
    table = Remembered(counted)
    first, again = list(table.batches()), list(table.batches())
    assert counted.n_reads == 1
    assert [id(batch) for batch in first] == [id(batch) for batch in again]
    assert [len(batch.keys) for batch in table.batches(1)] == [1] * table.n_rows  # other sizes
    assert counted.n_reads == 2
    table.forget()
    assert len(list(table.batches())) == len(first)
    assert counted.n_reads == 3
