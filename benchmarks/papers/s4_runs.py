"""S4's tables, divisions of their rows, and what each learner scores on common test rows."""

import warnings
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score, mean_squared_error
from sklearn.preprocessing import KBinsDiscretizer

from data import shared
from papers import truex as truex_tree
from papers.experiment import Found
from spinney import GeneticTreeClassifier, GeneticTreeRegressor
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.privacy.ledger import Ledger
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.protocols.settings import PrivacySettings, as_text
from spinney.tables.frames import columns_of
from spinney.transport.in_process import InProcess

CLASSIFICATION = {
    "nursery": "nursery",
    "adult": "adult",
    "california": "tb_california",
    "compas": "tb_compas",
    "creditcard": "tb_creditcard",
    "diabetes": "tb_diabetes130us",
    "eyemvt": "tb_eye_movements",
    "house16H": "tb_house_16H_clf",
    "marketing": "tb_bank_marketing",
    "pol": "tb_pol",
    "telco*": "telco_churn",
    "bank*": "bank_additional_full",
}
REGRESSION = {
    "analcatdata": "tb_analcatdata_supreme",
    "abalone": "tb_abalone",
    "bikesharing": "tb_bike_sharing",
    "brazil": "tb_brazilian_houses",
    "elevators": "tb_elevators",
    "house16H": "tb_house_16H_reg",
    "houses": "tb_houses",
    "soil": "tb_soil",
    "sulfur": "tb_sulfur",
    "wine": "tb_wine_quality",
    "yprop": "tb_yprop_4_1",
    "superconduct*": "superconduct_76",
}  # * not among the paper's
SETS = {"classification": CLASSIFICATION, "regression": REGRESSION}
TRUEX = ("Truex", "Truex, S4's noise")
_BINS = 5
_TRUEX_DEPTH = 6


@dataclass(frozen=True)
class Rows:
    """A table's rows for training and for judging."""

    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray


@cache
def read(file: str) -> tuple[pd.DataFrame, np.ndarray]:
    frame, y = shared(file)
    is_class = y.dtype.name in {"category", "object", "str", "string"}
    return frame, y.astype("category").cat.codes.to_numpy() if is_class else y.to_numpy(np.float64)


@cache
def divided(task: str, data: str, split: int) -> Rows:
    """Divide a table 90 / 10; discretise the numbers of a classification table."""
    frame, y = read(SETS[task][data])
    order = np.random.default_rng(split).permutation(len(y))
    n_test = round(0.1 * len(y))
    test, train = order[:n_test], order[n_test:]
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype.name in {"category", "object", "str", "string"}:
            codes = column.astype("category").cat.codes.to_numpy(np.float64)
            columns[name] = np.where(codes < 0, np.nan, codes)
        else:
            values = column.to_numpy(np.float64)
            is_class = task == "classification"
            columns[name] = discretised(values, train) if is_class else values
    X = pd.DataFrame(columns)
    return Rows(X.iloc[train], y[train], X.iloc[test], y[test])


