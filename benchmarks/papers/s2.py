"""S2 (Federated Forest): one-party forests, pooled, federated; prediction in one round.

Table 1: columns dealt at random to two parties, repetitions with their own deal and split; RF1 and
RF2 are forests of one party's columns with the labels. Its F-LR is another method and not drawn.
Figure 3 adds domains one after another, as the paper does on Parkinson's data, which are not here:
spambase and waveform stand in, their columns dealt to eight domains. Figures 4 to 6: time of
prediction by trees, depth and rows, ours (leaf sets, one round) against the classical way (node by
node, a round for every node), which exists here only. A message is taken to need half a
millisecond.
"""

from functools import cache
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, root_mean_squared_error
from sklearn.model_selection import train_test_split

from data import shared
from papers.experiment import Experiment, Found, Grid, Paper
from spinney import VerticalForestClassifier, VerticalForestRegressor, deal_columns

SETS = ("ionosphere", "spambase", "waveform", "kddcup99_10pct", "superconduct_76")
_ONE_WAY = 0.5e-3  # seconds a message takes between two parties in one building
_DOMAINS = 8


@cache
def load(name: str, most: int | None = None) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table, rows shuffled, and its target."""
    X, y = shared(name)
    order = X.sample(frac=1.0, random_state=0).index[: most or len(X)]
    return X.loc[order].reset_index(drop=True), y.loc[order].to_numpy()


def _face(name: str, **settings: Any) -> Any:
    kind = VerticalForestRegressor if name.startswith("superconduct") else VerticalForestClassifier
    return kind(**settings)


def _score(name: str, y: np.ndarray, guess: np.ndarray) -> float:
    if name.startswith("superconduct"):
        return float(root_mean_squared_error(y, guess))
    return float(accuracy_score(y, guess))


def two_parties(*, data: str, repetition: int, trees: int, most: int | None) -> Found:
    """Return one repetition: RF1, RF2, pooled and federated, and whether the last two are one."""
    X, y = load(data, most)
    columns = deal_columns(X, 2, names=["one", "two"], random_state=repetition)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.2, random_state=repetition
    )
    how = {"n_estimators": trees, "random_state": repetition, "unknown_categories": "as_missing"}
    found: Found = {}
    for party, title in (("one", "RF1"), ("two", "RF2")):
        own = _face(data, **how).fit(X_train[columns[party]], y_train)
        found[title] = _score(data, y_test, own.predict(X_test[columns[party]]))
    pooled = _face(data, **how).fit(X_train, y_train)
    joint = _face(data, column_party=columns, label_party="one", **how).fit(X_train, y_train)
    found["pooled"] = _score(data, y_test, pooled.predict(X_test))
    found["federated"] = _score(data, y_test, joint.predict(X_test))
    found["identical"] = pooled.model_.to_bytes() == joint.model_.to_bytes()
    found["labels recovered"] = joint.report_.label_leakage.recovered
    return found


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


def prediction(
    *,
    data: str,
    axis: str,
    value: float,
    most: int | None,
    repetition: int,
) -> Found:
    """Return how long training and both predictions take, in CPU time, their rounds, the score."""
    at = {"domains": 2, "trees": 8, "depth": 4, "test share": 0.3, axis: value}
    X, y = load(data, most)
    domains = deal_columns(X, _DOMAINS, random_state=repetition)
    if axis == "domains":
        columns = dict(list(domains.items())[: at["domains"]])
        X = X[[name for part in columns.values() for name in part]]
    else:
        columns = deal_columns(X, at["domains"], random_state=repetition)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=at["test share"], random_state=repetition
    )
    forest = _face(
        data, column_party=columns, label_party="party_0", random_state=repetition, n_jobs=1,
        n_estimators=at["trees"], max_depth=at["depth"],
    )  # fmt: skip
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
        "score": _score(data, y_test, forest.predict(X_test)),
        "rounds": 1,
        "classical rounds": rounds,
        "train s": train,
        "one round s": seconds + 2 * _ONE_WAY,
        "classical s": old + 2 * rounds * _ONE_WAY,
    }


def _swept(most: int | None, repeats: int, **axes: tuple[float, ...]) -> tuple[Grid, ...]:
    facts = {"repetition": range(repeats), "data": ["spambase", "waveform"], "most": [most]}
    return tuple(
        {**facts, "axis": [axis.replace("_", " ")], "value": values}
        for axis, values in axes.items()
    )


PAPER = Paper(
    name="s2",
    title="Federated Forest",
    experiments=(
        Experiment(
            "two_parties",
            "Table 1",
            two_parties,
            full=({"repetition": range(5), "data": SETS, "trees": [100], "most": [None]},),
            fast=({"repetition": range(2), "data": SETS, "trees": [20], "most": [2000]},),
        ),
        Experiment(
            "prediction",
            "Figures 3 to 6",
            prediction,
            full=_swept(
                None,
                5,
                domains=tuple(range(1, 9)),
                trees=(8, 16, 24, 32),
                depth=(4, 8, 12, 16),
                test_share=(0.1, 0.2, 0.3, 0.4),
            ),
            fast=_swept(
                1000, 1, domains=(1, 4, 8), trees=(8, 32), depth=(4, 16), test_share=(0.1, 0.4)
            ),
            alone=True,
        ),
    ),
)
