"""What hardening costs and hides: AUC as trained and as it leaves, and counts that still follow.

4,000 rows of each table, half of them for training; the defaults of a job file for what leaves.
Run: python benchmarks/bench_hardening.py [--fast]
"""

import warnings
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from data import SHARED, shared
from harness import arguments, save, table
from spinney import HorizontalBoostingClassifier, HorizontalForestClassifier
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.report.door import release
from spinney.report.narrowing import bounds_told
from spinney.tables.columns import Columns
from spinney.tables.frames import columns_of

_TABLES = (
    "adult",
    "credit_card_default",
    "letter",
    "nursery",
    "tb_california",
    "tb_compas",
    "telco_churn",
    "waveform",
)
_ROWS = 4000
_MODELS = (("forest", 1), ("forest", 100), ("boosted", 100))


def auc(model: ForestModel, columns: Columns, truth: Any) -> float:
    """Return the AUC of a model, one class against the rest if there are several."""
    shares = model.predict(columns)
    if shares.shape[1] == 2:
        return float(roc_auc_score(truth, shares[:, 1]))
    return float(roc_auc_score(truth, shares, multi_class="ovr", labels=model.schema.label.classes))


def line_of(name: str, kind: str, n_trees: int, leaf: int) -> dict[str, Any]:
    """Return what hardening did to one model."""
    X, y = shared(name)
    drawn = np.random.default_rng(0).permutation(len(X))[:_ROWS]
    X, y = X.iloc[drawn], y.iloc[drawn].astype(str)
    parts = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    X_train, X_test, y_train, y_test = parts
    how = {"min_samples_leaf": leaf, "random_state": 0}
    learner: Any = (
        HorizontalForestClassifier(n_trees, **how)
        if kind == "forest"
        else HorizontalBoostingClassifier(max_iter=n_trees, **how)
    )
    model = learner.fit(X_train, y_train).model_
    left, done = release(model, Hardening())
    least, most = bounds_told(left.forest, Hardening(), is_class=kind == "forest")
    columns = columns_of(X_test, model.schema)
    closed = [one.split()[0] for one in done if "would have followed" in one]
    before, after = auc(model, columns, y_test), auc(left, columns, y_test)
    return {
        "table": name,
        "model": kind,
        "trees": n_trees,
        "leaves of": leaf,
        "nodes": model.forest.n_nodes,
        "nodes that leave": left.forest.n_nodes,
        "closed for a count": closed[0] if closed else "0",
        "nodes with a count that follows": int((least == most).any(axis=1).sum()),
        "AUC": f"{before:.4f}",
        "AUC as it leaves": f"{after:.4f}",
    }


def main() -> None:
    """Print one table."""
    given = arguments(__doc__ or "")
    warnings.simplefilter("ignore")
    names = [name for name in _TABLES if (SHARED / f"{name}.parquet").is_file()]
    found = [
        line_of(name, kind, n_trees, leaf)
        for kind, n_trees in ((("forest", 5),) if given.fast else _MODELS)
        for leaf in (1, 5, 20)
        for name in (names[:2] if given.fast else names)
    ]
    table("what leaves", found)
    save("hardening", "one split of each table", {"what leaves": found})


if __name__ == "__main__":
    main()
