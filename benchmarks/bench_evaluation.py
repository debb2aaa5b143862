"""How often do the intervals of an evaluation with noise hold the truth?

A model is fixed, and so is a large population of rows. A run draws some rows, counts them, adds
the noise of three parties that share it, and asks whether each interval holds the measure that
scikit-learn computes, without bins, on the whole population.

Intervals were designed on `CASES`; `UNSEEN` were run once, afterwards.

Run: python benchmarks/bench_evaluation.py [--fast] [--runs 1000] [--unseen 1]
"""

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from harness import arguments, save, table
from spinney import HorizontalForestClassifier, HorizontalForestRegressor, PrivateForestClassifier
from spinney.estimators.evaluating import tables_for
from spinney.protocols.private_evaluation.budget import plan_of
from spinney.protocols.private_evaluation.cells import Cells
from spinney.protocols.private_evaluation.coordinator import ALL, noisy_parts
from spinney.protocols.private_evaluation.measures import qualities_of
from spinney.protocols.private_evaluation.settings import digest_of, evaluation_settings
from spinney.tables.table import Batch

POPULATION = 200_000
PARTIES = 3


@dataclass(frozen=True)
class Case:
    """A model, its population, and what is true of them."""

    name: str
    forest: Any
    rows: Batch
    means: Any
    truth: dict[tuple[str, str], float]
    by: str | None = None


def two_classes() -> Case:
    X, y, forest = _drawn(2, PrivateForestClassifier(1.0, n_estimators=20, max_depth=5))
    rows, means = _scored(forest, X, y)
    score, guess = means[:, 1], means[:, 1] > 0.5
    truth = {
        (ALL, "accuracy"): np.mean(guess == y),
        (ALL, "auc"): roc_auc_score(y, score),
        (ALL, "log_loss"): log_loss(y, score),
        (ALL, "brier"): brier_score_loss(y, score),
    }
    for value, name in enumerate(("no", "yes")):
        group, of = X["member"] == bool(value), f"member = {name}"
        truth[of, "accuracy"] = np.mean((guess == y)[group])
        truth[of, "base rate"] = np.mean(y[group])
        truth[of, "predicted rate"] = np.mean(guess[group])
        truth[of, "true positives"] = np.mean(guess[group & (y == 1)])
        truth[of, "false positives"] = np.mean(guess[group & (y == 0)])
    return Case("two classes", forest, rows, means, truth, "member")


def few_positives() -> Case:
    X, y, forest = _drawn(2, PrivateForestClassifier(2.0, n_estimators=20, max_depth=6), rare=1.4)
    rows, means = _scored(forest, X, y)
    score = means[:, 1]
    truth = {
        (ALL, "accuracy"): np.mean((score > 0.5) == y),
        (ALL, "auc"): roc_auc_score(y, score),
        (ALL, "log_loss"): log_loss(y, score),
        (ALL, "brier"): brier_score_loss(y, score),
    }
    return Case(f"two classes, {np.mean(y):.0%} positive", forest, rows, means, truth)


def four_classes() -> Case:
    X, y, forest = _drawn(4, HorizontalForestClassifier(20, max_depth=8, random_state=0))
    rows, means = _scored(forest, X, y)
    means = np.clip(means, 1e-3, None) / np.clip(means, 1e-3, None).sum(axis=1, keepdims=True)
    hot = np.eye(4)[y]
    truth = {
        (ALL, "accuracy"): np.mean(means.argmax(axis=1) == y),
        (ALL, "auc"): np.mean([roc_auc_score(y == c, means[:, c]) for c in range(4)]),
        (ALL, "log_loss"): log_loss(y, means),
        (ALL, "brier"): float(((means - hot) ** 2).sum(axis=1).mean()),
    }
    return Case("four classes", forest, rows, means, truth)


def numbers() -> Case:
    X, y, forest = _drawn(0, HorizontalForestRegressor(20, max_depth=6, random_state=0))
    rows, means = _scored(forest, X, y)
    low, high = forest.model_.schema.label.range
    error = np.abs(np.clip(y, low, high) - means[:, 0])
    truth = {(ALL, "mae"): error.mean(), (ALL, "rmse"): np.sqrt((error**2).mean())}
    return Case("numbers", forest, rows, means, truth)


