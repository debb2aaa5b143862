"""Membership inference by likelihood ratios (LiRA; Carlini et al. 2022).

Every model trained on a half is attacked in turn, with the others as shadows: how likely is its
confidence in a row's label if the row was in training, and how likely if it was not? With so few
shadows the variances are those over all rows, as the authors advise. The pairs of row and model
make one ROC curve. Intervals take the pairs as independent, which they are not quite: a row meets
several models.
"""

import numpy as np
from scipy import stats
from sklearn.metrics import roc_auc_score

from spinney.audit.rehearsal import Rows
from spinney.audit.shares import share_of
from spinney.protocols.model import ForestModel
from spinney.report.audited import Membership, MembershipAt
from spinney.typing import Bools, Floats

RATES = (0.001, 0.01)
_LEAST_ALARMS = 10  # false ones, or a rate cannot be judged
_FLOOR = 1e-3  # of a probability; forests give 0 and 1
_TINY = 1e-6


def infer_membership(models: tuple[ForestModel, ...], saw: Bools, rows: Rows) -> Membership:
    """Attack models that saw some of the rows; return how many members are found."""
    told = np.stack([_confidence(model, rows) for model in models])
    score = np.stack([_ratio(told, saw, number) for number in range(len(models))])
    needed = {rate: rows_needed(rate, len(models)) for rate in RATES}
    at = tuple(
        _at(rate, score, saw, needed=0 if rows.n >= least else least)
        for rate, least in needed.items()
    )
    area = float(roc_auc_score(saw.ravel(), score.ravel()))
    return Membership(len(models), rows.n, area, at)


def rows_needed(rate: float, n_models: int) -> int:
    """Return how many rows a table needs so that a rate of false alarms can be judged."""
    return int(np.ceil(_LEAST_ALARMS / (rate * (n_models // 2))))


def _confidence(model: ForestModel, rows: Rows) -> Floats:
    """Return how sure a model is of each row's label, on a scale that is about normal."""
    (found,) = model.predict_batches(iter([rows.values]))
    if model.schema.label.kind == "class":
        share = found[np.arange(rows.n), rows.target.astype(np.intp)].clip(_FLOOR, 1 - _FLOOR)
        sure: Floats = np.log(share / (1 - share))
        return sure
    off: Floats = -np.log((found[:, 0] - rows.target) ** 2 + _TINY)
    return off


def _ratio(told: Floats, saw: Bools, target: int) -> Floats:
    """Return the log likelihood ratio of each row for one model, from the other models."""
    others = np.arange(len(told)) != target
    inside, outside = saw[others], ~saw[others]
    told_others = told[others]
    parts = []
    for is_in in (inside, outside):
        n = np.maximum(is_in.sum(axis=0), 1)
        mean = np.where(is_in, told_others, 0.0).sum(axis=0) / n
        spread = np.sqrt(np.where(is_in, (told_others - mean) ** 2, 0.0).sum() / is_in.sum())
        parts.append(stats.norm.logpdf(told[target], mean, max(float(spread), _TINY)))
    ratio: Floats = parts[0] - parts[1]
    return ratio


def _at(rate: float, score: Floats, saw: Bools, *, needed: int) -> MembershipAt:
    """Return who is called a member above the threshold that raises so many false alarms."""
    outside = np.sort(score[~saw])[::-1]
    called = score > outside[min(int(rate * outside.size), outside.size - 1)]
    return MembershipAt(
        rate,
        share_of(int((called & saw).sum()), int(saw.sum())),
        share_of(int((called & ~saw).sum()), int((~saw).sum())),
        needed,
    )
