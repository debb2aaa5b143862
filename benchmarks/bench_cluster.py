"""A party whose rows lie on two workers of one thread each, beside one process of two threads.

Both draw the same rows themselves, batch by batch, and grow the same forest. Measured: the seconds
of each phase, the peak memory of each worker and of the party, and whether the bytes are the same.
Run: python benchmarks/bench_cluster.py [--fast] [--rows 40000000]
"""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from distributed import LocalCluster

from harness import arguments, save, table, timed
from spinney.protocols import horizontal_forest
from spinney.protocols.settings import ForestSettings
from spinney.seeds import derive_seed, generator
from spinney.tables.cells import cells_of
from spinney.tables.cluster.parts import even_parts
from spinney.tables.cluster.spread import SpreadTable
from spinney.tables.cluster.workers import ClusterAddress
from spinney.tables.opening import Frame
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import SourceTable
from spinney.transport.in_process import InProcess

N_COLUMNS, N_WORKERS, N_TREES, DEPTH = 20, 2, 10, 10
WORKER_GB = 3.0
AT_MOST = 1.3
_BLOCK = 1 << 15
SCHEMA = Schema(
    tuple(Column(f"x{number}", "number") for number in range(N_COLUMNS)),
    Label("y", "class", (0, 1)),
)


@dataclass(frozen=True)
class Drawn:
    """Rows that are drawn anew on every pass, the same for everybody; or a part of them."""

    n_rows: int
    first: int = 0

    def cut(self, n_parts: int) -> Sequence["Drawn"]:
        return [Drawn(n, first) for first, n in even_parts(self.n_rows, n_parts)]

    def stream(self, schema: Schema) -> "Drawn":
        del schema
        return self

    def names(self) -> tuple[str, ...]:
        return (*SCHEMA.names, "y")

    def frames(self, wanted: Sequence[str], size: int) -> Iterator[Frame]:
        last = self.first + self.n_rows
        for block in range(self.first // _BLOCK, -(-last // _BLOCK)):
            values, target = _draw(block)
            begin = block * _BLOCK
            for at in range(max(self.first, begin), min(last, begin + _BLOCK), size):
                end = min(at + size, last, begin + _BLOCK)
                rows = slice(at - begin, end - begin)
                cells = (*(cells_of(column[rows]) for column in values), cells_of(target[rows]))
                yield Frame(tuple(wanted), cells)


def _draw(block: int) -> tuple[Any, Any]:
    """Return 32,768 rows: numbers, and a label that two columns and chance decide."""
    random = generator(derive_seed(1, block))
    values = random.standard_normal((N_COLUMNS, _BLOCK), np.float32)
    noise = random.standard_normal(_BLOCK, np.float32)
    return values, (values[0] * values[1] + values[2] + noise > 0).astype(np.int32)


def peak(process: int | str = "self") -> float:
    """Return the peak resident memory of a process, in GB."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return 1024e-9 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def grown(given: Any, open_seconds: float) -> dict[str, Any]:
    """Train, and return the seconds and the model's digest."""
    settings = ForestSettings(task="classification", n_estimators=N_TREES, max_depth=DEPTH, seed=0)
    party = horizontal_forest.Party(given, n_jobs=N_WORKERS)
    training = horizontal_forest.train(InProcess({"all": party}), settings, n_jobs=N_WORKERS)
    seconds = {"opening": open_seconds, **training.seconds}
    digest = sha256(training.model.to_bytes()).hexdigest()[:16]
    return {"seconds": seconds, "model": digest, "score": training.score}


def in_one_process(n_rows: int) -> dict[str, Any]:
    """Train on the rows in this process, with as many threads as there are workers."""
    begin = time.perf_counter()
    rows = SourceTable.checked(SCHEMA, Drawn(n_rows))
    return {**grown(rows, time.perf_counter() - begin), "party GB": peak()}


def on_workers(n_rows: int) -> dict[str, Any]:
    """Train on rows that workers of one thread each draw and hold."""
    with LocalCluster(
        n_workers=N_WORKERS,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=f"{WORKER_GB}GB",  # Dask kills a worker that takes more
        silence_logs=logging.ERROR,
    ) as cluster:
        address = ClusterAddress(cluster.scheduler_address)
        begin = time.perf_counter()
        rows = SpreadTable.open(address, Drawn(n_rows), SCHEMA)
        found = grown(rows, time.perf_counter() - begin)
        each = [peak(worker.pid) for worker in cluster.workers.values()]
        rows.close()
    return {**found, "party GB": peak(), "worker GB": each}


def measured(kind: str, n_rows: int) -> dict[str, Any]:
    """Run a case in a fresh process and return what it found."""
    command = [sys.executable, __file__, "--case", json.dumps([kind, n_rows])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    asked = arguments(__doc__, case="", rows=4_000_000)
    if asked.case:
        kind, n_rows = json.loads(asked.case)
        print(json.dumps(on_workers(n_rows) if kind == "workers" else in_one_process(n_rows)))
        return
    n_rows = 40_000 if asked.fast else asked.rows
    for kind in ("workers", "one process"):
        measured(kind, 10_000)  # compiles the kernels
    found, rows = {}, []
    for kind in ("workers", "one process"):
        sample, found[kind] = timed(lambda kind=kind: measured(kind, n_rows))
        seconds = found[kind]["seconds"]
        rows.append(
            {
                "rows": n_rows,
                "where": f"2 {kind}, 1 thread" if kind == "workers" else f"{kind}, 2 threads",
                **seconds,
                "all": sum(seconds.values()),
                "GB party": found[kind]["party GB"],
                "GB a worker": max(found[kind].get("worker GB", [0.0])),
                "CPU seconds": sample.cpu,
                "others' share of cores": sample.foreign,
            }
        )
    workers, one = rows
    checks = [
        {
            "rows": n_rows,
            "times one process, all": workers["all"] / one["all"],
            "times one process, growing": workers["growing"] / one["growing"],
            "times its CPU": workers["CPU seconds"] / one["CPU seconds"],
            "at most": AT_MOST,
            "GB a worker": workers["GB a worker"],
            "at most GB": WORKER_GB,
            "same bytes": found["workers"]["model"] == found["one process"]["model"],
        }
    ]
    title = f"{N_TREES} trees of depth {DEPTH}, {N_COLUMNS} columns: seconds by phase"
    table(title, rows)
    table("workers beside one process", checks)
    save("cluster", "one run each, in fresh processes", {title: rows, "checks": checks})


if __name__ == "__main__":
    main()
