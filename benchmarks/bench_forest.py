"""Whole forests on the same rows and cores, in turns: Spinney, LightGBM, XGBoost, scikit-learn.

100 trees on 200,000 x 30 drawn rows, binning included, kernels warm. scikit-learn's forest takes
so long that it is grown once. Run: python benchmarks/bench_forest.py [--fast]
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import lightgbm
import numpy as np
import xgboost
from sklearn.ensemble import RandomForestClassifier

from data import Split, drawn
from harness import (
    CORES,
    Sample,
    arguments,
    foreign,
    interleaved,
    median,
    ratio,
    save,
    table,
    timed,
)
from spinney import HorizontalForestClassifier, deal_rows
from spinney.errors import PrivacyLeakWarning

_DRAWN_SHARE = 0.632  # of the rows in a bootstrap
_FIVE, _ONE, _SKLEARN = "spinney, 5 parties", "spinney, 1 party", "scikit-learn"


def spinney_forest(split: Split, n_trees: int, depth: int, party: Any) -> Any:
    forest = HorizontalForestClassifier(n_trees, max_depth=depth, random_state=0)
    return forest.fit(split.X, split.y, party=party)


def lightgbm_forest(split: Split, n_trees: int, depth: int) -> Any:
    settings = {
        "objective": "binary",
        "boosting": "rf",
        "bagging_fraction": _DRAWN_SHARE,
        "bagging_freq": 1,
        "feature_fraction_bynode": int(split.X.shape[1] ** 0.5) / split.X.shape[1],
        "num_leaves": 2**depth,
        "max_depth": depth,
        "min_data_in_leaf": 1,
        "num_threads": CORES,
        "verbosity": -1,
        "seed": 0,
    }
    return lightgbm.train(settings, lightgbm.Dataset(split.X, split.y), n_trees)


def xgboost_forest(split: Split, n_trees: int, depth: int) -> Any:
    settings = {
        "objective": "binary:logistic",
        "num_parallel_tree": n_trees,
        "subsample": _DRAWN_SHARE,
        "colsample_bynode": int(split.X.shape[1] ** 0.5) / split.X.shape[1],
        "max_depth": depth,
        "learning_rate": 1.0,
        "tree_method": "hist",
        "nthread": CORES,
        "seed": 0,
    }
    rows = xgboost.QuantileDMatrix(split.X, split.y, nthread=CORES)
    return xgboost.train(settings, rows, num_boost_round=1)


def sklearn_forest(split: Split, n_trees: int, depth: int) -> Any:
    forest = RandomForestClassifier(n_trees, max_depth=depth, n_jobs=CORES, random_state=0)
    return forest.fit(split.X, split.y)


def predicted(model: Any, X: np.ndarray) -> np.ndarray:
    """Return whether the second class is likelier."""
    if isinstance(model, xgboost.Booster):
        return model.predict(xgboost.DMatrix(X, nthread=CORES)) > 0.5
    if isinstance(model, lightgbm.Booster):
        return model.predict(X, num_threads=CORES) > 0.5
    return model.predict_proba(X)[:, 1] > 0.5


def fits(split: Split, n_trees: int, depth: int) -> dict[str, Callable[[], Any]]:
    party = deal_rows(split.y, 5, random_state=0)
    return {
        _FIVE: partial(spinney_forest, split, n_trees, depth, party),
        _ONE: partial(spinney_forest, split, n_trees, depth, None),
        "LightGBM rf": partial(lightgbm_forest, split, n_trees, depth),
        "XGBoost": partial(xgboost_forest, split, n_trees, depth),
    }


def compare(split: Split, n_trees: int, depth: int, repeats: int) -> list[dict[str, Any]]:
    cases = fits(split, n_trees, depth)
    samples, models = interleaved(cases, repeats)
    once, models[_SKLEARN] = timed(partial(sklearn_forest, split, n_trees, depth))
    samples[_SKLEARN] = [once]
    asked = {
        name: partial(predicted, model, split.X_test)
        for name, model in models.items()
        if name != _ONE  # the same forest
    }
    predictions, classes = interleaved(asked, repeats)
    rates = {name: len(split.X_test) / median(found) for name, found in predictions.items()}
    return [
        {
            **_fit_row(name, found, samples[_FIVE], samples[_ONE]),
            "predicted rows/s": rates.get(name, ""),
            "x scikit-learn": rates[name] / rates[_SKLEARN] if name in rates else "",
            "accuracy": np.mean(classes[name] == split.y_test).item() if name in rates else "",
        }
        for name, found in samples.items()
    ]


def _fit_row(
    name: str, found: list[Sample], five: list[Sample], one: list[Sample]
) -> dict[str, Any]:
    seconds = sorted(sample.seconds for sample in found)
    in_turns = len(found) == len(five)
    return {
        "forest": name,
        "fit s": median(found),
        "min": seconds[0],
        "max": seconds[-1],
        "x 5 parties": ratio(found, five) if in_turns else median(found) / median(five),
        "x 1 party": ratio(found, one) if in_turns else median(found) / median(one),
        "foreign": foreign(found),
    }


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, repeats=5, rows=200_000, plain=0)
    n_rows, n_trees = (20_000, 20) if asked.fast else (asked.rows, 100)
    split = drawn(n_rows, plain=bool(asked.plain))
    tables = {}
    for depth in (10, 12):
        for warm in fits(split, 2, depth).values():
            warm()
        title = f"{n_rows:,} x 30 rows, {n_trees} trees, depth {depth}, {CORES} cores"
        tables[title] = compare(split, n_trees, depth, 2 if asked.fast else asked.repeats)
        table(title, tables[title])
    name = "forest_plain" if asked.plain else "forest"
    save(name, "median over turns; ratios: median of the turns' ratios", tables)


if __name__ == "__main__":
    main()
