"""Fit trees to one party's rows: given structures, or the structure that CART chooses.

All arithmetic is in `_kernels/structures`; evaluating a population is one call.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import structures as kernels
from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.forest import Forest
from spinney.trees.genome import NIL, Genes, drop_detached, n_genes
from spinney.trees.layout import LeafValues
from spinney.trees.level import empty_bin_sets
from spinney.trees.threads import run_ranges
from spinney.typing import Bools, Codes, Floats, Integers

_LEAST = 1  # rows in a leaf
_WORTH_A_THREAD = 4096  # rows times structures


@dataclass(frozen=True)
class Outcomes:
    """The scores of trees on some rows, one line per tree; regression errors in fixed point."""

    n_rows: int
    confusion: Integers  # (n_trees, n_classes, n_classes) true by predicted; empty for regression
    errors: Floats  # (n_trees, 2) sums of squared and of absolute errors


@dataclass(frozen=True)
class FittedTree:
    """One tree with its nodes; children are in pairs after their parent."""

    feature: NDArray[np.int32]
    cut: NDArray[np.uint8]
    missing_left: Bools
    bin_sets: NDArray[np.uint64]  # (n_nodes, 4)
    left: Integers
    moments: Integers
    gain: Floats

    @property
    def n_decisions(self) -> int:
        """The number of decision nodes."""
        return int((self.feature >= 0).sum())

    def genes(self, depth: int) -> NDArray[np.int16]:
        """Return the tree's structure: the part of its given structure that rows have reached."""
        genes = np.full(n_genes(depth), NIL, np.int16)
        queue = [(0, 0, 0)]  # node, gene, level
        while queue:
            node, gene, level = queue.pop()
            if self.feature[node] >= 0:
                genes[gene] = self.feature[node]
                left, below = int(self.left[node]), 1 << (depth - level - 1)
                queue += [(left, gene + 1, level + 1), (left + 1, gene + below, level + 1)]
        return genes


