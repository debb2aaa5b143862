"""The scores that the command line shows.

With two classes, F1 is that of the second class; otherwise it is the mean over the classes of the
rows. AUC is the area under the ROC curve (ROC AUC), over the same classes, one against the rest.
Accuracy is the share of rows whose class is found.
An undefined score (no row of the second class, one class only, no rows) is left out, and accuracy
where all others are. This depends
only on the rows, so all forests have the same scores.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score, r2_score, roc_auc_score

from spinney.protocols.home import shares_elsewhere
from spinney.protocols.model import ForestModel
from spinney.tables.table import Table
from spinney.typing import Floats

LESS_IS_BETTER = frozenset({"rmse"})


def score_names(task: str) -> tuple[str, ...]:
    """Return the names of the scores of a task, the main one first."""
    return ("f1", "auc") if task == "classification" else ("rmse", "r2")


def scores_of(truth: NDArray[Any], predicted: Floats, *, is_class: bool) -> dict[str, float]:
    """Return the scores of predictions; none without rows."""
    if not truth.size:
        return {}
    if is_class:
        return _class_scores(truth, predicted)
    return _number_scores(truth, predicted[:, 0])


def predict_table(
    model: ForestModel, table: Table, *, n_threads: int
) -> tuple[NDArray[Any], Floats]:
    """Return the labels of a table's rows and a model's predictions."""
    predicted = np.empty((table.n_rows, model.n_outputs))
    is_class = model.schema.label.kind == "class"
    truth: NDArray[Any] = np.empty(table.n_rows, np.int64 if is_class else np.float64)
    start = 0
    for batch in table.batches():
        rows = slice(start, start + len(batch.target))
        (predicted[rows],) = model.predict_batches(iter([batch.values]), n_threads=n_threads)
        truth[rows] = batch.target
        start = rows.stop
    return truth, predicted


def _number_scores(truth: Floats, predicted: Floats) -> dict[str, float]:
    scores = {"rmse": float(np.sqrt(np.mean((truth - predicted) ** 2)))}
    if np.ptp(truth) > 0:
        scores["r2"] = float(r2_score(truth, predicted))
    return scores


def _class_scores(truth: NDArray[Any], shares: Floats) -> dict[str, float]:
    guess = shares.argmax(axis=1)
    is_binary = shares.shape[1] == 2
    classes = np.unique(truth) if not is_binary else np.array([1])
    scores = {}
    if not is_binary or (truth == 1).any():
        found = f1_score(truth, guess, labels=classes, average="macro", zero_division=0.0)
        scores["f1"] = float(found)
    areas = [
        float(roc_auc_score(truth == one, shares[:, one]))
        for one in classes
        if 0 < np.count_nonzero(truth == one) < truth.size
    ]
    if areas:
        scores["auc"] = float(np.mean(areas))
    return {**scores, "accuracy": float(np.mean(guess == truth))} if scores else {}


def home_scores(truth: NDArray[Any], joint: Floats) -> dict[str, float]:
    """Return the scores of a joint model that a party fits at home, each row by a fit to others.

    Of two classes, F1 is that of decisions for F1. AUC is left out: a fit ranks rows as before.
    """
    if not truth.size:
        return {}
    fitted = _class_scores(truth, shares_elsewhere(joint, truth))
    if joint.shape[1] == 2 and "f1" in fitted:
        fitted["f1"] = _class_scores(truth, shares_elsewhere(joint, truth, "f1"))["f1"]
    fitted.pop("auc", None)
    return fitted
