"""Tables larger than memory as floats, and databases: read in batches, kept as one byte a cell."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spinney.simulation.comparison import _tiny
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Kind, Label, Schema
from spinney.tables.table import MemoryTable

N_COLUMNS = 60
JOB = """
[job]
name = "large"
[settings]
n_estimators = 2
max_depth = 3
[schema]
label = "y"
classes = [0, 1]
[table]
source = "parquet"
path = "rows.parquet"
[simulation]
n_parties = 3
"""
# Peak of the memory that is the process's own; what is mapped from a file the system can let go.
PEAK = """
import sys, threading, time
from pathlib import Path
peak, done = [0], threading.Event()
def watch():
    while not done.wait(0.005):
        text = Path("/proc/self/status").read_text()
        peak[0] = max(peak[0], int(text.split("RssAnon:")[1].split()[0]) * 1024)
watcher = threading.Thread(target=watch)
watcher.start()
from spinney.cli.main import app
try:
    app(["simulate", "job.toml", "--json"])
finally:
    done.set()
    watcher.join()
    print(peak[0], file=sys.stderr)
"""


def write(path, n_rows):
    """Write a Parquet file a part at a time."""
    random = np.random.default_rng(0)
    names = [f"x{i}" for i in range(N_COLUMNS)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
    with pq.ParquetWriter(path, schema) as file:
        for _ in range(n_rows // 25_000):
            values = random.standard_normal((N_COLUMNS, 25_000), dtype=np.float32)
            columns = [*values, (values[0] > 0).astype(np.int8)]
            file.write_batch(pa.record_batch(columns, schema=schema))


def peak_of(folder, n_rows):
    """Simulate over so many rows in a process of its own; return its peak of own memory."""
    write(folder / "rows.parquet", n_rows)
    (folder / "job.toml").write_text(JOB)
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", PEAK],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    assert json.loads(ended.stdout)["identical_to_pooled"] is True
    return int(ended.stderr.split()[-1])


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_table_is_never_held_as_floats(tmp_path):
    """Cells take less than the four bytes of a float, though a row's keys are counted with them."""
    small, large = 50_000, 1_000_000
    least = peak_of(tmp_path, small)
    growth = peak_of(tmp_path, large) - least
    assert growth / ((large - small) * N_COLUMNS) < 3.0


@pytest.mark.slow
def test_a_postgres_table_gives_the_model_of_the_csv_file(place, postgres_server, monkeypatch):
    """Over a real server, by its URL, and over more rows than one batch."""
    psycopg = pytest.importorskip("psycopg")
    rows = place.visits(40_000)
    place.csv("visits.csv", rows)
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("create table stays (n serial, years float8, ward text, ill text)")
        with connection.cursor().copy("copy stays (years, ward, ill) from stdin") as copy:
            for row in rows:
                copy.write_row(row)
    monkeypatch.setenv("STAYS_URL", postgres_server)
    query = "select years as age, ward, ill from stays order by n"
    tables = {
        "csv": 'source = "csv"\npath = "visits.csv"',
        "postgres": f'source = "sql"\nurl_env = "STAYS_URL"\nquery = "{query}"',
    }
    models = set()
    for name, table in tables.items():
        place.job(f"{place.JOB}[table]\n{table}\n")
        told = place.run("simulate", "job.toml", "--out", name)
        assert told.exit_code == 0, told.stderr
        models.add((place.folder / name / "model.spinney").read_bytes())
    assert len(models) == 1
    place.job(f"{place.JOB}[table]\n{tables['postgres'].replace('stays order', 'nope order')}\n")
    code, line = place.refused("simulate", "job.toml")
    assert code == 20
    assert 'The database says: relation "nope" does not exist' in line


def test_of_thousands_of_columns_a_few_of_each_kind_are_tried_first():
    """Else loading kernels takes as long on a wide table as training."""
    n = 3000
    kinds: list[Kind] = ["number", "boolean"] * (n // 2)
    columns = [Column(f"x{i}", kind) for i, kind in enumerate(kinds)]
    columns.append(Column("ward", "category", categories=("eye", "ear")))
    schema = Schema(tuple(columns), Label("y", "class", (0, 1)))
    vectors = VectorColumns(tuple(np.zeros((n + 1, 40), np.float32)))
    table = MemoryTable(schema, vectors, np.arange(40, dtype=np.int32) % 2)
    tiny = _tiny(table)
    found = [column.kind for column in tiny.schema.columns]
    assert [found.count(kind) for kind in ("number", "boolean", "category")] == [24, 24, 1]
    assert np.array_equal(np.unique(tiny.all_keys), np.unique(table.all_keys))
    (batch,) = tiny.batches()
    assert batch.values.shape == (49, 256)
