"""Who is measured, with which settings, and on which rows."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from sklearn.datasets import make_classification

Settings = dict[str, Any]
N_PARTIES, N_TREES, DEPTH = 4, 20, 6
_FOREST = {"n_estimators": N_TREES, "max_depth": DEPTH}
_RF = {**_FOREST, "n_jobs": 2}
_GROWN = {"learner": "HorizontalForestClassifier", **_FOREST}
_BOOSTED = {"learner": "HorizontalBoostingClassifier", "max_iter": N_TREES, "batch_trees": 4}
LEVELS = (0.93, 0.95, 0.97)  # a tuned learner is shown with its fastest setting that is so accurate
PUBLIC_TRIES = 12  # settings of a tuned federated learner, its own among them


@dataclass(frozen=True)
class Peer:
    """A learner: its adapter, settings, and the packages of an environment of its own."""

    name: str
    adapter: str
    settings: Settings
    kind: str  # "ours", "federated" or "pooled"
    environment: str = ""  # "" is this one
    packages: tuple[str, ...] = ()
    note: str = ""
    grid: tuple[Settings, ...] = ({},)  # in addition to the settings, one after the other


def _tries(**values: tuple[Any, ...]) -> tuple[Settings, ...]:
    """Return the own setting and others, drawn once for all from the product of some values."""
    every = [dict(zip(values, one, strict=True)) for one in product(*values.values())]
    return ({}, *Random(0).sample(every, PUBLIC_TRIES - 1))


_DEEP = (4, 6, 8, 10)


def _batches(tries: tuple[Settings, ...]) -> tuple[Settings, ...]:
    """Return settings that say how many batches there are as settings that say how many trees."""
    return tuple(
        {
            name: value * one["batch_trees"] if name == "max_iter" else value
            for name, value in one.items()
        }
        for one in tries
    )


def _flower(
    name: str, learner: str, n_trees: int, then: str = "pooled; one core",
    tries: tuple[Settings, ...] = ({},),
) -> Peer:  # fmt: skip
    settings = {"learner": learner, "n_estimators": n_trees, "max_depth": DEPTH}
    note = f"trees of each client, {then}"
    return Peer(
        f"flwr-trees {name}", "flower_trees", settings, "federated", "flwr-trees",
        ("flwr-trees",), note, tries,
    )  # fmt: skip


FEDTREE = {"n_trees": N_TREES, "max_depth": DEPTH, "learning_rate": 0.3, "max_num_bin": 32}
DRF = ("distributed_random_forest",)
DIFFPRIVLIB = ("diffprivlib", "scikit-learn<1.8")
PEERS = (
    Peer("Spinney", "ours", _GROWN, "ours", note="grown jointly, a forest"),
    Peer("Spinney, masked", "ours", {**_GROWN, "secure_sum": True}, "ours", note="secure sums"),
    Peer("Spinney boosting", "ours", _BOOSTED, "ours", note="boosting"),
    Peer(
        "Spinney boosting, masked", "ours", {**_BOOSTED, "secure_sum": True}, "ours",
        note="boosting, secure sums",
        grid=_batches(_tries(
            max_iter=(2, 3, 4, 6, 8), batch_trees=(2, 4, 6, 10), max_depth=_DEEP,
            learning_rate=(0.6, 0.8, 1.0), colsample_bytree=(0.6, 1.0), min_samples_leaf=(5, 20),
            max_bins=(64, 255), subsample=(0.8, 1.0),
        )),
    ),
    Peer("FedTree", "fed_tree", FEDTREE, "federated", "fedtree", ("fedtree",), "boosting"),
    _flower("forest", "FederatedRandomForestClassifier", N_TREES // N_PARTIES),
    _flower("forest x4", "FederatedRandomForestClassifier", N_TREES),
    _flower("histogram forest", "FederatedHistogramRFClassifier", N_TREES // N_PARTIES),
    _flower("histogram forest x4", "FederatedHistogramRFClassifier", N_TREES),
    _flower(
        "XGBoost", "FederatedXGBClassifier", N_TREES // N_PARTIES, "boosting in turn",
        _tries(
            n_estimators=(1, 2, 3, 5, 10, 20), n_rounds=(1, 2), max_depth=_DEEP,
            learning_rate=(0.2, 0.3, 0.5, 0.7, 1.0), subsample=(0.7, 1.0),
        ),
    ),
    _flower("XGBoost x4", "FederatedXGBClassifier", N_TREES, "boosting in turn"),
    Peer(
        "distributed_random_forest", "distributed_forest",
        {"n_estimators": N_TREES // N_PARTIES, "max_depth": DEPTH}, "federated", "drf", DRF,
        "5 trees of each client, all rows, all trees kept",
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

EPSILONS = (1.0, 10.0)
PRIVATREE = {1.0: 0.697, 10.0: 0.731}  # by our notes: seed 0's rows, one site, depth 4, three runs
TRIES = 6  # settings of each private learner that are tried at each epsilon, its own among them
TUNED_ON, N_TUNED = 1000, 2  # the first of the turns that choose settings; none of them counts
_N_ROWS, _DELTA = 16_000, 1e-6  # roughly public


def _private(*settings: Settings) -> tuple[Settings, ...]:
    """Return a grid at every epsilon; its first setting is the one that users meet."""
    return tuple({"epsilon": e, **one} for e in EPSILONS for one in settings)


_SIZES: tuple[Settings, ...] = (
    {"n_estimators": 20, "max_depth": 6},
    {"n_estimators": 20, "max_depth": 8},
    {"n_estimators": 100, "max_depth": 6},
    {"n_estimators": 100, "max_depth": 8},
    {"n_estimators": 100, "max_depth": 10},
)
_BOOSTS: tuple[Settings, ...] = (
    {"n_passes": 2},
    {"n_passes": 10},
    {"max_depth": 3},
    {"max_depth": 6},
    {"method": "pairs"},
)
_DEPTHS: tuple[Settings, ...] = tuple({"max_depth": depth} for depth in (3, 4, 6, 8))
_TREES: tuple[Settings, ...] = (*_DEPTHS, {"method": "histograms"})
_TRUSTING: tuple[Settings, ...] = (*_DEPTHS, {"n_bins": 25})
_EBMS: tuple[Settings, ...] = (
    {"max_rounds": 100},
    {"max_rounds": 600},
    {"learning_rate": 0.03},
    {"max_leaves": 5},
    {"max_bins": 16},
)


def _ours(
    name: str, learner: str, others: tuple[Settings, ...], *, trusted: str = "nobody is trusted",
    **how: float | str | None,
) -> Peer:  # fmt: skip
    return Peer(
        f"Spinney, {name}", "ours", {"learner": learner, "n_rows": _N_ROWS, **how}, "ours",
        note=f"four parties, of whom secure sums count on two to be honest; {trusted}",
        grid=_private({}, *others),
    )  # fmt: skip


PRIVATE = (
    _ours("private boosting", "PrivateBoostingClassifier", _BOOSTS, delta=None),
    _ours("private boosting, delta", "PrivateBoostingClassifier", _BOOSTS, delta=_DELTA),
    _ours("private tree", "PrivateTreeClassifier", _TREES),
    _ours("private tree, delta", "PrivateTreeClassifier", _TREES, delta=_DELTA),
    _ours(
        "private tree by noisy_max", "PrivateTreeClassifier", _TRUSTING, method="noisy_max",
        trusted="the coordinator is trusted with exact counts",
    ),
    _ours("private forest", "PrivateForestClassifier", _SIZES),
    _ours("private forest, delta", "PrivateForestClassifier", _SIZES, delta=_DELTA),
    Peer(
        "DP-EBM", "pooled",
        {
            "learner": "interpret.privacy.DPExplainableBoostingClassifier", "n_jobs": 1,
            "delta": _DELTA, "feature_types": ["continuous"] * 20,
            "privacy_bounds": [[-6.0, 6.0]] * 20,
        },
        "pooled", "interpret", ("interpret",), "one site has all rows; delta 1e-6",
        grid=_private({}, *_EBMS),
    ),
    Peer(
        "diffprivlib", "pooled",
        {
            "learner": "diffprivlib.models.RandomForestClassifier", "n_jobs": 1,
            "bounds": [-6.0, 6.0], "classes": [0, 1],
        },
        "pooled", "diffprivlib", DIFFPRIVLIB, "one site has all rows",
        grid=_private({}, *_SIZES),
    ),
    Peer(
        "distributed_random_forest, DP", "distributed_forest",
        {**_FOREST, "use_differential_privacy": True}, "federated", "drf", DRF,
        "20 trees of each client; not private at any epsilon: its cuts are chosen without noise; "
        "not tuned",
        grid=_private({}),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """Rows for training, dealt to parties, and rows for judging: each turn draws others."""

    n_rows: int
    n_train: int

    def save(self, path: Path, seed: int) -> None:
        X, y = make_classification(self.n_rows, 20, n_informative=10, random_state=seed)
        n = self.n_train
        party = np.random.RandomState(seed).permutation(np.arange(n) % N_PARTIES)
        np.savez(path, X=X[:n], y=y[:n], party=party, X_test=X[n:], y_test=y[n:], seed=seed)
