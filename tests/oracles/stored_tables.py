"""The tables of the stored models, drawn by exact arithmetic only."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd


@cache
def wards(n=240):
    """Return numbers, a boolean, categories, gaps, zeros and repeats; by exact arithmetic only."""
    draw = np.random.default_rng(11).integers
    age = draw(0, 99, n).astype(np.float64)
    age[draw(0, 5, n) == 0] = np.nan
    income = draw(-4000, 4000, n) / 4
    income[draw(0, 4, n) == 0] = 0.0
    ward = np.array(["eye", "heart", "knee", "lung", "skin"], dtype=object)[draw(0, 5, n)]
    ward[draw(0, 10, n) == 0] = None
    X = pd.DataFrame(
        {
            "age": age,
            "income": income,
            "visits": draw(0, 4, n) * draw(0, 4, n),
            "smokes": draw(0, 10, n) < 3,
            "ward": pd.Categorical(ward),
            "grade": pd.Categorical(draw(1, 5, n)),
            "stay": draw(0, 512, n) / 8,
        }
    )
    X.iloc[100:120] = X.iloc[0:20].to_numpy()  # the same patients once more
    return X.astype({"visits": np.int64, "smokes": bool, "income": float, "stay": float})


@cache
def labels(kind):
    """Return two or five classes, or an amount, for `wards`."""
    X = wards()
    score = (
        X["age"].fillna(50.0).to_numpy()
        + 40 * (X["ward"] == "heart").to_numpy()
        + 30 * X["smokes"].to_numpy()
        + X["stay"].to_numpy()
        + np.random.default_rng(12).integers(0, 60, len(X))
    )
    score[100:120] = score[0:20]
    if kind == "two classes":
        return np.where(score > 150, "ill", "well")
    if kind == "five classes":
        return np.digitize(score, [75, 110, 150, 190])
    return score / 8


@cache
def numbers():
    """Return the columns of `wards` that are numbers, without gaps, as an array."""
    X = wards()
    return X[["income", "visits", "smokes", "stay"]].astype(np.float64).to_numpy()


TABLES: dict[str, Callable[[], Any]] = {
    "wards": wards,
    "numbers": numbers,
    "numbers with gaps": lambda: wards()[["age", "income", "visits", "stay"]].to_numpy(np.float64),
    "categories": lambda: wards()[["ward", "grade"]],
}
