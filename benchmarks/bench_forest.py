"""Whole forests on the same rows and cores, in turns: Spinney, LightGBM, XGBoost, scikit-learn.

100 trees on 200,000 x 30 drawn rows, binning included, kernels warm. scikit-learn's forest takes
so long that it is grown once. With `--threads 1` times are CPU times, which a busy machine hardly
disturbs. Run: python benchmarks/bench_forest.py [--fast] [--depth 12] [--trees 50] [--repeats 3]
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

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
    timed_by_cpu,
)
from spinney import HorizontalForestClassifier, deal_rows
from spinney.errors import PrivacyLeakWarning

_DRAWN_SHARE = 0.632  # of the rows in a bootstrap
_FIVE, _ONE, _SKLEARN = "spinney, 5 parties", "spinney, 1 party", "scikit-learn"


class Size(NamedTuple):
    """What every forest is told."""

    n_trees: int
    depth: int
    threads: int


def spinney_forest(split: Split, size: Size, party: Any) -> Any:
    forest = HorizontalForestClassifier(
        size.n_trees, max_depth=size.depth, n_jobs=size.threads, random_state=0
    )
    return forest.fit(split.X, split.y, party=party)


def lightgbm_forest(split: Split, size: Size) -> Any:
    settings = {
        "objective": "binary",
        "boosting": "rf",
        "bagging_fraction": _DRAWN_SHARE,
        "bagging_freq": 1,
        "feature_fraction_bynode": int(split.X.shape[1] ** 0.5) / split.X.shape[1],
        "num_leaves": 2**size.depth,
        "max_depth": size.depth,
        "min_data_in_leaf": 1,
        "num_threads": size.threads,
        "verbosity": -1,
        "seed": 0,
    }
    return lightgbm.train(settings, lightgbm.Dataset(split.X, split.y), size.n_trees)


def xgboost_forest(split: Split, size: Size) -> Any:
    settings = {
        "objective": "binary:logistic",
        "num_parallel_tree": size.n_trees,
        "subsample": _DRAWN_SHARE,
        "colsample_bynode": int(split.X.shape[1] ** 0.5) / split.X.shape[1],
        "max_depth": size.depth,
        "learning_rate": 1.0,
        "tree_method": "hist",
        "nthread": size.threads,
        "seed": 0,
    }
    rows = xgboost.QuantileDMatrix(split.X, split.y, nthread=size.threads)
    return xgboost.train(settings, rows, num_boost_round=1)


def sklearn_forest(split: Split, size: Size) -> Any:
    forest = RandomForestClassifier(
        size.n_trees, max_depth=size.depth, n_jobs=size.threads, random_state=0
    )
    return forest.fit(split.X, split.y)


def predicted(model: Any, X: np.ndarray, threads: int) -> np.ndarray:
    """Return whether the second class is likelier."""
    if isinstance(model, xgboost.Booster):
        return model.predict(xgboost.DMatrix(X, nthread=threads)) > 0.5
    if isinstance(model, lightgbm.Booster):
        return model.predict(X, num_threads=threads) > 0.5
    return model.predict_proba(X)[:, 1] > 0.5


def fits(split: Split, size: Size) -> dict[str, Callable[[], Any]]:
    party = deal_rows(split.y, 5, random_state=0)
    return {
        _FIVE: partial(spinney_forest, split, size, party),
        _ONE: partial(spinney_forest, split, size, None),
        "LightGBM rf": partial(lightgbm_forest, split, size),
        "XGBoost": partial(xgboost_forest, split, size),
    }


def compare(split: Split, size: Size, repeats: int) -> list[dict[str, Any]]:
    clock = timed if size.threads > 1 else timed_by_cpu
    samples, models = interleaved(fits(split, size), repeats, clock=clock)
    once, models[_SKLEARN] = clock(partial(sklearn_forest, split, size))
    samples[_SKLEARN] = [once]
    asked = {
        name: partial(predicted, model, split.X_test, size.threads)
        for name, model in models.items()
        if name != _ONE  # the same forest
    }
    predictions, classes = interleaved(asked, repeats, clock=clock)
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
    sizes = {"rows": 200_000, "plain": 0, "threads": CORES, "depth": 0, "trees": 100}
    asked = arguments(__doc__, repeats=5, **sizes)
    n_rows, n_trees = (20_000, 20) if asked.fast else (asked.rows, asked.trees)
    split = drawn(n_rows, plain=bool(asked.plain))
    tables = {}
    for depth in (asked.depth,) if asked.depth else (10, 12):
        size = Size(n_trees, depth, asked.threads)
        for warm in fits(split, size._replace(n_trees=2)).values():
            warm()
        clock = "wall" if asked.threads > 1 else "CPU"
        title = f"{n_rows:,} x 30 rows, {n_trees} trees, depth {depth}, {asked.threads} threads"
        tables[title] = compare(split, size, 2 if asked.fast else asked.repeats)
        table(f"{title}, {clock} time", tables[title])
    name = f"forest{'_plain' if asked.plain else ''}_{asked.threads}_threads"
    save(name, "median over turns; ratios: median of the turns' ratios", tables)


if __name__ == "__main__":
    main()
