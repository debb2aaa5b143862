"""Rows rebuilt from the trees alone.

A leaf that tells a count of one says that one training row of that class lies in its box. Every
other tree has that row in one of its leaves too: a leaf that meets the box, and tells a row of the
class. Where only one leaf does, the box shrinks to what both share. Ferry, Fukasawa, Pascal and
Vidal (2024) solve all these constraints at once; this is their propagation without the search.
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
from spinney.seeds import generator
from spinney.typing import Bools, Floats, Integers

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
    chosen = np.sort(generator(0).permutation(alone)[:_MOST_REBUILT])
    truth = Truth.of(model, cells.astype(np.float64))
    label = classes_of(model, rehearsal)
    guess = _Rebuilder(model, told, truth).rows(where[chosen], label[chosen])
    found = truth.judged(chosen, guess)
    blind = truth.judged(chosen, np.broadcast_to(truth.typical, guess.shape))
    return Rebuilt(
        READER, structures, isolated, found.cells, blind.cells.share, found.error, blind.error
    )


def classes_of(model: ForestModel, rehearsal: Rehearsal) -> NDArray[np.intp]:
    """Return the class of each row; a model of numbers has one class."""
    target = rehearsal.rows.target
    if model.schema.label.kind == "class":
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
        starts = forest.tree_start
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
            meets = boxes.meets(box) & self._holds(leaves, label)
            if meets.sum() == 1:
                box = box.cut_by(boxes.part(np.flatnonzero(meets)))
        return box

    def _holds(self, leaves: NDArray[np.intp], label: int) -> Bools:
        """Return which leaves may hold a row of a class; a count that is not told may be any."""
        found: Bools = self._told[leaves, label] != 0
        return found

    def _guess(self, box: Boxes) -> Floats:
        """Return the middle of a box, and the likeliest category that it leaves open."""
        truth = self._truth
        low, high = np.maximum(box.low[0], truth.low), np.minimum(box.high[0], truth.high)
        guess: Floats = (low + high) / 2
        for place, column in enumerate(box.categories):
            bits = (box.bins[0, place][:, None] & _BITS).astype(np.bool_).ravel()
            usual = int(truth.typical[column])
            last = int(truth.high[column]) + 1
            is_open = np.flatnonzero(bits[:last])
            guess[column] = usual if bits[usual] or not is_open.size else is_open[0]
        return guess
