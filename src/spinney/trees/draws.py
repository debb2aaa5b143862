"""Draw the candidate columns of every open node when no single party knows all columns.

The coordinator numbers all columns and knows only which party owns each. It draws by the hash of
the node's key, as a forest over pooled columns does, and skips columns that their party reports as
exhausted.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney import seeds
from spinney.trees._kernels import columns as kernels
from spinney.trees._kernels import level as level_kernels
from spinney.trees.frontier import tree_keys
from spinney.trees.partition import Partition
from spinney.trees.threads import equal_ranges, run_ranges, thread_count
from spinney.typing import Bools, Keys

_DRAW_WORK = 64  # rows that cost as much as drawing a node's features


@dataclass(frozen=True)
class DrawnColumns:
    """The columns of every open node, in the order they were drawn."""

    column: NDArray[np.int32]  # (n_open, n_slots) -1: none
    phase: NDArray[np.uint8]  # (n_open, n_slots) where cells begin, for the column's owner


@dataclass(frozen=True)
class OpenKeys:
    """The open nodes as the coordinator knows them: keys, and which columns are exhausted."""

    n_slots: int
    key: Keys
    phase_key: Keys
    exhausted: Bools  # (n_open, n_columns)

    @classmethod
    def of_roots(cls, seed: int, n_trees: int, n_slots: int, exhausted: Bools) -> "OpenKeys":
        """Return the roots of all trees; `exhausted` columns have only one value."""
        keys = tree_keys(seed, n_trees)
        every = np.tile(exhausted, (n_trees, 1))
        return cls(n_slots, seeds.mix(keys ^ np.uint64(1)), keys, every)

    @property
    def n_open(self) -> int:
        """How many nodes are open."""
        return int(self.key.size)

    def draw(self) -> DrawnColumns:
        """Draw the columns of every open node."""
        shape = (self.n_open, self.n_slots)
        column, phase = np.empty(shape, np.int32), np.empty(shape, np.uint8)

        def task(first: int, last: int) -> None:
            part = slice(first, last)
            kernels.draw_columns(
                self.key[part], self.phase_key[part], self.exhausted[part], self.n_slots,
                column[part], phase[part],
            )  # fmt: skip

        n_threads = thread_count(None)
        run_ranges(task, equal_ranges(np.full(self.n_open, _DRAW_WORK), n_threads), n_threads)
        return DrawnColumns(column, phase)

    def after(
        self, partition: Partition, column: NDArray[np.int32], child_exhausted: Bools
    ) -> "OpenKeys":
        """Return the open children, given each node's split column and whether it is exhausted."""
        parents = np.flatnonzero(partition.split)
        keys = np.empty(2 * parents.size, np.uint64)
        level_kernels.child_keys(self.key[parents], keys)
        child = np.flatnonzero(partition.child_open)
        parent = parents[child >> 1]
        exhausted = self.exhausted[parent]
        done = np.flatnonzero(child_exhausted[child])
        exhausted[done, column[child[done] >> 1]] = True
        # If every node has all columns, cells begin at the same place throughout a tree.
        shared = self.n_slots == self.exhausted.shape[1]
        phase_key = self.phase_key[parent] if shared else keys[child]
        return OpenKeys(self.n_slots, keys[child], phase_key, exhausted)
