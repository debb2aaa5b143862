"""Wide and small tables: a 10-tree forest on pooled rows, in turns with scikit-learn's.

CPU times on one thread, which a busy machine hardly disturbs; kernels warm.
Run: python benchmarks/bench_wide.py [--fast] [--repeats 7]
"""

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier

from harness import arguments, interleaved, median, ratio, save, table, timed_by_cpu
from spinney import HorizontalForestClassifier
from spinney.errors import PrivacyLeakWarning

SHAPES = ((2000, 2000), (500, 5000), (150, 4))
N_TREES = 10


def rows_of(n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a drawn table; iris, if it is as small."""
    if (n_rows, n_columns) == SHAPES[-1]:
        found: tuple[np.ndarray, np.ndarray] = load_iris(return_X_y=True)
        return found
    X, y = make_classification(n_rows, n_columns, n_informative=20, random_state=0)
    return X.astype(np.float32), y


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, repeats=7)
    rows: list[dict[str, Any]] = []
    for shape in SHAPES[-1:] if asked.fast else SHAPES:
        X, y = rows_of(*shape)
        cases = {
            "spinney": partial(_fit, HorizontalForestClassifier, X, y),
            "scikit-learn": partial(_fit, RandomForestClassifier, X, y),
        }
        for warm in cases.values():
            warm()
        samples, _ = interleaved(cases, 2 if asked.fast else asked.repeats, clock=timed_by_cpu)
        ours, theirs = samples["spinney"], samples["scikit-learn"]
        seconds = {f"{name} s": median(found) for name, found in samples.items()}
        rows.append({"table": f"{shape[0]} x {shape[1]}", **seconds, "ratio": ratio(ours, theirs)})
    title = f"{N_TREES} trees, pooled, one thread, CPU time"
    table(title, rows)
    save("wide", "median over turns", {title: rows})


def _fit(kind: Any, X: np.ndarray, y: np.ndarray) -> Any:
    return kind(N_TREES, random_state=0, n_jobs=1).fit(X, y)


if __name__ == "__main__":
    main()
