"""A finished forest: flat arrays, prediction, importances.

Nothing here depends on how the forest was grown. Thresholds are real values, so a forest needs no
bins to predict; categories are identified by the bins that the model stores for them.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import predict as kernels
from spinney.trees.threads import Range, run_ranges
from spinney.typing import Bools, Floats, Integers

_CHUNK = 2048  # rows that descend together: their values stay in the second-level cache
_LEAST_CHUNK = 512  # the fewest rows worth a thread
_WORD_BITS = 32
RowValues = NDArray[np.float32]  # (n_rows, n_columns), categories by their bin


@dataclass(frozen=True)
class Forest:
    """Trees one after another; nodes are numbered over the whole forest.

    A row goes left if its value is at most `threshold`, or if its category's bin is in the set.
    The right child follows the left one; a leaf is its own left child.
    """

    tree_start: Integers  # (n_trees + 1,)
    feature: NDArray[np.int32]  # -1 for a leaf
    threshold: NDArray[np.float32]
    left: NDArray[np.uint32]
    missing_left: Bools
    subset: NDArray[np.int32]  # row of bin_sets, -1 for numbers
    bin_sets: NDArray[np.uint64]  # (n_sets, 4)
    moments: Integers  # (n_nodes, width) class counts, or weight and fixed-point target sum
    gain: Floats  # drop in weighted impurity; 0 for leaves
    value: Floats  # (n_nodes, n_outputs)

    @property
    def n_trees(self) -> int:
        """How many trees there are."""
        return int(self.tree_start.size) - 1

    @property
    def n_nodes(self) -> int:
        """How many nodes there are in all trees."""
        return int(self.feature.size)

    def tree(self, number: int) -> "Forest":
        """Return one tree as a separate forest."""
        part = slice(int(self.tree_start[number]), int(self.tree_start[number + 1]))
        subset = self.subset[part].copy()
        has_set = subset >= 0
        sets = self.bin_sets[subset[has_set]]
        subset[has_set] = np.arange(len(sets), dtype=np.int32)
        return Forest(
            np.array([0, part.stop - part.start], np.int64),
            self.feature[part],
            self.threshold[part],
            (self.left[part].astype(np.int64) - part.start).astype(np.uint32),
            self.missing_left[part],
            subset,
            sets,
            self.moments[part],
            self.gain[part],
            self.value[part],
        )

    @cached_property
    def depths(self) -> NDArray[np.int64]:
        """The depth of each tree; a tree that is one leaf has depth 0."""
        reached = np.zeros(self.n_trees, np.int64)
        node, tree, depth = self.tree_start[:-1], np.arange(self.n_trees), 0
        while True:
            inner = self.feature[node] >= 0
            left, tree, depth = self.left[node[inner]].astype(np.int64), tree[inner], depth + 1
            if not left.size:
                return reached
            reached[tree] = depth
            node, tree = np.concatenate([left, left + 1]), np.concatenate([tree, tree])

    @cached_property
    def leaves_by_level(self) -> Integers:
        """All leaves, by depth, then by tree, then from left to right."""
        node, found = self.tree_start[:-1], []
        while node.size:
            inner = self.feature[node] >= 0
            found.append(node[~inner])
            left = self.left[node[inner]].astype(np.int64)
            node = np.stack([left, left + 1], axis=1).reshape(-1)
        return np.concatenate(found)

    @cached_property
    def _links(self) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Node records for prediction; a leaf leads to itself for every value."""
        links = np.zeros((self.n_nodes, 3), np.uint32)
        links[:, 0] = self.left
        links[:, 1] = self.feature.clip(0)
        links[:, 2] = np.where(self.subset >= 0, self.subset + 2, self.missing_left)
        is_leaf = self.feature < 0
        links[is_leaf, 2] = 1  # a missing value goes left too, so it stays in the leaf
        return links, np.where(is_leaf, np.float32(np.inf), self.threshold)

    @cached_property
    def _words(self) -> tuple[NDArray[np.uint32], int]:
        """Each node as two words, and the bits of its feature; see the kernels.

        There are none if a tree has too many nodes, or the forest too many columns, for them.
        """
        links, thresholds = self._links
        bits = max(1, int(links[:, 1].max(initial=0)).bit_length())
        sizes = np.diff(self.tree_start)
        if int(sizes.max(initial=0)).bit_length() + bits > _WORD_BITS:
            return np.zeros(0, np.uint32), bits
        words = np.empty((self.n_nodes, 2), np.uint32)
        words[:, 0] = links[:, 0]
        part = slice(int(self.tree_start[0]), int(self.tree_start[-1]))  # the trees may be some
        words[part, 0] -= np.repeat(self.tree_start[:-1], sizes).astype(np.uint32)
        words[:, 0] <<= np.uint32(bits)
        words[:, 0] |= links[:, 1]
        words[:, 1] = thresholds.view(np.uint32)
        return words.reshape(-1), bits

    def add_predictions(
        self,
        rows: RowValues,
        out: Floats,
        *,
        seen: Bools | None = None,
        n_threads: int = 1,
    ) -> None:
        """Add every tree's leaf values to `out`, except for trees that have `seen` the row."""
        skip = np.zeros((0, 0), np.bool_) if seen is None else seen
        depths, words = self.depths, self._words

        def task(first: int, last: int) -> None:
            part = slice(first, last)
            kernels.add_predictions(
                rows[part], self._is_plain(rows[part]), self.tree_start[:-1], depths,
                *words, *self._links, self.bin_sets, self.value, skip[part], out[part],
            )  # fmt: skip

        run_ranges(task, row_ranges(len(rows), n_threads), n_threads)

    def leaves(self, rows: RowValues, tree: int) -> NDArray[np.uint32]:
        """Return the leaf of each row in one tree."""
        out = np.empty(len(rows), np.uint32)
        root, depth = self.tree_start[tree], self.depths[tree]
        plain = self._is_plain(rows)
        kernels.leaves_of_tree(
            rows, plain, root, depth, *self._words, *self._links, self.bin_sets, out
        )
        return out

    def _is_plain(self, rows: RowValues) -> bool:
        """Return whether prediction can ignore missing values and categories for these rows."""
        can_be = len(self.bin_sets) == 0 and self._words[0].size > 0
        return can_be and not kernels.has_nan(rows)

    def importances(self, n_columns: int) -> Floats:
        """Return each column's share of the impurity decrease, averaged over trees."""
        total = np.zeros((self.n_trees, n_columns))
        split = np.flatnonzero(self.feature >= 0)
        tree = np.searchsorted(self.tree_start, split, side="right") - 1
        np.add.at(total, (tree, self.feature[split]), np.maximum(self.gain[split], 0.0))
        sums = total.sum(axis=1, keepdims=True)
        shares = np.divide(total, sums, out=np.zeros_like(total), where=sums > 0)
        grown = sums[:, 0] > 0
        if not grown.any():
            return np.zeros(n_columns)
        mean = shares[grown].mean(axis=0)
        normalised: Floats = mean / mean.sum()
        return normalised


