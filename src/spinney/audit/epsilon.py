"""A lower bound on a private job's epsilon, from runs with and without one row.

The row is the most unusual one of the rarest class: noise hides it least. Each run gives one
number, how many rows of its class the model tells in its leaves, over all trees; of boosted trees,
what they predict for it.
"""

import numpy as np

from spinney.audit.lower_bound import bound_epsilon
from spinney.audit.rehearsal import Rehearsal, Rows
from spinney.audit.shares import share_of
from spinney.protocols.model import ForestModel
from spinney.protocols.training import PartyClaim, Training
from spinney.report.audited import EpsilonFound
from spinney.typing import Bools, Floats, Integers, Progress

_UNIT = "record, add or remove"
_READER = "reader"
_MOST_RUNS = 10**9


def claim_of(training: Training) -> tuple[float, float] | None:
    """Return the epsilon and delta that ledgers claim for one record against a reader."""
    held = [one for one in training.claims if (one.unit, one.view) == (_UNIT, _READER)]
    if not held or not all(_has_epsilon(one) for one in held):
        return None
    return (
        max(_number(one.epsilon) for one in held),
        max(_number(one.delta) for one in held),
    )


def _has_epsilon(claim: PartyClaim) -> bool:
    return claim.verdict == "EPSILON" and claim.epsilon is not None


def _number(text: str | None) -> float:
    """Return a fraction, written exactly, as a number."""
    top, _, bottom = (text or "0").partition("/")
    return float(top) / float(bottom or 1)


def find_epsilon(
    rehearsal: Rehearsal, claim: tuple[float, float], n_runs: int, progress: Progress
) -> EpsilonFound:
    """Run a job `n_runs` times with and `n_runs` times without one row."""
    rows = rehearsal.rows
    row = unusual_row(rows)
    without = np.ones(rows.n, np.bool_)
    without[row] = False
    told: list[Floats] = []
    for number, job in enumerate((rehearsal, rehearsal.part(without))):
        found = []
        for run in range(n_runs):
            progress("runs with and without a row", number * n_runs + run, 2 * n_runs)
            found.append(_statistic(job.model(), rows, row))
        told.append(np.array(found))
    epsilon, delta = claim
    bound = bound_epsilon(lambda _: told[0], lambda _: told[1], n_runs, delta=delta)
    same = all(np.ptp(runs) == 0 for runs in told)
    return EpsilonFound(
        epsilon, delta, bound.epsilon, n_runs, bound.event, most_shown(n_runs), same
    )


def most_shown(n_runs: int) -> float:
    """Return the largest epsilon that so many runs on each table can show."""
    n_tried = n_runs - n_runs // 2
    sure = share_of(n_tried, n_tried).low
    return float(np.log(sure / (1 - sure)))


def runs_needed(claim: float) -> int:
    """Return how many runs on each table could disprove a claim."""
    n_runs = 20
    while most_shown(n_runs) <= claim and n_runs < _MOST_RUNS:
        n_runs = int(1.1 * n_runs)
    return n_runs


def unusual_row(rows: Rows) -> int:
    """Return the row of the rarest class whose cells lie furthest from the middle."""
    ranks = np.argsort(np.argsort(rows.values, axis=1), axis=1)
    far: Floats = np.abs(ranks / max(rows.n - 1, 1) - 0.5).mean(axis=0)
    return int(np.where(_rarest(rows), far, -1.0).argmax())


def _rarest(rows: Rows) -> Bools:
    if rows.target.dtype.kind == "f":
        return np.ones(rows.n, np.bool_)
    counts: Integers = np.bincount(rows.target)
    held = np.where(counts > 0, counts, counts.max() + 1)
    rarest: Bools = rows.target == held.argmin()
    return rarest


def _statistic(model: ForestModel, rows: Rows, row: int) -> float:
    """Return how many rows of the row's class its leaves tell; boosted, how well the row fits."""
    values = rows.values[:, row : row + 1]
    is_class = model.schema.label.kind == "class"
    label = int(rows.target[row]) if is_class else 0
    if model.boosted is not None:  # its leaves tell no rows
        (told,) = model.predict_batches(iter([values]))
        return float(told[0, label])
    cells = model.rows(values)
    moments = model.forest.moments
    leaves = [int(model.forest.leaves(cells, tree)[0]) for tree in range(model.forest.n_trees)]
    return float(moments[leaves, label].sum())
