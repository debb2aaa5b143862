"""Draw the candidate columns of every open node when no single party knows all columns.

The coordinator numbers all columns and knows only which party owns each. It draws by the hash of
the node's key, as a forest over pooled columns does, and skips columns that their party reports as
exhausted.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spinney import seeds
from spinney.trees._kernels import columns as kernels
from spinney.trees._kernels import level as level_kernels
from spinney.trees.batch import ColumnRules, draw_share
from spinney.trees.frontier import tree_keys
from spinney.trees.partition import Partition
from spinney.trees.threads import equal_ranges, run_ranges, thread_count
from spinney.typing import Bools, Floats, Keys

_DRAW_WORK = 64  # rows that cost as much as drawing a node's features
_NO_PLACE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class DrawnColumns:
    """The columns of every open node, in the order they were drawn."""

    column: NDArray[np.int32]  # (n_open, n_slots) -1: none
    phase: NDArray[np.uint8]  # (n_open, n_slots) where cells begin, for the column's owner

    def of_party(
        self, party: int, owner: NDArray[np.int16], own_number: NDArray[np.int32]
    ) -> "DrawnPart":
        """Return a party's part, given the owner of each column and its number there."""
        n_slots, most = np.empty(len(self.column), np.uint16), self.column.size
        column, phase = np.empty(most, np.uint16), np.empty(most, np.uint8)
        place = np.empty(most, np.int32)
        n = kernels.offer(
            self.column, self.phase, owner, own_number, party, n_slots, column, phase, place
        )
        return DrawnPart(n_slots, column[:n], phase[:n], place[:n])


@dataclass(frozen=True)
class DrawnPart:
    """A party's part of the drawn columns, node after node."""

    n_slots: NDArray[np.uint16]  # (n_open,) how many columns of each node
    column: NDArray[np.uint16]  # by its number at the party
    phase: NDArray[np.uint8]
    place: NDArray[np.int32]  # of each column in the draw of its node


class Winners:
    """Whose cut wins each open node: the one with the highest gain."""

    def __init__(self, n_open: int) -> None:
        self._gain = np.full(n_open, -np.inf)
        self.party = np.full(n_open, -1, np.int16)  # -1: none
        self.place = np.full(n_open, _NO_PLACE, np.int64)  # of its column in the draw

    def compare(
        self,
        party: int,
        gain: Floats,
        slot: NDArray[np.int16],
        n_slots: NDArray[np.uint16],
        place: NDArray[np.int32],
    ) -> bool:
        """Add a party's best gains; return whether they are of columns that it was offered.

        If gains are equal, the column that was drawn first wins, as in a pooled table.
        """
        answer = (gain, slot, n_slots, place)
        return bool(kernels.compare(party, *answer, self._gain, self.party, self.place))


@dataclass(frozen=True)
class OpenKeys:
    """The open nodes as the coordinator knows them: keys, and which columns are exhausted."""

    n_slots: int
    key: Keys
    phase_key: Keys
    exhausted: Bools  # (n_open, n_columns)
    shares_phase: bool  # whether cells begin at the same place throughout a tree
    drawn: Bools | None = None  # (n_open, n_columns) the columns of each node's tree; None: all
    per_node: float = 1.0  # the share of those that a node draws

    @classmethod
    def of_roots(cls, seed: int, n_trees: int, n_slots: int, exhausted: Bools) -> "OpenKeys":
        """Return the roots of all trees; `exhausted` columns have only one value."""
        keys = tree_keys(seed, n_trees)
        every = np.tile(exhausted, (n_trees, 1))
        shared = n_slots == exhausted.size  # every node has all columns
        return cls(n_slots, seeds.mix(keys ^ np.uint64(1)), keys, every, shared)

    @classmethod
    def of_batch(cls, keys: Keys, rules: ColumnRules, exhausted: Bools) -> "OpenKeys":
        """Return the roots of a batch of boosted trees, as a batch over pooled columns has them."""
        every = np.ones((keys.size, exhausted.size), np.bool_)
        return cls(
            exhausted.size,
            seeds.mix(keys ^ np.uint64(1)),
            keys,
            np.tile(exhausted, (keys.size, 1)),
            rules.per_node >= 1.0,
            draw_share(every, keys, rules.per_tree),
            rules.per_node,
        )

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
        if self.drawn is not None and not (self.per_node >= 1.0 and self.drawn.all()):
            allowed = draw_share(self.drawn, self.key, self.per_node)
            may = np.take_along_axis(allowed, column.clip(0).astype(np.intp), axis=1)
            column = np.where(may, column, -1).astype(np.int32)
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
        phase_key = self.phase_key[parent] if self.shares_phase else keys[child]
        drawn = None if self.drawn is None else self.drawn[parent]
        return replace(self, key=keys[child], phase_key=phase_key, exhausted=exhausted, drawn=drawn)
