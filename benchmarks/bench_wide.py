"""Wide and small tables: 10 trees on pooled rows, in turns with scikit-learn's; a wide file.

CPU times on one thread, which a busy machine hardly disturbs; kernels warm. The file is a CSV file
of 2,000 x 3,000 cells, which `spinney simulate` checks, deals to five parties, and trains and
judges 100 trees on, each party's own beside: the CPU time of that process.
Run: python benchmarks/bench_wide.py [--fast] [--repeats 7] [--part forests | file]
"""

import os
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier

from harness import arguments, interleaved, median, ratio, save, table, timed_by_cpu
from spinney import HorizontalForestClassifier
from spinney.errors import PrivacyLeakWarning

SHAPES = ((2000, 2000), (500, 5000), (150, 4))
N_TREES = 10
_FILE, _SMALL = (2000, 3000), (300, 50)
_SPINNEY = str(Path(sys.executable).with_name("spinney"))


def rows_of(n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a drawn table; iris, if it is as small."""
    if (n_rows, n_columns) == SHAPES[-1]:
        found: tuple[np.ndarray, np.ndarray] = load_iris(return_X_y=True)
        return found
    X, y = make_classification(n_rows, n_columns, n_informative=20, random_state=0)
    return X.astype(np.float32), y


def file_rows(n_rows: int, n_columns: int) -> list[dict[str, Any]]:
    """Simulate a job on a CSV file, the second time with kernels compiled."""
    X, y = rows_of(n_rows, n_columns)
    names = [f"c{place}" for place in range(n_columns)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "wide.csv")
        pd.DataFrame(X, columns=names).assign(y=np.where(y, "yes", "no")).to_csv(path, index=False)
        command = [_SPINNEY, "simulate", path.name, "--label", "y"]
        # Packages that are installed keep their modules compiled.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        simulate = partial(
            subprocess.run, command, cwd=folder, env=env, check=True, capture_output=True
        )
        simulate()
        sample, _ = timed_by_cpu(simulate)
        size = path.stat().st_size
    return [{"file": f"{n_rows} x {n_columns}", "MB": size / 1e6, "CPU s": sample.cpu}]


def forest_rows(repeats: int, *, fast: bool) -> list[dict[str, Any]]:
    """Grow forests in turns with scikit-learn's."""
    rows: list[dict[str, Any]] = []
    for shape in SHAPES[-1:] if fast else SHAPES:
        X, y = rows_of(*shape)
        cases = {
            "spinney": partial(_fit, HorizontalForestClassifier, X, y),
            "scikit-learn": partial(_fit, RandomForestClassifier, X, y),
        }
        for warm in cases.values():
            warm()
        samples, _ = interleaved(cases, repeats, clock=timed_by_cpu)
        ours, theirs = samples["spinney"], samples["scikit-learn"]
        seconds = {f"{name} s": median(found) for name, found in samples.items()}
        rows.append({"table": f"{shape[0]} x {shape[1]}", **seconds, "ratio": ratio(ours, theirs)})
    return rows


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, repeats=7, part="")
    tables = {}
    if asked.part != "file":
        title = f"{N_TREES} trees, pooled, one thread, CPU time"
        tables[title] = forest_rows(2 if asked.fast else asked.repeats, fast=asked.fast)
    if asked.part != "forests":
        tables["spinney simulate of a CSV file"] = file_rows(*(_SMALL if asked.fast else _FILE))
    for title, rows in tables.items():
        table(title, rows)
    save("wide", "median over turns; the file once", tables)


def _fit(kind: Any, X: np.ndarray, y: np.ndarray) -> Any:
    return kind(N_TREES, random_state=0, n_jobs=1).fit(X, y)


if __name__ == "__main__":
    main()
