"""Attribute inference: who knows a member's label and all cells but one, and asks the model.

The guess is the value under which the label is likeliest, each weighed by how common it is
(Fredrikson et al. 2014). A model of the world guesses well for everybody; what it gives away of its
members is how much better it does for them than for rows that it never saw (Yeom et al. 2018). The
column is chosen with one model and tried with another.
"""

import numpy as np
from numpy.typing import NDArray

from spinney.audit.halves import Halves
from spinney.audit.rehearsal import Rows
from spinney.audit.shares import share_of
from spinney.protocols.model import ForestModel
from spinney.report.audited import Attribute
from spinney.typing import Bools, Floats, Integers, Values

_MOST_COLUMNS = 8  # the most important ones
_MOST_VALUES = 8  # the commonest categories
_PARTS = 5  # of a number's values, equally many rows in each


def infer_attribute(
    models: tuple[ForestModel, ...], halves: Halves, rows: Rows
) -> Attribute | None:
    """Return the column that gives most away, for models that saw some of the rows."""
    first, second = models[0], models[1]
    ranked = np.argsort(-first.forest.importances(len(first.schema.columns)), kind="stable")
    best, most = -1, -np.inf
    for column in ranked[:_MOST_COLUMNS].tolist():
        right = _right(first, rows, column)
        if right is None:
            continue
        seen = halves.saw[0]
        gap = float(right[seen].mean() - right[~seen].mean())
        if gap > most:
            best, most = column, gap
    if best < 0:
        return None
    right = _right(second, rows, best)
    assert right is not None
    seen = halves.saw[1]
    groups = _groups(second, rows.values[best], best)
    return Attribute(
        second.schema.columns[best].name,
        share_of(int(right[seen].sum()), int(seen.sum())),
        share_of(int(right[~seen].sum()), int((~seen).sum())),
        float(np.bincount(groups[groups >= 0]).max() / max((groups >= 0).sum(), 1)),
    )


def _right(model: ForestModel, rows: Rows, column: int) -> Bools | None:
    """Return whether each row's cell is guessed; None: the column has one value."""
    groups = _groups(model, rows.values[column], column)
    n = int(groups.max(initial=-1)) + 1
    if n < 2:
        return None
    likely = np.full((n, rows.n), -np.inf)
    for group in range(n):
        inside = groups == group
        if not inside.any():
            continue
        changed = rows.values.copy()
        changed[column] = np.median(rows.values[column][inside])
        likely[group] = inside.mean() * _fit(model, changed, rows)
    found: Bools = likely.argmax(axis=0) == groups
    return found


def _groups(model: ForestModel, values: NDArray[np.float32], column: int) -> Integers:
    """Return the group of each value: its category, or its part of the numbers; -1: none."""
    known = np.isfinite(values)
    found = np.full(values.size, -1, np.int64)
    if len(model.bin_of_category[column]):
        kinds, counts = np.unique(values[known], return_counts=True)
        for group, kind in enumerate(kinds[np.argsort(-counts, kind="stable")][:_MOST_VALUES]):
            found[values == kind] = group
        return found
    cuts = np.unique(np.quantile(values[known], np.linspace(0, 1, _PARTS + 1)[1:-1]))
    raw = np.searchsorted(cuts, values[known], side="left")
    found[known] = np.unique(raw, return_inverse=True)[1]
    return found


def _fit(model: ForestModel, values: Values, rows: Rows) -> Floats:
    """Return how well the label fits changed rows."""
    (told,) = model.predict_batches(iter([values]))
    if model.schema.label.kind == "class":
        share: Floats = told[np.arange(rows.n), rows.target.astype(np.intp)]
        return share
    apart = np.abs(told[:, 0] - rows.target)
    near: Floats = np.exp(-apart / max(float(np.std(rows.target)), 1e-9))
    return near
