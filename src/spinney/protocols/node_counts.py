"""What a party of a private tree counts in open nodes, before noise; nothing here is sent."""

import numpy as np

from spinney.protocols.private_rows import PrivateRows
from spinney.protocols.tree_questions import Grown
from spinney.trees.public_cells import fixed_costs
from spinney.typing import Integers


class NodeCounts:
    """A party's own rows, counted exactly."""

    def __init__(self, rows: PrivateRows) -> None:
        self._rows = rows

    def cells(self, grown: Grown) -> Integers:
        """Count own rows by open node, cell and class."""
        public = grown.public
        nodes = [
            grown.leaves.open_node[grown.leaves.of_rows(rows, 0)]
            for rows, _ in self._rows.batches(public.binning)
        ]
        node = np.concatenate([np.zeros(0, np.int64), *nodes])
        table = self._rows.table(public.binning)
        return public.cells.counts(table, node, grown.frontier, public.plan.n_classes)

    def pairs(self, grown: Grown) -> Integers:
        """Count own rows by two cells and class, in the root."""
        public = grown.public
        table = self._rows.table(public.binning)
        return public.cells.pairs(table, grown.frontier, public.plan.n_classes)

    def costs(self, grown: Grown) -> Integers:
        """Return what every cut of every open node would leave of impurity, by own rows."""
        cells = grown.public.cells
        return fixed_costs(*cells.cuts.sides(self.cells(grown), cells.start))
