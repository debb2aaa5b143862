"""The estimators' trainings whose models `test_stored_models` compares."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oracles.stored_tables import TABLES, labels, wards  # type: ignore[import-not-found]
from spinney import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GeneticTreeClassifier,
    GeneticTreeRegressor,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    PrivateForestClassifier,
    PrivateTreeClassifier,
    VerticalForestClassifier,
    VerticalForestRegressor,
    deal_columns,
    deal_rows,
)


@dataclass(frozen=True)
class Case:
    """A training: from a seed, a number of threads and an empty folder to the model's bytes."""

    train: Callable[[int, int, Path], bytes]
    kind: Any = None  # of estimator
    is_noisy: bool = False  # then noise is fixed, and one thread draws it


def trained(seed, n_jobs, folder, *, kind, label, table, party, parameters):
    known = kind().get_params()
    seeds = {"random_state": seed} if "random_state" in known else {}
    model = kind(**seeds, n_jobs=n_jobs, **parameters)
    party = party(labels(label)) if callable(party) else party
    model.fit(TABLES[table](), labels(label), **({} if party is None else {"party": party}))
    model.save(folder / "saved", exact=True)
    score = repr(float(model.oob_score_)) if parameters.get("oob_score") else ""
    return (folder / "saved").read_bytes() + score.encode()


def training(kind, label, party=None, *, table="wards", is_noisy=False, **parameters):
    """Return the training of an estimator; `party`: how rows are dealt, if they are."""
    how = {"kind": kind, "label": label, "table": table, "party": party, "parameters": parameters}
    return Case(partial(trained, **how), kind, is_noisy)


def dealt(n_parties, **how):
    return lambda y: deal_rows(y, n_parties, random_state=5, **how)


def dealt_columns(n_parties, table="wards", **how):
    return deal_columns(TABLES[table](), n_parties, random_state=6, **how)


def by_age(_):
    """Deal the old to one party and the young to another; a third has those of unknown age."""
    age = wards()["age"].to_numpy()
    return np.where(np.isnan(age), "unknown", np.where(age < 40, "young", "old"))


def one_row_alone(y):
    return np.where(np.arange(len(y)) == 17, 0, 1)


def without_a_class(y):
    """Deal so that one party lacks the first class."""
    return np.where((y != np.unique(y)[0]) & (np.arange(len(y)) % 2 == 0), "a", "b")


