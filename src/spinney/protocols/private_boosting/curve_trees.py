"""Curves as trees: one for each column, with a leaf for every bin, as a model holds them."""

import numpy as np

from spinney.protocols.noisy_boosting.coordinator import Boosting, GrownBatch
from spinney.trees.bounded_gradients import VALUE_BITS
from spinney.trees.curve_fit import CurveFit
from spinney.trees.drawn_trees import DrawnTrees
from spinney.trees.dtypes import MISSING
from spinney.trees.posterior import Steps
from spinney.typing import Floats, Integers


def curve_trees(boosting: Boosting, fit: CurveFit, total: Integers) -> list[GrownBatch]:
    """Return the curves with these coefficients as a batch of trees, if a column has two bins.

    Bins are laid where rows are, so that each counts as holding as many.
    """
    columns = boosting.binning.columns
    chosen = np.flatnonzero(columns.n_bins > 1)
    if not chosen.size:
        return []
    trees = DrawnTrees.whole(columns, chosen)
    n_rows = max(int(boosting.so_far.facts[: boosting.public.plan.n_base].sum()), 0)
    shape = (chosen.size, 1 << trees.depth)
    value, deviation, weight = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    values, deviations = fit.terms.values(total), fit.deviations
    for tree, column in enumerate(chosen):
        bins = np.append(np.arange(columns.n_bins[column]), MISSING)
        leaf = trees.leaves(np.tile(bins.astype(np.uint8), (columns.n_columns, 1)), tree)
        value[tree, leaf], deviation[tree, leaf] = values[column, bins], deviations[column, bins]
        weight[tree, leaf[:-1]] = n_rows / columns.n_bins[column]
    steps = Steps(
        tuple(_levels(value * 2.0**-VALUE_BITS, weight, trees.depth)),
        tuple(_levels(deviation, weight, trees.depth)),
    )
    leaves = value.astype(np.int64).reshape(1, -1)
    return [GrownBatch(trees, steps, weight.reshape(1, -1), leaves)]


def _levels(value: Floats, weight: Floats, depth: int) -> list[Floats]:
    """Return what nodes of every level hold, (1, nodes): the mean of their leaves."""
    found = [value.reshape(1, -1)]
    for _ in range(depth):
        total = weight[:, 0::2] + weight[:, 1::2]
        held = weight[:, 0::2] * value[:, 0::2] + weight[:, 1::2] * value[:, 1::2]
        value, weight = held / np.maximum(total, 1e-9), total
        found.insert(0, value.reshape(1, -1))
    return found
