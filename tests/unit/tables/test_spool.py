"""Cells on disk: read once and in order, then selected as if they were in memory."""

import mmap
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spinney.errors import TableError
from spinney.tables.cells import cells_of
from spinney.tables.columns import VectorColumns
from spinney.tables.opening import Frame
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.spool import spool
from spinney.tables.table import BATCH_ROWS, SourceTable

SCHEMA = Schema((Column("a", "number"), Column("b", "number")), Label("y", "class", (0, 1)))


@dataclass
class Counted:
    """A stream of many rows that remembers what was asked of it."""

    n_rows: int
    passes: int = 0
    sizes: set[int] = field(default_factory=set)

    def names(self):
        return ("a", "b", "y")

    def frames(self, wanted, size):
        self.passes += 1
        self.sizes.add(size)
        for start in range(0, self.n_rows, size):
            rows = np.arange(start, min(start + size, self.n_rows))
            cells = {"a": rows, "b": np.where(rows % 7, rows * 0.5, np.nan), "y": rows % 2}
            yield Frame(tuple(wanted), tuple(cells_of(cells[name]) for name in wanted))


def whole(table, size=1000):
    batches = list(table.batches(size))
    return [
        np.concatenate(parts, axis=-1)
        for parts in zip(*((b.values, b.target, b.keys) for b in batches), strict=True)
    ]


def test_a_spooled_table_is_the_source_s_and_reads_it_once_in_batches():
    stream = Counted(2 * BATCH_ROWS + 77)
    source = SourceTable.checked(SCHEMA, stream)
    passes = stream.passes
    table = spool(source)
    assert stream.passes == passes + 1
    for mine, theirs in zip(whole(table), whole(source), strict=True):
        assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")
    few = np.array([2, BATCH_ROWS + 1, 5])
    chosen = whole(table.select(few))
    for mine, theirs in zip(chosen, whole(source), strict=True):
        assert np.array_equal(mine, theirs[..., few], equal_nan=mine.dtype.kind == "f")
    assert stream.passes == passes + 3  # both comparisons read the source, the table does not
    assert max(stream.sizes) == BATCH_ROWS


def test_the_cells_are_in_a_file_that_has_no_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = spool(SourceTable.checked(SCHEMA, Counted(1000)))
    assert isinstance(table.columns, VectorColumns)
    base: Any = table.columns.vectors[0]
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap.mmap)
    assert list(tmp_path.iterdir()) == []  # nothing stays, however the process ends
    where = Path("/proc/self/maps")
    if where.exists():
        assert f"{tmp_path}/" in where.read_text()


@pytest.mark.parametrize("at", ["opening", "writing"])
def test_a_disk_that_is_full_says_so(at, monkeypatch):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def seek(self, _):
            raise OSError(28, "No space left on device")

    def opened(**_):
        if at == "opening":
            raise OSError(28, "No space left on device")
        return Full()

    monkeypatch.setattr(tempfile, "TemporaryFile", opened)
    source = SourceTable.checked(SCHEMA, Counted(10))
    with pytest.raises(TableError, match=r"four bytes a cell\. Make room, or set TMPDIR") as caught:
        spool(source)
    assert caught.value.local == "The system says: No space left on device."