FOREST = {"n_estimators": 4}
HORIZONTAL: dict[str, Case] = {
    "forest, two classes": training(HorizontalForestClassifier, "two classes", dealt(3), **FOREST),
    "forest, one party": training(HorizontalForestClassifier, "two classes", **FOREST),
    "forest, two parties, deep by entropy": training(
        HorizontalForestClassifier,
        "two classes",
        dealt(2, stratified=True),
        criterion="entropy",
        max_depth=None,
        **FOREST,
    ),
    "forest, five classes, seven parties": training(
        HorizontalForestClassifier, "five classes", dealt(7), max_depth=5, **FOREST
    ),
    "forest, five classes by entropy, skewed": training(
        HorizontalForestClassifier,
        "five classes",
        dealt(3, skew=10.0),
        criterion="entropy",
        min_samples_split=9,
        min_samples_leaf=3,
        **FOREST,
    ),
    "forest, parties of many sizes": training(
        HorizontalForestClassifier,
        "two classes",
        dealt(4, sizes=[50, 10, 2, 1]),
        min_samples_leaf=0.02,
        min_samples_split=0.1,
        max_features=None,
        **FOREST,
    ),
    "forest, a party lacks a class": training(
        HorizontalForestClassifier,
        "five classes",
        without_a_class,
        min_weight_fraction_leaf=0.02,
        **FOREST,
    ),
    "forest, a party has one row": training(
        HorizontalForestClassifier,
        "two classes",
        one_row_alone,
        min_impurity_decrease=0.002,
        max_features=3,
        **FOREST,
    ),
    "forest, a party has gaps only": training(
        HorizontalForestClassifier, "two classes", by_age, max_features=0.5, **FOREST
    ),
    "forest, balanced": training(
        HorizontalForestClassifier, "five classes", dealt(3), class_weight="balanced", **FOREST
    ),
    "forest, weighted": training(
        HorizontalForestClassifier,
        "two classes",
        dealt(2),
        class_weight={"ill": 2.5},
        criterion="entropy",
        **FOREST,
    ),
    "forest, no bootstrap": training(
        HorizontalForestClassifier, "two classes", dealt(3), bootstrap=False, **FOREST
    ),
    "forest, out of bag": training(
        HorizontalForestClassifier, "five classes", dealt(3), n_estimators=12, oob_score=True
    ),
    "forest, few bins": training(
        HorizontalForestClassifier, "two classes", dealt(3), max_bins=7, **FOREST
    ),
    "forest, few cells": training(
        HorizontalForestClassifier, "two classes", dealt(3), max_cells=3, **FOREST
    ),
    "forest, ranges": training(
        HorizontalForestClassifier, "five classes", dealt(3), binning="ranges", **FOREST
    ),
    "forest, adaptive": training(
        HorizontalForestClassifier,
        "two classes",
        dealt(3, skew=2.0),
        binning="adaptive",
        max_bins=16,
        **FOREST,
    ),
    "forest, small messages": training(
        HorizontalForestClassifier, "five classes", dealt(2), message_limit=1 << 16, **FOREST
    ),
    "forest, categories alone": training(
        HorizontalForestClassifier, "five classes", dealt(3), table="categories", **FOREST
    ),
    "forest, an array with categories": training(
        HorizontalForestClassifier,
        "two classes",
        dealt(3),
        table="numbers with gaps",
        categorical_features=[2],
        **FOREST,
    ),
    "forest, masked": training(
        HorizontalForestClassifier, "two classes", dealt(3), secure_sum=True, **FOREST
    ),
    "forest, masked, seven skewed parties": training(
        HorizontalForestClassifier,
        "five classes",
        dealt(7, skew=2.0),
        secure_sum=True,
        honest=3,
        binning="ranges",
        **FOREST,
    ),
    "forest, amount": training(HorizontalForestRegressor, "amount", dealt(3), **FOREST),
    "forest, amount, skewed and limited": training(
        HorizontalForestRegressor,
        "amount",
        dealt(5, skew=3.0),
        max_depth=4,
        max_features="log2",
        min_samples_leaf=4,
        **FOREST,
    ),
    "forest, amount, no bootstrap, ranges": training(
        HorizontalForestRegressor,
        "amount",
        dealt(2),
        bootstrap=False,
        binning="ranges",
        max_features=2,
        max_bins=32,
        **FOREST,
    ),
    "forest, amount, adaptive": training(
        HorizontalForestRegressor, "amount", dealt(3), binning="adaptive", max_bins=12, **FOREST
    ),
    "forest, amount, out of bag, masked": training(
        HorizontalForestRegressor,
        "amount",
        dealt(3),
        n_estimators=12,
        oob_score=True,
        secure_sum=True,
        table="numbers with gaps",
    ),
}
EXTRA: dict[str, Case] = {
    "extra, two classes": training(ExtraTreesClassifier, "two classes", dealt(3), **FOREST),
    "extra, five classes, exchanged": training(
        ExtraTreesClassifier, "five classes", dealt(3), thresholds="exchanged", **FOREST
    ),
    "extra, entropy, balanced, bootstrap": training(
        ExtraTreesClassifier,
        "two classes",
        dealt(7, skew=2.0),
        criterion="entropy",
        class_weight="balanced",
        bootstrap=True,
        oob_score=True,
        **FOREST,
    ),
    "extra, ranges, limited": training(
        ExtraTreesClassifier,
        "five classes",
        dealt(2),
        binning="ranges",
        max_depth=4,
        min_samples_leaf=3,
        max_features=None,
        **FOREST,
    ),
    "extra, masked": training(
        ExtraTreesClassifier, "two classes", dealt(3), secure_sum=True, max_bins=40, **FOREST
    ),
    "extra, amount": training(
        ExtraTreesRegressor, "amount", dealt(3), max_features=3, max_depth=6, **FOREST
    ),
    "extra, amount, exchanged, quantiles": training(
        ExtraTreesRegressor,
        "amount",
        one_row_alone,
        thresholds="exchanged",
        binning="quantiles",
        **FOREST,
    ),
}
VERTICAL: dict[str, Case] = {
    "columns, two classes": training(
        VerticalForestClassifier,
        "two classes",
        column_party=dealt_columns(2),
        label_party="party_0",
        **FOREST,
    ),
    "columns, one party": training(VerticalForestClassifier, "five classes", **FOREST),
    "columns, five classes, three parties": training(
        VerticalForestClassifier,
        "five classes",
        column_party=dealt_columns(3, names=["bank", "clinic", "shop"]),
        label_party="shop",
        criterion="entropy",
        class_weight="balanced",
        max_features=None,
        intersect_at="coordinator",
        **FOREST,
    ),
    "columns, labels apart, limited": training(
        VerticalForestClassifier,
        "two classes",
        column_party={"registry": [], **dealt_columns(4)},
        label_party="registry",
        max_depth=4,
        min_samples_leaf=3,
        binning="ranges",
        oob_score=True,
        **FOREST,
    ),
    "columns, no bootstrap, few cells": training(
        VerticalForestClassifier,
        "two classes",
        table="numbers with gaps",
        column_party=dealt_columns(2, "numbers with gaps"),
        label_party="party_1",
        bootstrap=False,
        class_weight={"well": 0.5},
        max_bins=20,
        max_cells=5,
        **FOREST,
    ),
    "columns, amount": training(
        VerticalForestRegressor,
        "amount",
        column_party=dealt_columns(2),
        label_party="party_1",
        **FOREST,
    ),
    "columns, amount, a column each": training(
        VerticalForestRegressor,
        "amount",
        column_party=dealt_columns(7),
        label_party="party_3",
        max_features=3,
        min_samples_split=8,
        max_depth=5,
        **FOREST,
    ),
    "columns, encrypted labels": training(
        VerticalForestClassifier,
        "two classes",
        table="numbers",
        column_party=dealt_columns(2, "numbers"),
        label_party="party_0",
        labels="encrypted",
        scheme="paillier",
        n_estimators=2,
        max_depth=2,
        max_bins=8,
    ),
    "columns, encrypted amount": training(
        VerticalForestRegressor,
        "amount",
        table="numbers",
        column_party=dealt_columns(2, "numbers"),
        label_party="party_1",
        labels="encrypted",
        scheme="okamoto-uchiyama",
        n_estimators=2,
        max_depth=2,
        max_bins=8,
    ),
    "columns, randomised labels": training(
        VerticalForestClassifier,
        "five classes",
        column_party=dealt_columns(2),
        label_party="party_0",
        label_epsilon=2.0,
        is_noisy=True,
        **FOREST,
    ),
}
SEARCH = {"population_size": 8, "n_generations": 8, "min_depth": 3, "max_depth": 5, "n_folds": 3}
GENETIC: dict[str, Case] = {
    "evolved, two classes": training(GeneticTreeClassifier, "two classes", dealt(3), **SEARCH),
    "evolved, five classes, pooled bins": training(
        GeneticTreeClassifier,
        "five classes",
        dealt(2),
        binning="pooled",
        max_bins=5,
        validation="fixed",
        keep_home=False,
        **SEARCH,
    ),
    "evolved, half take part, masked": training(
        GeneticTreeClassifier,
        "two classes",
        dealt(5, skew=1.0),
        participation=0.5,
        secure_sum=True,
        train_ratio=0.6,
        **SEARCH,
    ),
    "evolved, one party": training(GeneticTreeClassifier, "two classes", **SEARCH),
    "evolved, amount": training(
        GeneticTreeRegressor, "amount", dealt(3), keep_home=False, **SEARCH
    ),
    "evolved, amount, pooled bins": training(
        GeneticTreeRegressor,
        "amount",
        dealt(4),
        binning="pooled",
        participation=0.5,
        metric="rae",
        leaf_ratio=0.1,
        tournament_size=2,
        flip_ratio=0.2,
        swap_ratio=0.2,
        noise_threshold=50.0,  # so that parties vote otherwise
        complexity_threshold=0.0,
        unique_threshold=100.0,
        keep_home=False,
        **SEARCH,
    ),
    "evolved, noisy sizes": training(
        GeneticTreeClassifier,
        "two classes",
        dealt(3, sizes=[5, 3, 1]),
        size_epsilon=0.1,
        keep_home=False,
        is_noisy=True,
        **SEARCH,
    ),
    "evolved, noisy counts": training(
        GeneticTreeClassifier,
        "two classes",
        dealt(2),
        epsilon=20.0,
        secure_sum=True,
        keep_home=False,
        is_noisy=True,
        **SEARCH,
    ),
}
NOISY = {"n_estimators": 3, "max_depth": 3, "is_noisy": True}
PRIVATE: dict[str, Case] = {
    **{
        f"private tree, {method}": training(
            PrivateTreeClassifier,
            "two classes",
            dealt(3),
            epsilon=8.0,
            method=method,
            max_depth=3,
            is_noisy=True,
        )
        for method in ("auto", "histograms", "save_budget", "propose", "noisy_max")
    },
    "private tree, five classes, own noise": training(
        PrivateTreeClassifier,
        "five classes",
        dealt(2),
        epsilon=20.0,
        method="save_budget",
        bounds_share=0.5,
        max_depth=4,
        min_samples_leaf=20,
        n_bins=6,
        leaf_share=0.3,
        shrinkage=1.0,
        secure_sum=False,
        n_rows=100,
        is_noisy=True,
    ),
    "private forest": training(
        PrivateForestClassifier, "two classes", dealt(3), epsilon=2.0, **NOISY
    ),
    "private forest, five classes, own noise": training(
        PrivateForestClassifier,
        "five classes",
        dealt(2, skew=1.0),
        epsilon=5.0,
        shrinkage=0.3,
        secure_sum=False,
        **NOISY,
    ),
    "noisy histograms, disjoint": training(
        HorizontalForestClassifier, "two classes", dealt(3), epsilon=8.0, max_cells=8, **NOISY
    ),
    "noisy histograms, sampled, in shares": training(
        HorizontalForestClassifier,
        "five classes",
        dealt(3),
        epsilon=20.0,
        tree_rows="sampled",
        sample_rate=0.4,
        leaf_share=0.5,
        secure_sum=True,
        honest=2,
        max_cells=6,
        class_weight={0: 2.0, 4: 0.5},
        **NOISY,
    ),
    "noisy histograms, all rows": training(
        HorizontalForestClassifier,
        "two classes",
        dealt(2),
        epsilon=30.0,
        tree_rows="all",
        criterion="entropy",
        max_features=None,
        **NOISY,
    ),
    "noisy histograms, by count": training(
        HorizontalForestClassifier,
        "two classes",
        dealt(2),
        epsilon_per_count=1.0,
        tree_rows="bootstrap",
        **NOISY,
    ),
    "noisy histograms, amount": training(
        HorizontalForestRegressor, "amount", dealt(3), epsilon=20.0, max_cells=8, **NOISY
    ),
    "perturbed input": training(
        HorizontalForestClassifier,
        "two classes",
        dealt(3),
        epsilon=20.0,
        mechanism="perturbed_input",
        **NOISY,
    ),
    "perturbed input, amount": training(
        HorizontalForestRegressor,
        "amount",
        dealt(3),
        epsilon=30.0,
        mechanism="perturbed_input",
        secure_sum=True,
        **NOISY,
    ),
    "extra, labels by randomised response": training(
        ExtraTreesClassifier, "two classes", dealt(3), label_privacy="local", **NOISY
    ),
    "extra, labels by Bloom filters": training(
        ExtraTreesClassifier,
        "five classes",
        dealt(2),
        label_privacy="local",
        label_scheme="bloom",
        secure_sum=True,
        **NOISY,
    ),
    "extra, unary labels": training(
        ExtraTreesClassifier,
        "five classes",
        dealt(3),
        label_privacy="local",
        label_scheme="unary",
        epsilon=4.0,
        **NOISY,
    ),
    "extra, noisy counts": training(
        ExtraTreesClassifier, "two classes", dealt(3), label_privacy="laplace", epsilon=8.0, **NOISY
    ),
    "extra, noisy counts of an amount, in shares": training(
        ExtraTreesRegressor,
        "amount",
        dealt(3),
        label_privacy="laplace",
        epsilon=20.0,
        tree_rows="all",
        secure_sum=True,
        **NOISY,
    ),
}
