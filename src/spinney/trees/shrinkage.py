"""Leaves that borrow from the nodes above them.

Hierarchical shrinkage (Agarwal, Tan, Ronen, Singh and Yu 2022): a node's value is its parent's, and
of what it differs from that only n / (n + strength), where n are the parent's rows. It needs no
rows, so it costs nothing; where labels carry noise, small leaves would else hold little but noise.
"""

import numpy as np

from spinney.trees.forest import Forest
from spinney.typing import Floats


def shrunk(forest: Forest, values: Floats, rows: Floats, strength: float) -> Floats:
    """Return the nodes' values, each moved towards those above it.

    Parameters
    ----------
    forest
        Says which node is above which.
    values
        (n_nodes, n_outputs) of every node, leaves or not.
    rows
        (n_nodes,) how many rows each was found from.
    strength
        As many rows as are believed half: 0 changes nothing.
    """
    out = values.copy()
    level = forest.tree_start[:-1]
    while level.size:
        level = level[forest.feature[level] >= 0]
        share = (rows[level] / (rows[level] + strength))[:, None]
        for side in (0, 1):
            child = forest.left[level].astype(np.int64) + side
            out[child] = out[level] + share * (values[child] - values[level])
        level = np.concatenate([forest.left[level], forest.left[level] + 1]).astype(np.int64)
    return out