def row_ranges(n_rows: int, n_threads: int) -> list[Range]:
    """Divide rows into ranges that descend together, each worth a thread."""
    size = min(_CHUNK, max(_LEAST_CHUNK, -(-n_rows // n_threads)))
    n_parts = max(1, n_rows // size)
    cuts = [n_rows * i // n_parts for i in range(n_parts + 1)]
    return list(pairwise(cuts))


def paths_end(tree_start: Integers, left: NDArray[np.uint32], is_leaf: Bools) -> bool:
    """Return whether every path ends: children come after their parent in the same tree."""
    n = left.size
    if tree_start.size < 2 or tree_start[0] != 0 or tree_start[-1] != n:
        return False
    sizes = np.diff(tree_start)
    if np.any(sizes < 1):
        return False
    node, child = np.arange(n), left.astype(np.int64)
    tree_end = np.repeat(tree_start[1:], sizes)
    if not np.all(np.where(is_leaf, child == node, (child > node) & (child + 1 < tree_end))):
        return False
    # One parent each; otherwise the number of paths, and the time to walk them, is unbounded.
    parents = child[~is_leaf]
    is_child = np.ones(n, np.int64)
    is_child[tree_start[:-1]] = 0
    n_parents = np.bincount(np.concatenate([parents, parents + 1]), minlength=n)
    return bool(np.array_equal(n_parents, is_child))
