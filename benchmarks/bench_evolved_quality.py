"""How good evolved trees are beside what parties can have otherwise, on the paper's 12 tables.

Raw columns, nothing is cut into bins before: 90 % of at most `--rows` rows are dealt at random to
20 parties, 10 % judge everybody, as in S4. Beside the evolved trees stand the trees that parties
grow alone, one joint tree of the same depth and the joint forest. Every finished cell is a line of
results/evolved_cells.jsonl, so that a run that breaks off goes on where it was.
Run: python benchmarks/bench_evolved_quality.py [--fast] [--rows 10000] [--splits 3]
"""

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd

from data import shared
from harness import RESULTS, arguments, save, table
from papers.s4_runs import CLASSIFICATION, predicted, score
from spinney import GeneticTreeClassifier, HorizontalForestClassifier
from spinney.errors import PrivacyLeakWarning
from spinney.tables.frames import columns_of

N_PARTIES, N_TREES = 20, 100
LEAST_GAIN = 4.0  # points of F1 above the parties' own trees, on average over tables
CELLS = RESULTS / "evolved_cells.jsonl"


def divided(name: str, most_rows: int, split: int) -> tuple[pd.DataFrame, np.ndarray, Any, Any]:
    """Return training rows and rows for judging; categories as integer codes, as S4 has them."""
    X, y = shared(CLASSIFICATION[name])
    rows = np.random.RandomState(split).permutation(len(y))[:most_rows]
    codes = {
        column: cells.astype("category").cat.codes.astype(float)
        if cells.dtype.kind not in "iuf"
        else cells.astype(float)
        for column, cells in X.items()
    }
    frame, truth = pd.DataFrame(codes), y.astype("category").cat.codes.to_numpy()
    test, train = rows[: len(rows) // 10], rows[len(rows) // 10 :]
    return frame.iloc[train], truth[train], frame.iloc[test], truth[test]


def measured(name: str, most_rows: int, split: int, generations: int) -> dict[str, Any]:
    """Return everybody's F1 on common test rows, in percent."""
    X, y, X_test, y_test = divided(name, most_rows, split)
    site = np.random.RandomState(split).permutation(np.arange(len(y)) % N_PARTIES)
    n_classes = int(y.max()) + 1

    def f1(said: np.ndarray) -> float:
        return 100 * score("classification", y_test, said, n_classes)

    trees = GeneticTreeClassifier(n_generations=generations, random_state=split, n_jobs=1)
    trees.fit(X, y, party=site)
    columns = columns_of(X_test, trees.model_.schema)
    of_party = {
        which: np.array([f1(predicted(one.model, columns)) for one in found.values()])
        for which, found in (("local", trees.home_tree_of_), ("evolved", trees.tree_of_))
    }
    how = {"random_state": split, "n_jobs": 1}
    joint = HorizontalForestClassifier(
        1, max_depth=trees.depth_, bootstrap=False, max_features=None, **how
    ).fit(X, y, party=site)
    forest = HorizontalForestClassifier(N_TREES, **how).fit(X, y, party=site)
    return {
        "depth": trees.depth_,
        "local": float(of_party["local"].mean()),
        "evolved": float(of_party["evolved"].mean()),
        "parties that gain": float(np.mean(of_party["evolved"] > of_party["local"])),
        "mean of evolved": f1(trees.predict(X_test)),
        "joint tree": f1(joint.predict(X_test)),
        "joint forest": f1(forest.predict(X_test)),
    }


def cell(name: str, most_rows: int, split: int, generations: int) -> dict[str, Any]:
    """Return a cell from the file, or measure it and add it there."""
    wanted = {"table": name, "rows": most_rows, "split": split, "generations": generations}
    CELLS.parent.mkdir(exist_ok=True)
    for line in CELLS.read_text("utf-8").splitlines() if CELLS.exists() else []:
        known = json.loads(line)
        if all(known[key] == value for key, value in wanted.items()):
            return known
    found = wanted | measured(name, most_rows, split, generations)
    with CELLS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")
    return found


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, rows=10_000, splits=3)
    names = ("compas", "marketing") if asked.fast else tuple(CLASSIFICATION)
    n_splits, generations = (1, 5) if asked.fast else (asked.splits, 100)
    cells = [
        cell(name, asked.rows, split, generations) for split in range(n_splits) for name in names
    ]
    scores = [name for name in cells[0] if name not in ("table", "rows", "split", "generations")]
    rows = [
        {"table": name}
        | {s: float(np.mean([c[s] for c in cells if c["table"] == name])) for s in scores}
        for name in names
    ]
    rows.append({"table": "mean"} | {s: float(np.mean([row[s] for row in rows])) for s in scores})
    title = (
        f"F1 in percent on common rows, {N_PARTIES} parties, at most {asked.rows:,} rows, raw "
        f"columns, {n_splits} splits"
    )
    table(title, rows)
    mean = rows[-1]
    print(f"\n{mean['evolved'] - mean['local']:+.1f} above local trees (at least {LEAST_GAIN:g});")
    print(f"{mean['evolved'] - mean['joint tree']:+.1f} above the joint tree of the same depth")
    save("bench_evolved_quality", "means over splits", {title: rows})


if __name__ == "__main__":
    main()