def _unseen(name, forest, seed, n_classes=2, **shape) -> Case:
    """Return a case that no interval was designed on."""
    X, y = make_classification(
        POPULATION, 10, n_informative=6, n_classes=n_classes, random_state=seed, **shape
    )
    X = pd.DataFrame(X, columns=list("abcdefghij"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # public facts are read from the rows
        forest = forest.fit(X[:5000], y[:5000])
    rows, means = _scored(forest, X, y)
    truth = {(ALL, "accuracy"): np.mean(means.argmax(axis=1) == y)}
    if n_classes == 2:
        truth[ALL, "auc"] = roc_auc_score(y, means[:, 1])
        truth[ALL, "log_loss"] = log_loss(y, means[:, 1])
        truth[ALL, "brier"] = brier_score_loss(y, means[:, 1])
    else:
        areas = [roc_auc_score(y == c, means[:, c]) for c in range(n_classes)]
        truth[ALL, "auc"] = np.mean(areas)
        truth[ALL, "brier"] = float(((means - np.eye(n_classes)[y]) ** 2).sum(axis=1).mean())
    return Case(f"{name}, {np.mean(y == 1):.0%} positive", forest, rows, means, truth)


def unseen_moderate() -> Case:
    forest = PrivateForestClassifier(1.0, n_estimators=30, max_depth=7)
    return _unseen("unseen, two classes", forest, 31, weights=[0.75], class_sep=0.9, flip_y=0.08)


def unseen_hard() -> Case:
    forest = PrivateForestClassifier(2.0)
    return _unseen("unseen, hard", forest, 32, weights=[0.55], class_sep=0.4, flip_y=0.25)


def unseen_easy() -> Case:
    forest = HorizontalForestClassifier(30, max_depth=9, random_state=0, min_samples_leaf=5)
    return _unseen("unseen, easy", forest, 33, weights=[0.88], class_sep=1.6, flip_y=0.02)


def unseen_classes() -> Case:
    forest = PrivateForestClassifier(4.0)
    return _unseen("unseen, three classes", forest, 34, n_classes=3, class_sep=1.0)


CASES = (two_classes, few_positives, four_classes, numbers)
UNSEEN = (unseen_moderate, unseen_hard, unseen_easy, unseen_classes)


def _drawn(n_classes, forest, rare=0.0):
    random = np.random.RandomState(1)
    X = pd.DataFrame(random.uniform(0, 1, (POPULATION, 5)), columns=list("abcde"))
    X["member"] = random.uniform(size=POPULATION) < 0.3
    signal = X["a"] + X["b"] * X["c"] + 0.3 * X["member"] + random.normal(0, 0.35, POPULATION)
    if not n_classes:
        y = signal.to_numpy()
    elif rare:
        y = (signal > rare).to_numpy().astype(int)
    else:
        cuts = np.quantile(signal, np.arange(1, n_classes) / n_classes)
        y = np.searchsorted(cuts, signal)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # public facts are read from the rows
        return X, y, forest.fit(X[:5000], y[:5000])


def _scored(forest, X, y):
    ends = forest.model_.schema.label.range
    tables = tables_for(forest, X, y if ends is None else np.clip(y, *ends), None)
    (batch,) = tables["all"].batches(POPULATION)
    (means,) = forest.model_.predict_batches(iter([batch.values]))  # noqa: PD011
    return batch, means


def covered(case: Case, n_rows: int, epsilon: str, n_runs: int) -> dict[str, dict[str, float]]:
    """Return by measure: in which share of runs its interval held the truth, if it was told."""
    model = case.forest.model_
    task = "classification" if model.schema.label.kind == "class" else "regression"
    settings = evaluation_settings(
        "coverage", (digest_of(model.to_bytes()),), task, Fraction(epsilon), by=case.by
    )
    cells = Cells.of((model,), settings)
    plan = plan_of(cells, PARTIES)
    random = np.random.RandomState(0)
    held: dict[tuple[str, str], list[bool]] = {key: [] for key in case.truth}
    widths: dict[tuple[str, str], list[float]] = {key: [] for key in case.truth}
    for _ in range(n_runs):
        drawn = random.choice(POPULATION, n_rows, replace=False)
        values = case.rows.values[:, drawn]  # noqa: PD011
        batch = Batch(values, case.rows.target[drawn], case.rows.keys[drawn])
        counts = [count.ravel() for count in cells.counted(batch, case.means[drawn])]
        for noise, count in zip(plan.noises, counts, strict=True):
            for _ in range(PARTIES):
                count[:] = noise._randomised(count)  # noqa: SLF001  nothing is paid for
        parts = qualities_of(cells, noisy_parts(cells, plan, np.concatenate(counts), 1), ALL)
        found = {(part.of, name): m for part in parts for name, m in part.measures.items()}
        for key, true in case.truth.items():
            if key in found:
                held[key].append(found[key].low <= true <= found[key].high)
                widths[key].append(found[key].high - found[key].low)
    return {
        name if of == ALL else f"{name}, {of}": {
            "coverage": float(np.mean(held[of, name])),
            "width": float(np.mean(widths[of, name])),
            "told": len(held[of, name]) / n_runs,
        }
        for of, name in case.truth
        if held[of, name]
    }


def main() -> None:
    asked = arguments(__doc__, runs=1000, unseen=0)
    n_runs = 50 if asked.fast else asked.runs
    cases = UNSEEN if asked.unseen else CASES
    lines = [
        {"model": case.name, "rows": n_rows, "epsilon": epsilon, "measure": what} | found
        for case in (make() for make in cases)
        for n_rows, epsilon in ((500, "1"), (2000, "1/2"), (10_000, "1"))
        for what, found in covered(case, n_rows, epsilon, n_runs).items()
    ]
    table(f"Coverage of 95 % intervals over {n_runs} runs", lines)
    save(
        "evaluation_unseen" if asked.unseen else "evaluation",
        "share of runs",
        {"coverage": lines},
        runs=n_runs,
    )


if __name__ == "__main__":
    main()