@dataclass(frozen=True)
class FitTable:
    """Binned rows, column by column, with their targets."""

    codes: Codes  # (n_columns, n_rows)
    n_bins: Integers
    is_category: Bools
    target: NDArray[np.int32]
    n_classes: int  # 0 for regression

    @classmethod
    def of(cls, table: BinnedTable, binning: Binning, n_classes: int) -> "FitTable":
        """Return a party's table in the layout of the kernels."""
        blocks = [
            table.codes[first * table.n_columns : last * table.n_columns].reshape(
                table.n_columns, -1
            )
            for first, last in zip(table.block_start[:-1], table.block_start[1:], strict=True)
        ]
        codes = np.ascontiguousarray(np.concatenate(blocks, axis=1))
        columns = binning.columns
        return cls(
            codes, columns.n_bins, columns.is_category, table.target.astype(np.int32), n_classes
        )

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return len(self.codes)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.codes.shape[1])

    @cached_property
    def all_rows(self) -> Integers:
        """The indices of all rows."""
        return np.arange(self.n_rows)

    def score(
        self, genes: Genes, depth: int, fit: Integers, judged: Integers, *, n_threads: int = 1
    ) -> Outcomes:
        """Fit every structure to the rows `fit`; return its scores on the rows `judged`."""
        n = len(genes)
        confusion, errors = self._scores(n)

        def task(first: int, last: int) -> None:
            kernels.score_structures(
                self.codes, self.n_bins, self.is_category, self.target, self.n_classes,
                genes, depth, _LEAST, fit, judged, first, last, confusion, errors,
            )  # fmt: skip

        parts = min(n_threads, n) if n * fit.size >= _WORTH_A_THREAD else 1
        cuts = [n * i // max(parts, 1) for i in range(max(parts, 1) + 1)]
        run_ranges(task, list(pairwise(cuts)), n_threads)
        return Outcomes(judged.size, confusion, errors)

    def fitted(self, genes: NDArray[np.int16], depth: int, rows: Integers) -> FittedTree:
        """Return a structure fitted to some rows."""
        return self._fit(genes.copy(), depth, rows, rows[:0], is_free=False)[0]

    def cart(self, depth: int, rows: Integers) -> tuple[FittedTree, NDArray[np.int16]]:
        """Return the tree that CART grows on some rows, and its structure."""
        genes = np.full(n_genes(depth), -1, np.int16)
        return self._fit(genes, depth, rows, rows[:0], is_free=True)[0], genes

    def cart_scores(self, depth: int, fit: Integers, judged: Integers) -> Outcomes:
        """Return the scores of CART's tree cut off at each depth, 0 to `depth`."""
        genes = np.full(n_genes(depth), -1, np.int16)
        return self._fit(genes, depth, fit, judged, is_free=True, by_depth=True)[1]

    def scored(
        self, genes: NDArray[np.int16], depth: int, fit: Integers, judged: Integers
    ) -> Outcomes:
        """Return the scores of one structure."""
        return self.score(genes[None], depth, fit, judged)

    def _scores(self, n: int) -> tuple[Integers, Floats]:
        return np.zeros((n, self.n_classes, self.n_classes), np.int64), np.zeros((n, 2))

    def _fit(
        self,
        genes: NDArray[np.int16],
        depth: int,
        fit: Integers,
        judged: Integers,
        *,
        is_free: bool,
        by_depth: bool = False,
    ) -> tuple[FittedTree, Outcomes]:
        most = min((2 << depth) - 1, 2 * max(fit.size, 1) + 1)
        confusion, errors = self._scores(depth + 1 if by_depth else 1)
        nodes: tuple[NDArray[Any], ...] = (
            np.empty(most, np.int32),
            np.empty(most, np.uint8),
            np.empty(most, np.bool_),
            np.zeros((most, 4), np.uint64),
            np.empty(most, np.int64),
            np.empty((most, self.n_classes or 2), np.int64),
            np.empty(most),
        )
        n = kernels.fit_structure(
            self.codes, self.n_bins, self.is_category, self.target, self.n_classes,
            genes, depth, is_free, _LEAST, fit.copy(), judged.copy(), by_depth, confusion, errors,
            *nodes,
        )  # fmt: skip
        tree = FittedTree(*(part[: int(n)].copy() for part in nodes))
        return tree, Outcomes(judged.size, confusion, errors)


def skeletons(genes: Genes, depth: int, n_classes: int) -> list[FittedTree]:
    """Return structures as unfitted trees: no cuts, and empty leaves."""
    trees = []
    for structure in drop_detached(genes, depth):
        feature, left, queue = [0], [0], [(0, 0, 0)]  # node, gene, level
        while queue:
            node, gene, level = queue.pop()
            is_leaf = level == depth or structure[gene] < 0
            feature[node] = -1 if is_leaf else int(structure[gene])
            left[node] = node if is_leaf else len(feature)
            if not is_leaf:
                below = 1 << (depth - level - 1)
                queue += [(len(feature), gene + 1, level + 1)]
                queue += [(len(feature) + 1, gene + below, level + 1)]
                feature += [0, 0]
                left += [0, 0]
        n = len(feature)
        trees.append(
            FittedTree(
                np.array(feature, np.int32),
                np.zeros(n, np.uint8),
                np.zeros(n, np.bool_),
                np.zeros((n, 4), np.uint64),
                np.array(left, np.int64),
                np.zeros((n, n_classes or 2), np.int64),
                np.zeros(n),
            )
        )
    return trees


def forest_of(
    trees: list[FittedTree], binnings: list[Binning], values: LeafValues, gain_unit: float = 1.0
) -> Forest:
    """Join trees, each with the binning it was fitted with, into one forest."""
    sizes = [tree.feature.size for tree in trees]
    starts = np.r_[0, np.cumsum(sizes)].astype(np.int64)
    feature = np.concatenate([tree.feature for tree in trees])
    moments = np.concatenate([tree.moments for tree in trees])
    is_set = np.concatenate([_is_set(t, b) for t, b in zip(trees, binnings, strict=True)])
    subset = np.full(feature.size, -1, np.int32)
    subset[is_set] = np.arange(int(is_set.sum()))
    bin_sets = np.concatenate([tree.bin_sets for tree in trees])[is_set]
    return Forest(
        starts,
        feature,
        np.concatenate([_thresholds(t, b) for t, b in zip(trees, binnings, strict=True)]),
        np.concatenate(
            [tree.left + start for tree, start in zip(trees, starts, strict=False)]
        ).astype(np.uint32),
        np.concatenate([tree.missing_left for tree in trees]),
        subset,
        bin_sets if len(bin_sets) else empty_bin_sets(0),
        moments,
        np.concatenate([tree.gain for tree in trees]) * gain_unit,
        values.of(moments),
    )


def _is_set(tree: FittedTree, binning: Binning) -> Bools:
    """Return which nodes split on a category."""
    is_category = np.append(binning.columns.is_category, False)
    found: Bools = is_category[tree.feature]
    return found


def _thresholds(tree: FittedTree, binning: Binning) -> NDArray[np.float32]:
    """Return the threshold of each cut; 0 for leaves."""
    found = np.zeros(tree.feature.size, np.float32)
    cuts = tree.feature >= 0
    found[cuts] = binning.thresholds(tree.feature[cuts], tree.cut[cuts])
    return found