def discretised(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Cut at quantiles of the training rows; in two equal parts where all quantiles coincide."""
    known = ~np.isnan(values)
    fitted = values[train][known[train]][:, None]
    found = np.full(len(values), np.nan)
    for n_bins, strategy in ((_BINS, "quantile"), (2, "uniform")):
        cutter = KBinsDiscretizer(
            n_bins, encode="ordinal", strategy=strategy, subsample=None,
            **({"quantile_method": "averaged_inverted_cdf"} if strategy == "quantile" else {}),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # bins that coincide are removed
            cutter.fit(fitted)
        if cutter.n_bins_[0] > 1:
            break
    found[known] = cutter.transform(values[known][:, None])[:, 0]
    return found


def dealt(rows: Rows, n_parties: int, split: int) -> np.ndarray:
    """Deal the training rows at random to the parties, in equal parts."""
    random = np.random.default_rng([split, 7])
    return random.permutation(np.arange(len(rows.y)) % n_parties)


def score(task: str, truth: np.ndarray, found: np.ndarray, n_classes: int) -> float:
    if task == "regression":
        return float(mean_squared_error(truth, found))
    average = "binary" if n_classes == 2 else "macro"
    return float(f1_score(truth, found, average=average, zero_division=0.0))


def evolved(
    *,
    task: str,
    data: str,
    n_parties: int,
    participation: float,
    split: int,
    run: int,
    generations: int,
) -> Found:
    """Evolve trees and judge everybody's on the common test rows, and once the pooled tree."""
    rows = divided(task, data, split)
    is_class = task == "classification"
    face: Any = GeneticTreeClassifier if is_class else GeneticTreeRegressor
    model = face(
        participation=participation,
        n_generations=generations,
        size_epsilon=1.0,
        random_state=1000 * split + run,
    ).fit(rows.X, rows.y, party=dealt(rows, n_parties, split))
    n_classes = int(rows.y.max()) + 1 if is_class else 0
    columns = columns_of(rows.X_test, model.model_.schema)
    parties = []
    for name, tree in model.tree_of_.items():
        home = model.home_tree_of_[name]
        own, joint = (
            score(task, rows.y_test, predicted(one.model, columns), n_classes)
            for one in (home, tree)
        )
        parties.append(
            {
                "local": own,
                "evolved": joint,
                "delta": 100 * (joint / own - 1) if own else None,
                "nodes": tree.n_decisions,
                "local nodes": home.n_decisions,
                "distance": tree.edit_distance,
                "kept home": bool(tree.is_home),
            }
        )
    found: Found = {"depth": model.depth_, "parties": parties}
    if run == 0 and (n_parties, participation) == (20, 1.0):
        alone = face(2, n_generations=1, random_state=run).fit(rows.X, rows.y)
        pooled = predicted(alone.home_tree_of_["all"].model, columns)
        found["pooled"] = score(task, rows.y_test, pooled, n_classes)
    return found


def predicted(model: Any, columns: Any) -> np.ndarray:
    found = model.predict(columns)
    return found[:, 0] if found.shape[1] == 1 else found.argmax(axis=1)


def truex(
    *,
    task: str,
    data: str,
    n_parties: int,
    participation: float,
    split: int,
    run: int,
    generations: int,
    learner: str,
) -> Found:
    """Grow Truex's tree over the parties that take part, which are drawn once.

    All of them are honest, as S4 has it; where there are two, each is held to be honest alone.

    With epsilon 1; or with S4's noise: it says that noise falls by a factor of t - 1. Where every
    one of t parties divides the scale of its Laplace noise so, the sum's deviation is that of
    epsilon (t - 1) / sqrt(t), which is paid for here.
    """
    del generations  # it stands beside the evolved trees of that many
    rows = divided(task, data, split)
    site = dealt(rows, n_parties, split)
    random = np.random.default_rng([split, run, 3])
    n_active = max(2, round(participation * n_parties))
    mine = np.isin(site, random.permutation(n_parties)[:n_active])
    epsilon = 1.0 if learner == TRUEX[0] else (n_active - 1) / sqrt(n_active)
    train, test = as_categories(rows.X[mine], rows.X_test)
    given = fit_input(
        GeneticTreeClassifier(), train, rows.y[mine], is_classifier=True, needs_ranges=False,
        schema=None, categorical_features="from_dtype",
    )  # fmt: skip
    tables = deal_tables(given.table, site[mine])
    parties: dict[str, Any] = {
        name: truex_tree.Party(table, Ledger.in_memory(name)) for name, table in tables.items()
    }
    privacy = PrivacySettings(
        job="truex",
        epsilon=as_text(epsilon, "epsilon"),
        in_shares=True,
        honest=n_active if n_active > 2 else 1,  # of two, each can subtract its own share
    )
    masks = {"honest": n_active - 1, "min_survivors": n_active}
    channel = secure_parties(parties, InProcess, truex_tree.SUMMED, job="truex", **masks)
    settings = truex_tree.Settings(privacy=privacy, max_depth=_TRUEX_DEPTH)
    model = truex_tree.train(channel, settings).model
    found = predicted(model, columns_of(test, model.schema, unknown_categories="as_missing"))
    n_classes = int(rows.y.max()) + 1
    return {
        "score": score(task, rows.y_test, found, n_classes),
        "nodes": int((model.forest.feature >= 0).sum()),
    }


def as_categories(*frames: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the frames with the first one's values as categories; missing is one where it is."""
    codes = [frame.fillna(-1).astype(int) for frame in frames]
    kinds = {name: pd.CategoricalDtype(np.unique(codes[0][name])) for name in codes[0].columns}
    return [
        frame.where(frame.isin({n: k.categories for n, k in kinds.items()})).astype(kinds)
        for frame in codes
    ]
