"""A table whose cells are in a temporary file, so that rows can be selected and read again.

A source returns its rows only in order, and reading it again for every pass and every party is
slow. So its cells are written once, as float32, to an unnamed temporary file that disappears with
the process. The file is memory-mapped: the system keeps as much of it in memory as there is room
for. Only a key and a label for each row stay in memory.
"""

import tempfile
from io import BufferedRandom

import numpy as np

from spinney.errors import TableError
from spinney.tables.columns import VectorColumns
from spinney.tables.table import MemoryTable, Table
from spinney.typing import Values

_CELL = np.dtype(np.float32)


def spool(table: Table) -> MemoryTable:
    """Read a table once, in batches, and return it with its cells on disk."""
    is_class = table.schema.label.kind == "class"
    target = np.empty(table.n_rows, dtype=np.int32 if is_class else np.float64)
    keys = np.empty(table.n_rows, dtype=np.uint64)
    ids = [np.empty(0, dtype=np.uint64)]
    weights = [np.empty(0)]
    shape = (len(table.schema.columns), table.n_rows)
    with _room() as file:
        start = 0
        for batch in table.batches():
            rows = slice(start, start + len(batch.keys))
            target[rows], keys[rows] = batch.target, batch.keys
            ids += [] if batch.ids is None else [batch.ids]
            weights += [] if batch.weight is None else [batch.weight]
            _write(file, batch.values, shape[1], start)
            start = rows.stop
        cells = np.empty((shape[0], 0), _CELL)  # an empty file cannot be mapped
        if table.n_rows:
            cells = np.asarray(np.memmap(file, _CELL, "r", shape=shape))
    known = np.concatenate(ids) if len(ids) > 1 else None
    weight = np.concatenate(weights) if len(weights) > 1 else None
    features = VectorColumns(tuple(cells))
    return MemoryTable(table.schema, features, target, keys, ids=known, weight=weight)


def _room() -> BufferedRandom:
    try:
        return tempfile.TemporaryFile(prefix="spinney-")
    except OSError as error:
        raise _no_room(error) from None


def _write(file: BufferedRandom, values: Values, n_rows: int, start: int) -> None:
    """Write some rows; every column has a contiguous stretch of the file."""
    try:
        for place, line in enumerate(np.ascontiguousarray(values, _CELL)):
            file.seek((place * n_rows + start) * _CELL.itemsize)
            file.write(line.data)
        file.flush()
    except OSError as error:
        raise _no_room(error) from None


def _no_room(error: OSError) -> TableError:
    return TableError(
        "The table's cells cannot be written to a temporary file, which takes four bytes a cell. "
        "Make room, or set TMPDIR to a folder that has some.",
        local=f"The system says: {error.strerror or error}.",
    )
