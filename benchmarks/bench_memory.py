"""Peak memory of training, each case in a fresh process, beside what it may be at most.

At most: the binned table, 6 bytes for each row and tree grown at once, and the histograms of a
batch. The rise of the peak is counted from where the process stands with its input loaded.
Run: python benchmarks/bench_memory.py [--fast]
"""

import gc
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from data import tiled
from harness import arguments, save, table
from spinney import HorizontalForestClassifier, deal_rows
from spinney.errors import PrivacyLeakWarning
from spinney.protocols import horizontal_forest
from spinney.protocols.settings import ForestSettings
from spinney.tables.readers import Source, read_table
from spinney.tables.schema import Column, Label, Schema
from spinney.transport.in_process import InProcess

_MB = 1e6
_LIMIT_GB = 4.0
_CELLS = 33


def resident(what: str) -> float:
    """Return this process's resident memory in bytes: now ("VmRSS") or at its peak ("VmHWM")."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(what))


def now() -> float:
    """Return the resident memory, and let the peak start from here."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return resident("VmRSS")


def warm_up() -> None:
    """Load all kernels on a table of a few rows."""
    X, y = tiled(1000)
    HorizontalForestClassifier(2, max_depth=3).fit(X, y, party=deal_rows(y, 2, random_state=0))


def fit_array(n_rows: int, n_trees: int, depth: int, n_parties: int) -> dict[str, Any]:
    """Train on an array in memory."""
    X, y = tiled(n_rows)
    party = deal_rows(y, n_parties, random_state=0) if n_parties > 1 else None
    before = now()
    forest = HorizontalForestClassifier(n_trees, max_depth=depth, random_state=0)
    report = forest.fit(X, y, party=party).report_
    return {"before": before, "peak": resident("VmHWM"), "seconds": sum(report.seconds.values())}


def fit_file(path: str, n_trees: int, depth: int) -> dict[str, Any]:
    """Train on a Parquet file that is read in batches."""
    schema = Schema(
        tuple(Column(f"x{i}", "number") for i in range(30)), Label("y", "class", (0, 1))
    )
    before = now()
    party = horizontal_forest.Party(read_table(Source("parquet", path), schema))
    settings = ForestSettings(task="classification", n_estimators=n_trees, max_depth=depth)
    training = horizontal_forest.train(InProcess({"all": party}), settings)
    return {"before": before, "peak": resident("VmHWM"), "seconds": sum(training.seconds.values())}


def allowed(n_rows: int, n_trees: int, depth: int) -> dict[str, float]:
    """Return the bytes that training may take: table, rows in trees, histograms of a batch."""
    nodes = min(2 ** (depth - 1), n_rows)
    limit = ForestSettings(task="classification").message_limit
    histograms = min(limit, n_trees * nodes * 5 * _CELLS * 2 * 4)
    return {"bins": 30.0 * n_rows, "rows": 6.0 * n_rows * n_trees, "histograms": histograms}


def measured(case: list[Any]) -> dict[str, Any]:
    """Run a case in a fresh process and return what it found."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def row(source: str, n_rows: int, n_trees: int, depth: int, case: list[Any]) -> dict[str, Any]:
    """Measure a case and set it beside what is allowed."""
    found, most = measured(case), allowed(n_rows, n_trees, depth)
    rise, bound = found["peak"] - found["before"], sum(most.values())
    return {
        "source": source,
        "rows": n_rows,
        "trees": n_trees,
        "depth": depth,
        "seconds": found["seconds"],
        "MB before": found["before"] / _MB,
        "MB rise": rise / _MB,
        "MB allowed": bound / _MB,
        "rise / allowed": rise / bound,
        "of which bins": most["bins"] / _MB,
        "of which histograms": most["histograms"] / _MB,
        "GB peak": found["peak"] / 1e9,
        "under 4 GB": found["peak"] / 1e9 < _LIMIT_GB,
    }


def write_parquet(path: Path, n_rows: int) -> None:
    """Write a drawn table as float32 columns."""
    X, y = tiled(n_rows)
    columns = {f"x{i}": pa.array(np.ascontiguousarray(X[:, i])) for i in range(30)}
    pq.write_table(pa.table({**columns, "y": y}), path)


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, case="")
    if asked.case:
        kind, *rest = json.loads(asked.case)
        warm_up()
        print(json.dumps(fit_array(*rest) if kind == "array" else fit_file(*rest)))
        return
    scale = 100 if asked.fast else 1
    rows = []
    for n_rows, n_trees, depth, n_parties in (
        (200_000, 100, 10, 1),
        (200_000, 100, 10, 5),
        (1_000_000, 20, 12, 1),
        (1_000_000, 100, 10, 5),
        (5_000_000, 100, 10, 5),
    ):
        n = n_rows // scale
        source = f"array, {n_parties} parties"
        rows.append(row(source, n, n_trees, depth, ["array", n, n_trees, depth, n_parties]))
    with tempfile.TemporaryDirectory() as folder:
        path, n = Path(folder) / "table.parquet", 5_000_000 // scale
        write_parquet(path, n)
        rows.append(row("parquet, 1 party", n, 100, 10, ["file", str(path), 100, 10]))
    title = "peak resident memory while training, 30 columns"
    table(title, rows)
    save("memory", "peak resident memory (VmHWM) of a fresh process, one run each", {title: rows})


if __name__ == "__main__":
    main()
