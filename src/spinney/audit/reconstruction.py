"""Rows rebuilt from the trees alone.

A leaf that tells a count of one says that one training row of that class lies in its box. In a
forest without a bootstrap every other tree has that row too, in a leaf that meets the box and tells
a row of the class. Where only one leaf does, the box shrinks to what both share. Ferry, Fukasawa,
Pascal and Vidal (2024) solve for all rows of all leaves at once, with a constraint solver, and so
get at forests with a bootstrap too; this is their propagation without the search. The guess is the
middle one of the known values in the box.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spinney.audit.boxes import Boxes, boxes_of
from spinney.audit.guesses import Truth
from spinney.audit.rehearsal import Rehearsal
from spinney.audit.shares import share_of
from spinney.audit.told import counts_told
from spinney.protocols.model import ForestModel
from spinney.report.audited import Rebuilt
from spinney.report.hardening import counts_classes
from spinney.seeds import generator
from spinney.typing import Floats, Integers

READER = "a reader of the model"
_MOST_REBUILT = 150  # rows; more would only narrow the interval
_BITS = np.uint64(1) << np.arange(64, dtype=np.uint64)


def structures_told(model: ForestModel, told: Integers) -> int:
    """Return how many leaves tell that one row of a class is in them."""
    return int(((told == 1).any(axis=1) & (model.forest.feature < 0)).sum())


def rebuild_from_trees(
    model: ForestModel, rehearsal: Rehearsal | None, *, is_noisy: bool
) -> Rebuilt:
    """Try to rebuild the training rows from a model; without rows, count who stands alone."""
    told = counts_told(model, is_noisy=is_noisy)
    structures = structures_told(model, told)
    if rehearsal is None:
        return Rebuilt(READER, structures)
    cells = model.rows(rehearsal.rows.values)
    where = isolating_leaves(model, rehearsal, cells, told)
    alone = np.flatnonzero(where >= 0)
    isolated = share_of(alone.size, len(where))
    if not alone.size:
        return Rebuilt(READER, structures, isolated)
    chosen = sample_of(alone)
    truth = Truth.of(model, rehearsal)
    guess = guess_rows(model, rehearsal, truth, where, chosen, told=told)
    found = truth.judged(chosen, guess)
    blind = truth.judged(chosen, np.broadcast_to(truth.typical, guess.shape))
    return Rebuilt(
        READER, structures, isolated, found.cells, blind.cells.share, found.error, blind.error
    )


def sample_of(alone: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return some of the isolated rows, always the same."""
    return np.sort(generator(0).permutation(alone)[:_MOST_REBUILT])


def guess_rows(
    model: ForestModel,
    rehearsal: Rehearsal,
    truth: Truth,
    where: Integers,
    chosen: NDArray[np.intp],
    *,
    told: Integers,
) -> Floats:
    """Guess the cells of some rows, each from the leaf `where` it is alone."""
    label = classes_of(model, rehearsal)
    return _Rebuilder(model, told, truth).rows(where[chosen], label[chosen])


def classes_of(model: ForestModel, rehearsal: Rehearsal) -> NDArray[np.intp]:
    """Return the class of each row; a model that counts rows alone has one class."""
    target = rehearsal.rows.target
    if counts_classes(model):
        return target.astype(np.intp)
    return np.zeros(target.size, np.intp)


def isolating_leaves(
    model: ForestModel, rehearsal: Rehearsal, cells: NDArray[np.float32], told: Integers
) -> Integers:
    """Return a leaf in which each row is told to be alone in its class; -1: there is none."""
    label = classes_of(model, rehearsal)
    found = np.full(label.size, -1, np.int64)
    n_classes = told.shape[1]
    for tree in range(model.forest.n_trees):
        leaf = model.forest.leaves(cells, tree).astype(np.int64)
        drawn, group = rehearsal.drawn(tree), leaf * n_classes + label
        is_true = np.bincount(group, weights=drawn)[group] == 1  # read rightly, not only told
        alone = (told[leaf, label] == 1) & is_true & (drawn > 0)
        found[alone & (found < 0)] = leaf[alone & (found < 0)]
    return found


class _Rebuilder:
    """Shrinks boxes tree by tree."""

    def __init__(self, model: ForestModel, told: Integers, truth: Truth) -> None:
        forest = model.forest
        self._boxes = boxes_of(model)
        self._told = told
        self._truth = truth
        roots = forest.moments[forest.tree_start[:-1]]
        shares_rows = bool(np.all(roots == roots[0]))  # no bootstrap: every tree has every row
        starts = forest.tree_start if shares_rows else forest.tree_start[:1]
        self._leaves = [
            np.flatnonzero(forest.feature[first:last] < 0) + first
            for first, last in pairwise(starts.tolist())
        ]
        self._of_leaf = [self._boxes.part(leaves) for leaves in self._leaves]

    def rows(self, leaves: Integers, labels: NDArray[np.intp]) -> Floats:
        """Return a guess for the row that is alone in each leaf."""
        pairs = zip(leaves.tolist(), labels.tolist(), strict=True)
        return np.stack([self._guess(self._shrunk(leaf, label)) for leaf, label in pairs])

    def _shrunk(self, leaf: int, label: int) -> Boxes:
        box = self._boxes.part(np.array([leaf]))
        for leaves, boxes in zip(self._leaves, self._of_leaf, strict=True):
            may_hold = self._told[leaves, label] != 0  # a count that is not told may be any
            meets = np.flatnonzero(boxes.meets(box) & may_hold)
            if meets.size == 1:
                box = box.cut_by(boxes.part(meets))
        return box

    def _guess(self, box: Boxes) -> Floats:
        """Return the middle of the known values in a box, and the commonest open category."""
        truth = self._truth
        low, high = np.maximum(box.low[0], truth.low), np.minimum(box.high[0], truth.high)
        guess: Floats = (low + high) / 2
        for column, values in enumerate(truth.known):
            inside = values[(values > box.low[0, column]) & (values <= box.high[0, column])]
            if inside.size:
                guess[column] = inside[(inside.size - 1) // 2]
        for place, column in enumerate(box.categories):
            is_open = (box.bins[0, place][:, None] & _BITS).astype(np.bool_).ravel()
            common = np.bincount(truth.known[column].astype(np.int64), minlength=is_open.size)
            guess[column] = (is_open * (common + 1e-6)).argmax()
        return guess
