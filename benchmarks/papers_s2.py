"""S2's table and figures: one-party forests, pooled, federated; prediction in one round.

Table 1: columns dealt at random to two parties, repetitions with their own deal and split; RF1 and
RF2 are forests of one party's columns with the labels. Figures 3 to 6: time of training and of
prediction by parties, trees, depth and rows, ours (leaf sets, one round) against the classical
prediction (node by node, a round for every level of every tree), which exists here only. Every cell
is kept as it is finished: a run that is stopped goes on.
Run: python benchmarks/papers_s2.py [--fast] [--repetitions 5]
"""

import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, root_mean_squared_error
from sklearn.model_selection import train_test_split

from harness import RESULTS, arguments, save, table
from spinney import VerticalForestClassifier, VerticalForestRegressor, deal_columns
from spinney.errors import PrivacyLeakWarning

DATA = Path(__file__).parents[2] / "shared" / "data"
PAPER = {  # RF1, RF2, NonFF, FF
    "ionosphere": (0.864, 0.828, 0.908, 0.896),
    "spambase": (0.844, 0.831, 0.943, 0.928),
    "waveform": (0.745, 0.743, 0.826, 0.822),
    "kddcup99_10pct": (0.974, 0.965, 0.995, 0.995),
    "superconduct_76": (19.74, 17.49, 15.369, 15.411),
}
_KEPT = RESULTS / "papers_s2_cells.json"
_ONE_WAY = 0.5e-3  # seconds a message takes between two parties in one building


def load(name: str, most: int | None = None) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table with its categories, rows shuffled, and its target."""
    frame = pd.read_parquet(DATA / f"{name}.parquet").sample(frac=1.0, random_state=0)
    frame = frame.reset_index(drop=True).head(most or len(frame))
    label = next((c for c in ("target", "label", "class", "y") if c in frame), frame.columns[-1])
    X = frame.drop(columns=[label])
    texts = [c for c in X if X[c].dtype.kind not in "biuf"]
    return X.astype(dict.fromkeys(texts, "category")), frame[label].to_numpy()


def face(name: str, **settings: Any) -> Any:
    kind = VerticalForestRegressor if name.startswith("superconduct") else VerticalForestClassifier
    return kind(**settings)


def score(name: str, y: np.ndarray, guess: np.ndarray) -> float:
    if name.startswith("superconduct"):
        return float(root_mean_squared_error(y, guess))
    return float(accuracy_score(y, guess))


def cell(name: str, repetition: int, trees: int, most: int | None) -> dict[str, Any]:
    """Return one repetition: RF1, RF2, pooled and federated, and whether the last two are one."""
    X, y = load(name, most)
    columns = deal_columns(X, 2, names=["one", "two"], random_state=repetition)
    kept = [X, y]
    X_train, X_test, y_train, y_test = train_test_split(
        *kept, test_size=0.2, random_state=repetition
    )
    how = {"n_estimators": trees, "random_state": repetition, "unknown_categories": "as_missing"}
    found: dict[str, Any] = {}
    for party, title in (("one", "RF1"), ("two", "RF2")):
        own = face(name, **how).fit(X_train[columns[party]], y_train)
        found[title] = score(name, y_test, own.predict(X_test[columns[party]]))
    pooled = face(name, **how).fit(X_train, y_train)
    joint = face(name, column_party=columns, label_party="one", **how).fit(X_train, y_train)
    found["pooled"] = score(name, y_test, pooled.predict(X_test))
    found["federated"] = score(name, y_test, joint.predict(X_test))
    found["identical"] = pooled.model_.to_bytes() == joint.model_.to_bytes()
    leakage = joint.report_.label_leakage
    found["labels recovered"] = leakage.recovered
    return found


def resumed(key: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a cell that was kept, or make it and keep it."""
    RESULTS.mkdir(exist_ok=True)
    kept = json.loads(_KEPT.read_text()) if _KEPT.exists() else {}
    if key not in kept:
        kept[key] = work()
        _KEPT.write_text(json.dumps(kept, indent=1))
    return kept[key]


def table_one(repetitions: int, trees: int, most: int | None) -> list[dict[str, Any]]:
    """Return Table 1, with the paper's numbers beside."""
    lines = []
    for name, paper in PAPER.items():
        cells = [
            resumed(f"{name} {r} {trees} {most}", partial(cell, name, r, trees, most))
            for r in range(repetitions)
        ]
        line: dict[str, Any] = {"table": name}
        for place, title in enumerate(("RF1", "RF2", "pooled", "federated")):
            values = [one[title] for one in cells]
            line[title] = f"{np.mean(values):.3f} +- {np.std(values):.3f}"
            line[f"paper {title}"] = paper[place]
        line["identical"] = all(one["identical"] for one in cells)
        line["labels recovered"] = float(np.mean([one["labels recovered"] for one in cells]))
        lines.append(line)
    return lines


