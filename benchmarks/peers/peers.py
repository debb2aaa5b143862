"""Who is measured, with which settings, and on which rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification

N_PARTIES, N_TREES, DEPTH = 4, 20, 6
_FOREST = {"n_estimators": N_TREES, "max_depth": DEPTH}
_RF = {**_FOREST, "random_state": 0, "n_jobs": 2}
_GROWN = {"learner": "HorizontalForestClassifier", **_FOREST, "random_state": 0}


@dataclass(frozen=True)
class Peer:
    """A learner: its adapter, settings, and the packages of an environment of its own."""

    name: str
    adapter: str
    settings: dict[str, Any]
    kind: str  # "ours", "federated" or "pooled"
    environment: str = ""  # "" is this one
    packages: tuple[str, ...] = ()
    note: str = ""


def _flower(name: str, learner: str, n_trees: int, then: str = "pooled") -> Peer:
    settings = {"learner": learner, "n_estimators": n_trees, "max_depth": DEPTH}
    note = f"{n_trees} trees of each client, {then}"
    return Peer(
        f"flwr-trees {name}", "flower_trees", settings, "federated", "flwr-trees",
        ("flwr-trees",), note,
    )  # fmt: skip


FEDTREE = {"n_trees": N_TREES, "max_depth": DEPTH, "learning_rate": 0.3, "max_num_bin": 32}
DRF = ("distributed_random_forest",)
DIFFPRIVLIB = ("diffprivlib", "scikit-learn<1.8")
PEERS = (
    Peer("Spinney", "ours", _GROWN, "ours", note="grown jointly, a forest"),
    Peer("Spinney, masked", "ours", {**_GROWN, "secure_sum": True}, "ours", note="secure sums"),
    Peer("FedTree", "fed_tree", FEDTREE, "federated", "fedtree", ("fedtree",), "boosting"),
    _flower("forest", "FederatedRandomForestClassifier", N_TREES // N_PARTIES),
    _flower("forest x4", "FederatedRandomForestClassifier", N_TREES),
    _flower("histogram forest", "FederatedHistogramRFClassifier", N_TREES // N_PARTIES),
    _flower("histogram forest x4", "FederatedHistogramRFClassifier", N_TREES),
    _flower("XGBoost", "FederatedXGBClassifier", N_TREES // N_PARTIES, "boosting in turn"),
    Peer(
        "distributed_random_forest", "distributed_forest",
        {"n_estimators": N_TREES // N_PARTIES, "max_depth": DEPTH}, "federated", "drf", DRF,
        "trees of each client, pooled",
    ),
    Peer(
        "scikit-learn", "pooled", {"learner": "sklearn.ensemble.RandomForestClassifier", **_RF},
        "pooled", note="a forest",
    ),
    Peer(
        "LightGBM rf", "pooled",
        {
            "learner": "lightgbm.LGBMClassifier", **_RF, "boosting_type": "rf", "num_leaves": 63,
            "bagging_fraction": 0.632, "bagging_freq": 1, "feature_fraction_bynode": 0.224,
            "verbose": -1,
        },
        "pooled", note="a forest",
    ),
    Peer(
        "XGBoost rf", "pooled",
        {
            "learner": "xgboost.XGBRFClassifier", **_RF, "subsample": 0.632,
            "colsample_bynode": 0.224,
        },
        "pooled", note="a forest",
    ),
    Peer(
        "XGBoost", "pooled",
        {"learner": "xgboost.XGBClassifier", **_RF, "learning_rate": 0.3, "max_bin": 32},
        "pooled", note="boosting",
    ),
)  # fmt: skip


def private(epsilon: float) -> tuple[Peer, ...]:
    """Return the learners that promise a privacy of epsilon."""
    ours = {"epsilon": epsilon, "secure_sum": False}
    forest = {**_FOREST, "epsilon": epsilon, "use_differential_privacy": True}
    return (
        Peer(
            "Spinney, private tree", "ours",
            {"learner": "PrivateTreeClassifier", **ours, "max_depth": 4, "n_bins": 25}, "ours",
            note="four parties; the ledger says epsilon",
        ),
        Peer(
            "Spinney, private forest", "ours", {"learner": "PrivateForestClassifier", **ours},
            "ours", note="four parties; the ledger says epsilon",
        ),
        Peer(
            "diffprivlib", "pooled",
            {
                "learner": "diffprivlib.models.RandomForestClassifier", **_RF, "epsilon": epsilon,
                "bounds": [-6.0, 6.0], "classes": [0, 1],
            },
            "pooled", "diffprivlib", DIFFPRIVLIB, "one site, 20 trees of depth 6",
        ),
        Peer(
            "distributed_random_forest, DP", "distributed_forest", forest, "federated", "drf", DRF,
            "not private at any epsilon: its cuts are chosen without noise",
        ),
    )  # fmt: skip


PRIVATREE = {1.0: 0.697, 10.0: 0.731}  # published by PEERS.md for one site, depth 4, three seeds


@dataclass(frozen=True)
class Workload:
    """Rows for training, dealt to parties, and rows for judging."""

    n_rows: int
    n_train: int

    def save(self, path: Path) -> None:
        X, y = make_classification(self.n_rows, 20, n_informative=10, random_state=0)
        n = self.n_train
        party = np.random.RandomState(0).permutation(np.arange(n) % N_PARTIES)
        np.savez(path, X=X[:n], y=y[:n], party=party, X_test=X[n:], y_test=y[n:])
