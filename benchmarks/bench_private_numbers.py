"""Private boosting of numbers beside boosting without privacy: root mean squared errors.

Settings were chosen on the five tables of `CHOSEN_ON`; results are those of `TABLES`, all others of
../shared/data that have numbers to predict and at least 10,000 rows. Five parties, of which three
are honest; three quarters of the rows against one. Ranges and categories are read off the rows, as
a schema would declare them. Without privacy: the same learner at epsilon 10,000, and
`HorizontalBoostingRegressor`. Results are kept line by line in a file and not measured again.

Run: python benchmarks/bench_private_numbers.py [--splits 4] [--tables a,b] [--show]
"""

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import spinney
from data import SHARED

CHOSEN_ON = (
    "tb_soil",
    "tb_wine_quality",
    "tb_abalone",
    "tb_analcatdata_supreme",
    "tb_yprop_4_1",
)
TABLES = (
    "superconduct_76",
    "tb_bike_sharing",
    "tb_brazilian_houses",
    "tb_elevators",
    "tb_house_16H_reg",
    "tb_houses",
    "tb_sulfur",
)
_PRIVATE, _DELTA = "PrivateBoostingRegressor", 1e-6
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "delta, epsilon 2": (_PRIVATE, {"epsilon": 2.0, "delta": _DELTA}),
    "delta, epsilon 10,000": (_PRIVATE, {"epsilon": 1e4, "delta": _DELTA}),
    "pure, epsilon 2": (_PRIVATE, {"epsilon": 2.0, "delta": None}),
    "pure, epsilon 10,000": (_PRIVATE, {"epsilon": 1e4, "delta": None}),
    "boosting without privacy": ("HorizontalBoostingRegressor", {}),
    "the mean": ("mean", {}),
}


def load(name: str) -> tuple[pd.DataFrame, Any]:
    """Return a table and its target."""
    frame = pd.read_parquet(SHARED / f"{name}.parquet")
    y = frame.pop("target").to_numpy(float)
    for column in frame:
        if frame[column].dtype.name not in ("category", "object"):
            frame[column] = frame[column].astype(float)
    return frame, y


def error(name: str, X: pd.DataFrame, y: Any, split: int) -> float:
    """Return the root mean squared error of a learner on held-out rows."""
    order = np.random.default_rng(1000 + split).permutation(y.size)
    train, test = order[: 3 * y.size // 4], order[3 * y.size // 4 :]
    kind, how = LEARNERS[name]
    found = np.full(test.size, y[train].mean())
    if kind != "mean":
        model = getattr(spinney, kind)(n_jobs=1, random_state=split, **how)
        if kind == _PRIVATE:
            model.set_params(honest=3)
        site = np.random.default_rng(split).integers(0, 5, train.size)
        model.fit(X.iloc[train], y[train], party=site)
        found = model.predict(X.iloc[test])
    return float(np.sqrt(np.mean((found - y[test]) ** 2)))


def measure(path: Path, tables: tuple[str, ...], n_splits: int) -> None:
    """Measure what the file does not hold yet."""
    known = {tuple(json.loads(line)["case"]) for line in _lines(path)}
    for table in tables:
        X, y = load(table)
        for split in range(n_splits):
            for name in LEARNERS:
                if (name, table, split) in known:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = error(name, X, y, split)
                line = json.dumps({"case": (name, table, split), "rmse": found})
                with path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


def show(path: Path) -> None:
    """Print mean errors, and their ratios to those without privacy with standard errors."""
    rows = [(*json.loads(line)["case"], json.loads(line)["rmse"]) for line in _lines(path)]
    found = pd.DataFrame(rows, columns=["learner", "table", "split", "rmse"])
    wide = found.pivot_table(index=["table", "split"], columns="learner", values="rmse")
    print(wide.groupby("table").mean()[list(LEARNERS)].T.round(4).to_string())
    for kind in ("delta", "pure"):
        for base in (f"{kind}, epsilon 10,000", "boosting without privacy"):
            ratio = wide[f"{kind}, epsilon 2"] / wide[base]
            print(f"\n{kind}, epsilon 2, by {base}")
            print(ratio.groupby("table").agg(["mean", "sem", "count"]).round(3).to_string())


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def main() -> None:
    """Measure, or show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--results", type=Path, default=Path("private_numbers.jsonl"))
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    if not given.show:
        measure(given.results, tuple(given.tables.split(",")), given.splits)
    show(given.results)


if __name__ == "__main__":
    sys.exit(main())