# --- Figures 3 to 6 ------------------------------------------------------------------------------


def classical(forest: Any, X: pd.DataFrame) -> tuple[np.ndarray, int]:
    """Predict node by node: the coordinator asks the owner of every node; return rounds too."""
    model = forest.model_
    rows = model.rows(np.ascontiguousarray(X.to_numpy(np.float32).T))
    whole, rounds = model.forest, 0
    out = np.zeros((len(rows), model.n_outputs))
    for tree in range(whole.n_trees):
        node = np.full(len(rows), whole.tree_start[tree])
        while np.any(whole.feature[node] >= 0):
            for one in np.unique(node[whole.feature[node] >= 0]):  # a question for every node
                at = np.flatnonzero(node == one)
                rounds += 1
                value = rows[at, whole.feature[one]]
                left = (value <= whole.threshold[one]) | (np.isnan(value) & whole.missing_left[one])
                node[at] = whole.left[one] + ~left
        out += whole.value[node]
    return out / whole.n_trees, rounds


def timings(name: str, X: Any, y: Any, **settings: Any) -> dict[str, Any]:
    """Return how long training and both predictions take, in CPU time, and their rounds."""
    test = settings.pop("test", 0.3)
    parties = settings.pop("parties", 2)
    X_train, X_test, y_train, _ = train_test_split(X, y, test_size=test, random_state=0)
    columns = deal_columns(X, parties, random_state=0)
    forest = face(
        name, column_party=columns, label_party="party_0", random_state=0, n_jobs=1, **settings
    )
    begin = process_time()
    forest.fit(X_train, y_train)
    train = process_time() - begin
    forest.predict(X_test.head(10))  # kernels are compiled
    begin = process_time()
    ours = forest._predicted(X_test)  # noqa: SLF001  the mean of the trees, of either kind
    seconds = process_time() - begin
    begin = process_time()
    theirs, rounds = classical(forest, X_test)
    old = process_time() - begin
    assert np.allclose(ours, theirs)
    return {
        "train s": train,
        "one round s": seconds + 2 * _ONE_WAY,
        "classical s": old + 2 * rounds * _ONE_WAY,
        "rounds": 1,
        "classical rounds": rounds,
    }


def figures(*, fast: bool) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    usual: dict[str, Any] = {"n_estimators": 8, "max_depth": 4}
    sweeps = {
        "figure 3: parties": [{"parties": n} for n in (1, 2, 4, 8)],
        "figure 4: trees": [{"n_estimators": n} for n in (8, 16, 24, 32)],
        "figure 5: depth": [{"max_depth": n} for n in (4, 8, 12, 16)],
        "figure 6: test share": [{"test": n} for n in (0.1, 0.2, 0.3, 0.4)],
    }
    for name in ("spambase", "waveform"):
        X, y = load(name, 600 if fast else None)
        for title, cases in sweeps.items():
            for case in cases[:2] if fast else cases:
                line = timings(name, X, y, **(usual | case))
                found.setdefault(title, []).append({"table": name, **case, **line})
    return found


def drawn_figures(found: dict[str, list[dict[str, Any]]]) -> None:
    """Write the figures as a picture."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  only here

    _, axes = plt.subplots(1, len(found), figsize=(16, 4))
    for axis, (title, lines) in zip(axes, found.items(), strict=True):
        frame = pd.DataFrame(lines)
        x = frame.columns[1]
        for name, part in frame.groupby("table"):
            axis.plot(part[x], part["classical s"], "o-", label=f"{name}, classical")
            axis.plot(part[x], part["one round s"], "x--", label=f"{name}, one round")
        axis.set(title=title, xlabel=x, ylabel="seconds", yscale="log")
    axes[0].legend()
    plt.tight_layout()
    plt.savefig(RESULTS / "papers_s2.png")


def main() -> None:
    options = arguments(__doc__, repetitions=5, trees=100)
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    fast = options.fast
    most = 1_000 if fast else None
    lines = table_one(1 if fast else options.repetitions, 10 if fast else options.trees, most)
    table("Table 1 of S2: accuracy; RMSE for superconduct", lines)
    found = figures(fast=fast)
    for title, part in found.items():
        table(title, part)
    if not fast:
        drawn_figures(found)
        save("papers_s2", "mean and standard deviation", {"table 1": lines, **found})


if __name__ == "__main__":
    main()
