"""How well predictions do, in the few numbers that the command line shows.

F1 is that of the second class where there are two, else the mean over classes (macro); AUC is
the area under the ROC curve, over classes one against the rest. A score that held-out rows cannot
give (one class only, no rows) is left out.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score, r2_score, roc_auc_score

from spinney.protocols.model import ForestModel
from spinney.tables.table import Table
from spinney.typing import Floats

LESS_IS_BETTER = frozenset({"rmse"})


def score_names(task: str) -> tuple[str, ...]:
    """Return the scores of a task, the one that decides first."""
    return ("f1", "auc") if task == "classification" else ("rmse", "r2")


def scores_on(model: ForestModel, table: Table, *, n_threads: int) -> dict[str, float]:
    """Return how well a model does on a table's rows."""
    if not table.n_rows:
        return {}
    batches = list(table.batches())
    values = (batch.values for batch in batches)
    predicted = np.concatenate(list(model.predict_batches(values, n_threads=n_threads)))
    truth = np.concatenate([batch.target for batch in batches])
    if model.schema.label.kind == "number":
        return _number_scores(truth, predicted[:, 0])
    return _class_scores(truth, predicted)


def _number_scores(truth: Floats, predicted: Floats) -> dict[str, float]:
    scores = {"rmse": float(np.sqrt(np.mean((truth - predicted) ** 2)))}
    if np.ptp(truth) > 0:
        scores["r2"] = float(r2_score(truth, predicted))
    return scores


def _class_scores(truth: NDArray[Any], shares: Floats) -> dict[str, float]:
    guess = shares.argmax(axis=1)
    is_binary = shares.shape[1] == 2
    average = "binary" if is_binary else "macro"
    scores = {"f1": float(f1_score(truth, guess, average=average, zero_division=0.0))}
    classes = [1] if is_binary else np.unique(truth)
    areas = [
        float(roc_auc_score(truth == one, shares[:, one]))
        for one in classes
        if 0 < np.count_nonzero(truth == one) < truth.size
    ]
    if areas:
        scores["auc"] = float(np.mean(areas))
    return scores
